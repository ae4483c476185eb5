# SPDX-License-Identifier: Apache-2.0
# Debian's armhf: cmake --toolchain tests/cross/arm-linux-gnueabihf.cmake -DSUNXI_SYSROOT=FOLDER
set(triplet arm-linux-gnueabihf)
set(processor armv7l)
set(qemu qemu-arm-static)
include(${CMAKE_CURRENT_LIST_DIR}/debian.cmake)
