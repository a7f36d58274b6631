#pragma once
#include <string>
#include <vector>

#include "flotilla/bench/report.hpp"
#include "flotilla/page/markup.hpp"

/// The card (stage 3) and the soak (stage 4) for people. Words of nodes are as they came.
namespace flotilla::app {

/// Of each model on each type: model, type, node, tokens/s, what was forecast, the difference, tokens/J, tokens for a billed unit, memory
/// left; or model, type, node and why it was not trained.
std::vector<std::vector<std::string>> card_rows(const bench::BenchReport&);
/// What the rows leave out: how each was trained, and why a figure is not known. A line each, none twice.
std::vector<std::string> card_remarks(const bench::BenchReport&);

/// Of each node: node, how long, what ended it, steps, steps with other bits, drift, hottest, throttled, memory errors.
std::vector<std::vector<std::string>> soak_rows(const bench::BenchReport&);

/// Both for a terminal; "" where there is none.
std::string card_text(const bench::BenchReport&, int width);
std::string soak_text(const bench::BenchReport&);

/// Both for the page; nothing where there is none. Of many nodes those whose bits or steps changed most are drawn.
page::Markup card_markup(const bench::BenchReport&);
page::Markup soak_markup(const bench::BenchReport&);

}  // namespace flotilla::app
