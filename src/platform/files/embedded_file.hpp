#pragma once
#include <span>
#include <string_view>

namespace flotilla::files {

/// A file of the source tree that is part of the program (src/cmake/FlotillaEmbed.cmake).
struct EmbeddedFile {
  std::string_view name, text;
};

/// profiles/*.json.
std::span<const EmbeddedFile> embedded_catalogue();

}  // namespace flotilla::files
