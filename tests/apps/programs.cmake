# SPDX-License-Identifier: Apache-2.0
# Rows of programs other than OpenSSH's: on the board, on the stand-in for /dev/crypto and in the guest.
add_executable(processes_program processes.cpp)
target_link_libraries(processes_program PRIVATE sunxi_test_support)
add_dependencies(processes_program sunxi)
