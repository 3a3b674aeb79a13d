# What `cmake --install` puts where, and the Debian package (`cpack` in the build folder, or
# scripts/package.sh). The programs look for each other in their own folder and for catalogs and
# published figures in ../share/spotps, so the whole may be installed anywhere.

include(GNUInstallDirs)

install(TARGETS psctl ps_agent ps_coordinator ps_server ps_worker
  RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")

if(TARGET spotps)
  install(TARGETS spotps LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}")
  install(FILES worker/script/spotps.h DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
endif()

set(ps_share "${CMAKE_INSTALL_DATADIR}/spotps")
install(DIRECTORY "${PROJECT_SOURCE_DIR}/configs/"
  DESTINATION "${ps_share}/configs"
  FILES_MATCHING PATTERN "*.json" PATTERN "*.md")
# Published figures and traces, for psctl claims.
foreach(folder IN ITEMS bamboo parcae ps_scaling spotdnn)
  install(DIRECTORY "${PROJECT_SOURCE_DIR}/tests/data/${folder}"
    DESTINATION "${ps_share}/tests/data")
endforeach()
install(FILES README.md CHANGELOG.md SECURITY.md LICENSE DESTINATION "${CMAKE_INSTALL_DOCDIR}")
install(DIRECTORY docs/
  DESTINATION "${CMAKE_INSTALL_DOCDIR}/docs"
  FILES_MATCHING PATTERN "*.md" PATTERN "*.png" PATTERN "*.svg")

# Man pages and completion come from the programs themselves, so that they tell of all commands and
# flags. zsh looks in another folder for packages than for what is installed by hand.
set(ps_generated "${PROJECT_BINARY_DIR}/installed")
install(CODE "
  function(ps_generate file)
    execute_process(COMMAND \${ARGN} OUTPUT_FILE \"\${file}\" COMMAND_ERROR_IS_FATAL ANY)
  endfunction()
  file(MAKE_DIRECTORY \"${ps_generated}\")
  ps_generate(\"${ps_generated}/psctl.1\" \"$<TARGET_FILE:psctl>\" help --man)
  ps_generate(\"${ps_generated}/ps_agent.1\" \"$<TARGET_FILE:ps_agent>\" --man)
  ps_generate(\"${ps_generated}/ps_coordinator.1\" \"$<TARGET_FILE:ps_coordinator>\" --man)
  ps_generate(\"${ps_generated}/ps_server.1\" \"$<TARGET_FILE:ps_server>\" --man)
  ps_generate(\"${ps_generated}/ps_worker.1\" \"$<TARGET_FILE:ps_worker>\" --man)
  ps_generate(\"${ps_generated}/psctl\" \"$<TARGET_FILE:psctl>\" completion bash)
  ps_generate(\"${ps_generated}/_psctl\" \"$<TARGET_FILE:psctl>\" completion zsh)
  set(ps_zsh site-functions)
  if(CMAKE_INSTALL_PREFIX STREQUAL \"/usr\")
    set(ps_zsh vendor-completions)
  endif()
  file(INSTALL \"${ps_generated}/_psctl\"
    DESTINATION \"\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_DATADIR}/zsh/\${ps_zsh}\")")
install(FILES
  "${ps_generated}/psctl.1" "${ps_generated}/ps_agent.1" "${ps_generated}/ps_coordinator.1"
  "${ps_generated}/ps_server.1" "${ps_generated}/ps_worker.1"
  DESTINATION "${CMAKE_INSTALL_MANDIR}/man1")
install(FILES "${ps_generated}/psctl"
  DESTINATION "${CMAKE_INSTALL_DATADIR}/bash-completion/completions")

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME spotps)
set(CPACK_PACKAGE_CONTACT "The spotps authors")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "dataset-fashion-mnist, openssh-client")
include(CPack)
