#pragma once
#include <string>

#include "app/common/table.hpp"
#include "flotilla/files/planning_file.hpp"

namespace flotilla::app {

/// Tables of a planning with a plan, each behind an empty line: what came next and why it lost, then what was asked for: why devices are
/// idle, what one more node would bring, time against cost. Words below a row are wrapped at `width` columns.
std::string planning_tables(const files::Planning&, const Style&, int width);

/// "3 stages".
std::string stages_in_words(const plan::Plan&);
/// "24 A100-40 @ zone-a + 28 T4".
std::string devices_in_words(const plan::Plan&, bool zones);
bool several_zones(const search::Pool&);
/// ", zero-bubble, recompute full": a plan's execution options where they differ from the best plan's.
std::string options_in_words(const plan::Plan&, const plan::Plan& best);

}  // namespace flotilla::app
