#pragma once
#include <string>

#include "app/common/table.hpp"
#include "flotilla/files/planning_file.hpp"

namespace flotilla::app {

/// What a search found, for people: what was asked, the plan as a table, its forecast, what keeps it from being better and what is proven,
/// then what came next and why it lost. Text is wrapped at `width` columns; tables are as wide as their cells.
std::string planning_text(const files::Planning&, const Style& = {}, int width = 96);

}  // namespace flotilla::app
