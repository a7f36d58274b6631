#pragma once
#include <string>

#include "app/common/table.hpp"
#include "flotilla/files/planning_file.hpp"

namespace flotilla::app {

/// Tables of a planning with a plan, each behind an empty line: what came next and why it lost, then what was asked for: why devices are
/// idle, what one more node would bring, time against cost. Words below a row are wrapped at `width` columns.
std::string planning_tables(const files::Planning&, const Style&, int width);

}  // namespace flotilla::app
