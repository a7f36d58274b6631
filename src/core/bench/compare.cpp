#include <algorithm>
#include <cmath>

#include "baseline.hpp"
#include "flotilla/base/figures.hpp"
#include "flotilla/base/text.hpp"
#include "series.hpp"

namespace flotilla::bench {
namespace {

const NodeReport* find(const BenchReport& report, const std::string& host) {
  const auto found = std::ranges::find(report.nodes, host, &NodeReport::host);
  return found == report.nodes.end() ? nullptr : &*found;
}

void compare_figures(const NodeReport& before, const NodeReport& after, std::vector<Change>& changes) {
  for (const auto& figure : after.figures) {
    const double* earlier = find_figure(before, figure.name);
    if (earlier == nullptr) continue;
    const auto& kind = kind_of(figure.name);
    const double worse = worsening(kind, *earlier, figure.value);
    const bool disturbed = kind.by_time && (busy(before) || busy(after));
    changes.push_back({after.host, figure.name, worse, worse > kind.tolerance && !disturbed,
                       text(in_words(figure), ", was ", value_in_words({figure.name, *earlier}), ": ", percent(std::abs(worse)),
                            worse > 0 ? " worse" : " better", disturbed ? ", on a busy node" : ""),
                       value_in_words({figure.name, *earlier}), value_in_words(figure)});
  }
}

/// Other bits under the same software on the same type of node are a fault; under other software they are to be expected.
void compare_answers(const NodeReport& before, const NodeReport& after, std::vector<Change>& changes) {
  if (before.type != after.type || software_of(before) != software_of(after)) return;
  for (const auto& answer : after.answers) {
    const auto earlier = std::ranges::find(before.answers, answer.name, &AnswerDigest::name);
    if (earlier != before.answers.end() && earlier->digest != answer.digest)
      changes.push_back({after.host, "known answer", 0, true,
                         text("the training step (", answer.name, ") gives ", answer.digest, ", gave ", earlier->digest), "", ""});
  }
}

}  // namespace

std::vector<Change> compare(const BenchReport& before, const BenchReport& after) {
  std::vector<Change> changes;
  for (const auto& node : before.nodes) {
    const auto* now = find(after, node.host);
    if (now == nullptr) {
      changes.push_back({node.host, "node", 0, true, "the node is not in the newer report", "", ""});
      continue;
    }
    compare_answers(node, *now, changes);
    compare_figures(node, *now, changes);
  }
  compare_series(before, after, changes);
  std::ranges::stable_sort(changes, [](const Change& a, const Change& b) { return a.beyond != b.beyond ? a.beyond : a.worse > b.worse; });
  return changes;
}

}  // namespace flotilla::bench
