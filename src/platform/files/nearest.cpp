#include "nearest.hpp"

#include <algorithm>
#include <vector>

namespace flotilla::files {
namespace {

/// Levenshtein's distance: insertions, deletions and replacements of one byte.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row[b.size()];
}

}  // namespace

std::string suggestion(std::string_view name, std::span<const std::string_view> known) {
  std::string all;
  std::string_view nearest;
  std::size_t best = std::max<std::size_t>(2, name.size() / 3) + 1;
  for (const std::string_view candidate : known) {
    all += (all.empty() ? "" : ", ") + std::string{candidate};
    // A name of another length by more than `best` cannot be nearer; this also bounds the work on hostile names.
    if (candidate.size() > name.size() + best || name.size() > candidate.size() + best) continue;
    if (const std::size_t d = distance(name, candidate); d < best) best = d, nearest = candidate;
  }
  return nearest.empty() ? "; expected one of " + all : "; did you mean '" + std::string{nearest} + "'?";
}

}  // namespace flotilla::files
