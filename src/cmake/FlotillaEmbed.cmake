# flotilla_embed(OUTPUT file.cpp HEADER header.hpp FUNCTION name FILES file...)
#
# Writes a source that defines `std::span<const EmbeddedFile> flotilla::files::NAME()` with the text of the files, for a program that
# needs no data beside it. The files are read when CMake runs, and CMake runs again when one changes.
function(flotilla_embed)
  cmake_parse_arguments(PARSE_ARGV 0 EMBED "" "OUTPUT;HEADER;FUNCTION" "FILES")
  set(parts "")
  foreach(file IN LISTS EMBED_FILES)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
    file(READ ${file} content)
    get_filename_component(name ${file} NAME)
    string(APPEND parts "    EmbeddedFile{\"${name}\", R\"embedded(${content})embedded\"},\n")
  endforeach()
  list(LENGTH EMBED_FILES count)
  # Not a list: it would lose the semicolons of the files.
  string(CONCAT source "// Written by CMake from the files named below: change those.\n#include <array>\n\n#include \"${EMBED_HEADER}\"\n\n"
    "namespace flotilla::files {\n\nstd::span<const EmbeddedFile> ${EMBED_FUNCTION}() {\n"
    "  static constexpr std::array<EmbeddedFile, ${count}> files{\n${parts}  };\n  return files;\n}\n\n}  // namespace flotilla::files\n")
  set(old "")
  if(EXISTS ${EMBED_OUTPUT})
    file(READ ${EMBED_OUTPUT} old)
  endif()
  if(NOT old STREQUAL source)
    file(WRITE ${EMBED_OUTPUT} "${source}")
  endif()
endfunction()
