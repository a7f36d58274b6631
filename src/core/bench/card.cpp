#include "flotilla/bench/card.hpp"

#include <set>
#include <utility>

#include "flotilla/base/text.hpp"
#include "flotilla/bench/report.hpp"

namespace flotilla::bench {
namespace {

constexpr double seconds_of_an_hour = 3600;

double ratio(double a, double b) { return b > 0 ? a / b : 0; }

}  // namespace

double tokens_per_joule(const CardEntry& entry) { return ratio(entry.tokens_per_second, entry.watts); }

double tokens_per_billed_unit(const CardEntry& entry) { return ratio(seconds_of_an_hour * entry.tokens_per_second, entry.billing); }

double beyond_forecast(const CardEntry& entry) { return entry.forecast > 0 ? entry.tokens_per_second / entry.forecast - 1 : 0; }

std::vector<std::string> card_hosts(const BenchReport& report) {
  std::vector<std::string> hosts;
  std::set<std::string> types;
  for (const bool unharmed : {true, false})
    for (const auto& node : report.nodes)
      if ((node.failures.empty() || !unharmed) && types.insert(node.type).second) hosts.push_back(node.host);
  return hosts;
}

void add_card(NodeReport& report, std::vector<CardEntry> card) {
  for (const auto& entry : card) {
    const auto add = [&](const char* kind, double value) {
      if (value > 0) report.figures.push_back({text(kind, ":", entry.model), value});
    };
    add("tokens_per_second", entry.tokens_per_second);
    add("tokens_per_joule", tokens_per_joule(entry));
    add("memory_headroom", static_cast<double>(entry.memory_left.count));
  }
  report.card = std::move(card);
}

}  // namespace flotilla::bench
