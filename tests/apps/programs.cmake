# SPDX-License-Identifier: Apache-2.0
# Rows of programs other than OpenSSH's: on the board, on the stand-in for /dev/crypto and in the guest. Each runs
# few cases here; tests/apps/all runs them whole.
add_executable(processes_program processes.cpp)
target_link_libraries(processes_program PRIVATE sunxi_test_support)
add_dependencies(processes_program sunxi)

set(programs openssl s_server nginx haproxy apache2 stunnel python processes)
set(programs_here openssl nginx python processes)  # what has most ways to go wrong
if(NOT SUNXI_SANITIZE)  # these programs are not built with a sanitizer
  foreach(program IN LISTS programs_here)
    add_test(NAME cryptodev.apps.${program} COMMAND ${apps}/${program} ${module} cryptodev --some --
             ${CMAKE_BINARY_DIR}/tests/cryptodev/cryptodev --)
    set_tests_properties(cryptodev.apps.${program} PROPERTIES LABELS contract TIMEOUT 600 SKIP_RETURN_CODE 77)
  endforeach()
  foreach(program nginx processes)
    add_test(NAME board.apps.${program} COMMAND ${apps}/${program} ${module} mmio --some -- ${board} --)
    set_tests_properties(board.apps.${program} PROPERTIES LABELS board TIMEOUT 600 SKIP_RETURN_CODE 77)
  endforeach()
endif()
foreach(program IN LISTS programs)
  sunxi_guest_test(NAME apps.${program}.afalg HARDWARE generic TIMEOUT 300
                   COMMAND ${apps}/${program} ${module} afalg --some)
endforeach()
