#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "flotilla/bench/fabric_links.hpp"
#include "flotilla/cluster/corrections.hpp"
#include "flotilla/files/profile_file.hpp"

/// The list `corrections` of a cluster profile's file: docs/formats/profile.md. It says which figures of the profile a run has measured
/// and what they were before; the figures themselves stand in the profile's own lists.
namespace flotilla::files {

/// As write_profile(), with the list unless it is empty.
void write_profile(const std::filesystem::path&, const cluster::Profile&, const std::vector<cluster::Correction>&);

/// As library_to_json() with both lists.
std::string library_to_json(const Library&, const std::vector<bench::FabricLink>&, const std::vector<cluster::Correction>&);

/// Of a profile's document; empty where it has none. Throws Error{bad_input} with file, JSON pointer and what was expected.
std::vector<cluster::Correction> corrections_of(const Json& document);

}  // namespace flotilla::files
