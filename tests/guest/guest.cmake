# SPDX-License-Identifier: Apache-2.0
# Tests that run in the guest's kernel. Any folder may add some:
#
#   include(${CMAKE_SOURCE_DIR}/tests/guest/guest.cmake)
#   sunxi_guest_test(NAME provider.cbc COMMAND $<TARGET_FILE:cbc_test> --seed 1
#                    HARDWARE generic virtio TIMEOUT 30)
#
# NAME has no blank and no colon. HARDWARE says in which boots the test runs
# (default: the first two): generic, the kernel's software drivers; virtio, those and a
# virtio-crypto device; cryptodev, those and a /dev/crypto (tests/cryptodev). TIMEOUT is in seconds (default: run-list's). Generator
# expressions may be used. COMMAND runs as root, in the folder from which
# ctest runs the list, without the caller's environment; exit status 77 skips.
include_guard(GLOBAL)

set(SUNXI_GUEST_KERNEL_CACHE "" CACHE PATH
    "Folder for the guest's kernel (empty: in the user's cache folder)")
define_property(GLOBAL PROPERTY SUNXI_GUEST_LIST_generic
                BRIEF_DOCS "Tests for the guest without crypto hardware"
                FULL_DOCS "Lines for tests/guest/run-list")
define_property(GLOBAL PROPERTY SUNXI_GUEST_LIST_virtio
                BRIEF_DOCS "Tests for the guest with virtio-crypto"
                FULL_DOCS "Lines for tests/guest/run-list")
define_property(GLOBAL PROPERTY SUNXI_GUEST_LIST_cryptodev
                BRIEF_DOCS "Tests for the guest with /dev/crypto"
                FULL_DOCS "Lines for tests/guest/run-list")

function(sunxi_guest_test)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "NAME;TIMEOUT" "COMMAND;HARDWARE")
  if(NOT arg_NAME MATCHES "^[^: ]+$" OR NOT arg_COMMAND OR arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "sunxi_guest_test: bad arguments: ${ARGV}")
  endif()
  if(NOT arg_HARDWARE)
    set(arg_HARDWARE generic virtio)
  endif()
  set(line "${arg_NAME}")
  if(arg_TIMEOUT)
    string(APPEND line " ${arg_TIMEOUT}")
  endif()
  string(APPEND line ":")
  foreach(word IN LISTS arg_COMMAND)
    string(REPLACE "'" "'\\''" word "${word}")
    string(APPEND line " '${word}'")
  endforeach()
  foreach(hardware IN LISTS arg_HARDWARE)
    if(NOT hardware MATCHES "^(generic|virtio|cryptodev)$")
      message(FATAL_ERROR "sunxi_guest_test: unknown hardware ${hardware}")
    endif()
    set_property(GLOBAL APPEND_STRING PROPERTY SUNXI_GUEST_LIST_${hardware} "${line}\n")
  endforeach()
endfunction()

# Writes the lists, when all folders have added theirs.
function(sunxi_guest_write_lists folder)
  foreach(hardware generic virtio cryptodev)
    get_property(lines GLOBAL PROPERTY SUNXI_GUEST_LIST_${hardware})
    file(GENERATE OUTPUT "${folder}/${hardware}.list" CONTENT "${lines}")
  endforeach()
endfunction()
