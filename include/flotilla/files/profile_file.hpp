#pragma once
#include <filesystem>
#include <string>
#include <string_view>

#include "flotilla/cluster/cluster.hpp"
#include "flotilla/files/json.hpp"

/// Cluster profiles as JSON: docs/formats/profile.md. Readers throw Error{bad_input} with file, JSON pointer and what was expected.
namespace flotilla::files {

void write_profile(const std::filesystem::path&, const cluster::Profile&);
cluster::Profile read_profile(const std::filesystem::path&);

/// Indented, ends with a newline. The same profile gives the same text; doubles come back bit by bit.
/// Throws Error{internal} when a number in it is not finite.
std::string profile_to_json(const cluster::Profile&);
cluster::Profile profile_from_json(std::string_view text, std::string_view source);
cluster::Profile profile_from_json(const Json&);

}  // namespace flotilla::files
