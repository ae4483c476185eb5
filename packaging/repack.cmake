# SPDX-License-Identifier: Apache-2.0
# Run by cpack after packing. The outer archive that it writes bears the umask; dpkg-deb's is always the same.
foreach(package IN LISTS CPACK_PACKAGE_FILES)
  execute_process(
    COMMAND sh -c "umask 022 && dpkg-deb -R \"$1\" \"$1.d\" && dpkg-deb --root-owner-group -Zxz -b \"$1.d\" \"$1\"" sh
            ${package}
    OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
  file(REMOVE_RECURSE ${package}.d)
endforeach()
