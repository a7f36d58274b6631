#pragma once
#include <filesystem>
#include <vector>

#include "flotilla/files/json.hpp"
#include "flotilla/published/run.hpp"

namespace flotilla::files {

/// Whether a document is of format "published-runs".
bool is_published_runs(const Json& document);
/// The runs of one source, in the file's order. Members that no forecast needs are passed over. Throws Error{bad_input} naming the place.
std::vector<published::Run> read_published_runs(const std::filesystem::path&);
/// Of a file; of a folder, of every such file in it, by name. Other JSON files of the folder are passed over.
std::vector<published::Run> read_published_folder(const std::filesystem::path&);

}  // namespace flotilla::files
