#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "flotilla/bench/fabric_links.hpp"
#include "flotilla/files/profile_file.hpp"

/// The list `fabric_links` of a cluster profile's file: docs/formats/profile.md. It stands beside the profile, because no plan is made from
/// it: readers of the profile check it and leave it out.
namespace flotilla::files {

/// As write_profile(), with the list unless it is empty.
void write_profile(const std::filesystem::path&, const cluster::Profile&, const std::vector<bench::FabricLink>&);
/// As library_to_json(); a profile is a library without models.
std::string library_to_json(const Library&, const std::vector<bench::FabricLink>&);

/// Of a profile's document; empty where it has none. Throws Error{bad_input} with file, JSON pointer and what was expected.
std::vector<bench::FabricLink> fabric_links_of(const Json& document);

}  // namespace flotilla::files
