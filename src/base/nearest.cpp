#include "flotilla/base/nearest.hpp"

#include <algorithm>
#include <cctype>
#include <utility>

#include "flotilla/base/foreign_text.hpp"

namespace flotilla {
namespace {

bool same(char a, char b) { return std::tolower(static_cast<unsigned char>(a)) == std::tolower(static_cast<unsigned char>(b)); }

/// Of a name like "training.global-batch" or "--model.name": its words.
std::vector<std::string_view> words_of(std::string_view name) {
  std::vector<std::string_view> words;
  for (std::size_t end = 0; end < name.size();) {
    const auto begin = name.find_first_not_of(".-_", end);
    if (begin == std::string_view::npos) break;
    end = std::min(name.find_first_of(".-_", begin), name.size());
    words.push_back(name.substr(begin, end - begin));
  }
  return words;
}

/// Whether a longer name has all of the shorter one's words, in its order.
bool has_words(std::string_view longer, const std::vector<std::string_view>& wanted) {
  std::size_t found = 0;
  for (const auto word : words_of(longer))
    if (found < wanted.size() && same_word(word, wanted[found])) ++found;
  return !wanted.empty() && found == wanted.size();
}

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
  constexpr std::size_t longest = 128;  // that anybody could mean; a hostile megabyte must not cost a quadratic comparison
  if (word.size() > longest) return {};
  constexpr std::size_t slips = 2;  // letters that even a name of few words may have wrong
  const auto wanted = words_of(word);
  std::string best, with_words;
  std::size_t least = std::max<std::size_t>(word.size(), 3) / 3 + 1, fewest = longest;
  for (const auto& candidate : known) {
    const auto distance = edit_distance(word, candidate);
    if (distance < fewest && has_words(candidate, wanted)) {
      fewest = distance;
      with_words = candidate;
    }
    if (distance >= least) continue;
    least = distance;
    best = candidate;
  }
  return with_words.empty() || (!best.empty() && least <= slips) ? best : with_words;
}

bool same_word(std::string_view a, std::string_view b) { return std::equal(a.begin(), a.end(), b.begin(), b.end(), same); }

std::string suggestion(std::string_view word, const std::vector<std::string>& known) {
  const auto best = nearest(word, known);
  return best.empty() ? "" : "; did you mean " + in_quotes(best) + "?";
}

}  // namespace flotilla
