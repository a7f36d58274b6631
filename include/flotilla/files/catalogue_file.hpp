#pragma once
#include <filesystem>
#include <string_view>

#include "flotilla/cluster/catalogue.hpp"
#include "flotilla/files/json.hpp"

/// Hardware catalogues as JSON: docs/formats/catalogue.md. Readers throw Error{bad_input} with file, JSON pointer and what was expected.
namespace flotilla::files {

cluster::Catalogue catalogue_from_json(std::string_view text, std::string_view source);
cluster::Catalogue catalogue_from_json(const Json&);

/// The catalogue that is part of the program: profiles/ of its source tree. Parsed anew by each call.
cluster::Catalogue built_in_catalogue();

}  // namespace flotilla::files
