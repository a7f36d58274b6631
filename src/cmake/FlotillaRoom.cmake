include(GNUInstallDirs)

# flotilla_add_room(NAME SOURCES ... [DEPENDS room...] [OWNS library...] [COLD])
#
# One static target per room, `flotilla::NAME`. DEPENDS names other rooms (public: their values appear in our headers). OWNS names
# the outside library that only this room may include; it links PRIVATE, so its headers stay here. Rooms that plan and forecast are
# installed as the component `planner`, the others as `runtime` (FlotillaInstall.cmake). COLD: nothing in it runs
# often, so it is compiled with -O1, in two thirds of the time.
function(flotilla_add_room name)
  cmake_parse_arguments(PARSE_ARGV 1 ROOM "COLD" "" "SOURCES;DEPENDS;OWNS")
  add_library(flotilla_${name} STATIC ${ROOM_SOURCES})
  add_library(flotilla::${name} ALIAS flotilla_${name})
  target_include_directories(flotilla_${name}
    PUBLIC $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/include> $<INSTALL_INTERFACE:include>
    PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
  if(ROOM_COLD)
    target_compile_options(flotilla_${name} PRIVATE $<$<CONFIG:Release>:-O1>)
  endif()
  foreach(dependency IN LISTS ROOM_DEPENDS)
    target_link_libraries(flotilla_${name} PUBLIC flotilla::${dependency})
  endforeach()
  target_link_libraries(flotilla_${name} PRIVATE $<BUILD_INTERFACE:flotilla_warnings> ${ROOM_OWNS})
  set(component Runtime)
  file(RELATIVE_PATH folder ${CMAKE_SOURCE_DIR}/src ${CMAKE_CURRENT_SOURCE_DIR})
  if(folder MATCHES "^(base|core/.*|platform/files)$")
    set(component Planner)
  endif()
  install(TARGETS flotilla_${name} EXPORT flotilla${component} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
  set_target_properties(flotilla_${name} PROPERTIES EXPORT_NAME ${name} FLOTILLA_DEPENDS "${ROOM_DEPENDS}")
  set_property(GLOBAL APPEND PROPERTY FLOTILLA_ROOMS ${name})
endfunction()

add_library(flotilla_warnings INTERFACE)
target_compile_options(flotilla_warnings INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Wold-style-cast
  -Wcast-qual -Woverloaded-virtual $<$<BOOL:${FLOTILLA_WERROR}>:-Werror>)
# A unity build includes every source once; g++ cannot know that and warns of types with local parts as if they stood in headers.
if(CMAKE_UNITY_BUILD AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  target_compile_options(flotilla_warnings INTERFACE -Wno-subobject-linkage)
endif()
# g++ 12 sees an overlapping copy in `"text" + std::string` where there is none (GCC bug 105651).
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  target_compile_options(flotilla_warnings INTERFACE -Wno-restrict)
endif()
if(FLOTILLA_SANITIZE)
  add_compile_options(-fsanitize=${FLOTILLA_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=undefined)
  add_link_options(-fsanitize=${FLOTILLA_SANITIZE})
endif()
