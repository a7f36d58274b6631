#include "flotilla/base/nearest.hpp"

#include <algorithm>
#include <cctype>
#include <utility>

#include "flotilla/base/foreign_text.hpp"

namespace flotilla {
namespace {

bool same(char a, char b) { return std::tolower(static_cast<unsigned char>(a)) == std::tolower(static_cast<unsigned char>(b)); }

}  // namespace

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (same(a[i - 1], b[j - 1]) ? 0 : 1)});
      const bool swapped = i > 1 && j > 1 && same(a[i - 1], b[j - 2]) && same(a[i - 2], b[j - 1]);
      if (swapped) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    std::swap(before, last);
    std::swap(last, row);
  }
  return last[b.size()];
}

std::string nearest(std::string_view word, const std::vector<std::string>& known) {
  // The longest name anybody could mean; also keeps a hostile megabyte from costing a quadratic comparison.
  if (word.size() > 128) return {};
  std::string best;
  std::size_t least = std::max<std::size_t>(word.size(), 3) / 3 + 1;
  for (const auto& candidate : known) {
    const auto distance = edit_distance(word, candidate);
    if (distance >= least) continue;
    least = distance;
    best = candidate;
  }
  return best;
}

bool same_word(std::string_view a, std::string_view b) { return std::equal(a.begin(), a.end(), b.begin(), b.end(), same); }

std::string suggestion(std::string_view word, const std::vector<std::string>& known) {
  const auto best = nearest(word, known);
  return best.empty() ? "" : "; did you mean " + in_quotes(best) + "?";
}

}  // namespace flotilla
