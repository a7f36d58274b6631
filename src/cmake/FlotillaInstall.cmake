# cmake --install: the program with its manual page and completion, the rooms as libraries with their public headers, the examples.
# Another project writes find_package(flotilla COMPONENTS planner) and links flotilla::plan, flotilla::simulate, ...; the component runtime
# adds what trains. Without COMPONENTS it gets both.
include(CMakePackageConfigHelpers)

install(TARGETS flotilla RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(DIRECTORY ${CMAKE_SOURCE_DIR}/include/flotilla DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(DIRECTORY ${CMAKE_SOURCE_DIR}/examples/ DESTINATION ${CMAKE_INSTALL_DATADIR}/flotilla/examples FILES_MATCHING PATTERN "*.toml")
install(DIRECTORY ${CMAKE_SOURCE_DIR}/profiles/ DESTINATION ${CMAKE_INSTALL_DATADIR}/flotilla/profiles FILES_MATCHING PATTERN "*.json")
# With modes of our own: a clone's may let a group write what root runs.
install(DIRECTORY ${CMAKE_SOURCE_DIR}/slurm/ DESTINATION ${CMAKE_INSTALL_DATADIR}/flotilla/slurm
  FILE_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE
  DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
install(FILES ${CMAKE_SOURCE_DIR}/modules/flotilla ${CMAKE_SOURCE_DIR}/modules/flotilla.lua DESTINATION ${CMAKE_INSTALL_DATADIR}/flotilla/modules)
install(FILES ${CMAKE_SOURCE_DIR}/README.md ${CMAKE_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY ${CMAKE_SOURCE_DIR}/docs DESTINATION ${CMAKE_INSTALL_DOCDIR})

# The program writes both itself, so they cannot disagree with it; when it is installed, so that a build of the program alone will do.
install(CODE "execute_process(COMMAND \"$<TARGET_FILE:flotilla>\" man OUTPUT_FILE \"${CMAKE_CURRENT_BINARY_DIR}/flotilla.1\" COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND \"$<TARGET_FILE:flotilla>\" completion OUTPUT_FILE \"${CMAKE_CURRENT_BINARY_DIR}/flotilla.bash\" COMMAND_ERROR_IS_FATAL ANY)")
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/flotilla.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/flotilla.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME flotilla)

set(package ${CMAKE_INSTALL_LIBDIR}/cmake/flotilla)
foreach(component Planner Runtime)
  install(EXPORT flotilla${component} NAMESPACE flotilla:: FILE flotilla${component}Targets.cmake DESTINATION ${package})
endforeach()
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/flotillaConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/flotillaConfigVersion.cmake ${CMAKE_SOURCE_DIR}/src/cmake/flotillaConfig.cmake
  ${CMAKE_SOURCE_DIR}/src/cmake/FlotillaPlannerDependencies.cmake ${CMAKE_SOURCE_DIR}/src/cmake/FlotillaDependencies.cmake
  DESTINATION ${package})
