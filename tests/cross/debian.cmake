# SPDX-License-Identifier: Apache-2.0
# What Debian's cross compilers have in common; a toolchain file sets `triplet`, `processor` and `qemu` first.
# SUNXI_SYSROOT: a folder with that architecture's libraries, as tests/cross/cross makes it.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR ${processor})
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES SUNXI_SYSROOT)

set(CMAKE_CXX_COMPILER ${triplet}-g++)
set(CMAKE_LIBRARY_ARCHITECTURE ${triplet})
set(CMAKE_SYSROOT ${SUNXI_SYSROOT})
set(CMAKE_FIND_ROOT_PATH ${SUNXI_SYSROOT})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${SUNXI_SYSROOT})
set(ENV{PKG_CONFIG_LIBDIR} ${SUNXI_SYSROOT}/usr/lib/${triplet}/pkgconfig:${SUNXI_SYSROOT}/usr/share/pkgconfig)

# pkg-config would put the sysroot in front of this one, too.
set(SUNXI_MODULES_DIR /usr/lib/${triplet}/ossl-modules CACHE STRING "Where sunxi.so is installed")

# By its path: programs that tests start have to find it, too.
find_program(SUNXI_QEMU ${qemu} REQUIRED)
set(CMAKE_CROSSCOMPILING_EMULATOR ${SUNXI_QEMU} -L ${SUNXI_SYSROOT})
