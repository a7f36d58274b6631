#pragma once
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "flotilla/cluster/cluster.hpp"
#include "flotilla/files/json.hpp"
#include "flotilla/model/config.hpp"

/// Cluster profiles and profile libraries as JSON: docs/formats/profile.md. Readers throw Error{bad_input} with file, JSON pointer and
/// what was expected.
namespace flotilla::files {

/// A profile and the models whose layers it has measurements of. One format: a probe's profile is a library without models.
struct Library {
  cluster::Profile profile;
  std::vector<model::Config> models;
  bool operator==(const Library&) const = default;
};

void write_profile(const std::filesystem::path&, const cluster::Profile&);
void write_library(const std::filesystem::path&, const Library&);
/// Of a library: its profile; the models are read and left out.
cluster::Profile read_profile(const std::filesystem::path&);
Library read_library(const std::filesystem::path&);

/// Indented, ends with a newline. The same profile gives the same text; doubles come back bit by bit. What only libraries have is left
/// out where it is empty, so that a probe's file stays as it was.
/// Throws Error{internal} when a number in it is not finite.
std::string profile_to_json(const cluster::Profile&);
std::string library_to_json(const Library&);
cluster::Profile profile_from_json(std::string_view text, std::string_view source);
cluster::Profile profile_from_json(const Json&);
Library library_from_json(std::string_view text, std::string_view source);
Library library_from_json(const Json&);

}  // namespace flotilla::files
