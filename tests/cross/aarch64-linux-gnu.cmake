# SPDX-License-Identifier: Apache-2.0
# Debian's arm64: cmake --toolchain tests/cross/aarch64-linux-gnu.cmake -DSUNXI_SYSROOT=FOLDER
set(triplet aarch64-linux-gnu)
set(processor aarch64)
set(qemu qemu-aarch64-static)
include(${CMAKE_CURRENT_LIST_DIR}/debian.cmake)
