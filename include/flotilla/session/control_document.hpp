#pragma once
#include <filesystem>
#include <string>
#include <string_view>

#include "flotilla/plan/plan.hpp"

/// How `flotilla control` talks to a run: a file in the run directory, docs/formats/run-directory.md.
namespace flotilla::session {

/// RUN/control.json.
std::filesystem::path control_file(const std::filesystem::path& run);
/// Its text.
std::string control_to_json(const plan::Plan&);
/// Throws Error{bad_input}.
plan::Plan control_from_json(std::string_view text, std::string_view source);

}  // namespace flotilla::session
