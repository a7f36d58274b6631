#pragma once
#include <string>
#include <utility>
#include <vector>

#include "app/common/table.hpp"
#include "flotilla/files/planning_file.hpp"

namespace flotilla::app {

/// What a search found, for people: what was asked, the plan as a table, its forecast, what keeps it from being better and what is proven,
/// then what came next and why it lost. Text is wrapped at `width` columns; tables are as wide as their cells.
std::string planning_text(const files::Planning&, const Style& = {}, int width = 96);

/// Its lines of key and value: what was asked, and, of a planning with a plan, the forecast and what is proven.
std::vector<std::pair<std::string, std::string>> question_lines(const files::Planning&);
std::vector<std::pair<std::string, std::string>> answer_lines(const files::Planning&);

}  // namespace flotilla::app
