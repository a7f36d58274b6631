#pragma once
#include <string>

#include "app/bench/bench_text.hpp"

namespace flotilla::app {

/// The report for a browser: verdicts, the card of every node, figures, links, collectives, and what earlier reports say.
std::string bench_page(const BenchResult&);

}  // namespace flotilla::app
