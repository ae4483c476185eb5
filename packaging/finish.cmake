# SPDX-License-Identifier: Apache-2.0
# Run by cpack between installing and packing: the files that Debian's policy wants, and their form.
set(root ${CPACK_TEMPORARY_INSTALL_DIRECTORY})
set(usr ${root}${CPACK_INSTALL_PREFIX})
set(doc ${usr}/share/doc/${CPACK_PACKAGE_NAME})

# Examples are what an administrator copies from; none of these folders is read by anything.
file(MAKE_DIRECTORY ${doc}/examples)
cmake_path(ABSOLUTE_PATH CPACK_SUNXI_DOC BASE_DIRECTORY ${CPACK_INSTALL_PREFIX})
file(RENAME ${root}${CPACK_SUNXI_DOC}/openssl.cnf.example ${doc}/examples/openssl.cnf.example)
file(REMOVE_RECURSE ${root}${CPACK_SUNXI_DOC})
file(COPY ${CPACK_SUNXI_SOURCE}/packaging/openssl.cnf.snippet DESTINATION ${doc}/examples)
file(COPY ${CPACK_SUNXI_SOURCE}/contrib/ DESTINATION ${doc}/examples)
file(GLOB pages ${CPACK_SUNXI_SOURCE}/docs/*.md)
list(FILTER pages EXCLUDE REGEX "/(testing|releasing|releases)\\.md$")
file(COPY ${pages} ${CPACK_SUNXI_SOURCE}/docs/programs ${CPACK_SUNXI_SOURCE}/SECURITY.md DESTINATION ${doc})

file(COPY ${CPACK_SUNXI_COPYRIGHT} DESTINATION ${doc})
file(COPY ${CPACK_SUNXI_SOURCE}/CHANGELOG.md DESTINATION ${doc})
file(RENAME ${doc}/CHANGELOG.md ${doc}/changelog)
# TIMESTAMP is that of SOURCE_DATE_EPOCH.
string(TIMESTAMP date "%a, %d %b %Y %H:%M:%S +0000" UTC)
file(WRITE ${doc}/changelog.Debian
"${CPACK_PACKAGE_NAME} (${CPACK_PACKAGE_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE}) unstable; urgency=medium

  * Version ${CPACK_PACKAGE_VERSION}, packed by its own build; changelog.gz tells what has changed.

 -- ${CPACK_PACKAGE_CONTACT}  ${date}
")
file(GLOB_RECURSE modules ${root}/*.so)
execute_process(COMMAND ${CPACK_SUNXI_STRIP} --strip-unneeded --remove-section=.comment ${modules}
                COMMAND_ERROR_IS_FATAL ANY)
file(GLOB manuals ${usr}/share/man/man*/*)
execute_process(COMMAND gzip -9n ${manuals} ${doc}/changelog ${doc}/changelog.Debian COMMAND_ERROR_IS_FATAL ANY)

# Neither the umask nor the clock of who packs is to be seen in the package.
file(GLOB_RECURSE files LIST_DIRECTORIES true ${root}/*)
foreach(file IN LISTS files)
  if(IS_DIRECTORY ${file})
    execute_process(COMMAND chmod 755 ${file} COMMAND_ERROR_IS_FATAL ANY)
  else()
    execute_process(COMMAND chmod 644 ${file} COMMAND_ERROR_IS_FATAL ANY)
  endif()
endforeach()
execute_process(COMMAND find ${root} -exec touch -h -d @$ENV{SOURCE_DATE_EPOCH} "{}" +
                COMMAND_ERROR_IS_FATAL ANY)
