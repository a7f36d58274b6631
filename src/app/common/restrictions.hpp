#pragma once
#include <string>
#include <vector>

#include "flotilla/options/table.hpp"
#include "flotilla/search/objective.hpp"

namespace flotilla::app {

/// Items of --restrict, each one name or several with commas between them. `option` says where they stand, for errors.
search::Restrictions read_restrictions(const std::vector<std::string>& items, const options::Setting& option);

}  // namespace flotilla::app
