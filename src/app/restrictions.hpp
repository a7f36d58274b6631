#pragma once
#include <string>
#include <vector>

#include "flotilla/options/table.hpp"
#include "flotilla/search/objective.hpp"

namespace flotilla::app {

/// "one-microbatch-size", "equal-replicas", ...: every restriction that a plan may be held to.
std::vector<std::string> restriction_names();

/// Items of --restrict, each one name or several with commas between them. `option` says where they stand, for errors.
search::Restrictions read_restrictions(const std::vector<std::string>& items, const options::Setting& option);

/// The names of those that hold.
std::vector<std::string> names_of(const search::Restrictions&);

}  // namespace flotilla::app
