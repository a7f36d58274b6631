#include "flotilla/slurm/host_list.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdint>

#include "flotilla/base/error.hpp"
#include "flotilla/base/foreign_text.hpp"

namespace flotilla::slurm {
namespace {

constexpr std::size_t most_names = 1'000'000;
constexpr std::size_t most_digits = 18;  // fits 64 bits
constexpr std::size_t longest_name = 1024;

struct Source {
  const std::string& name;
  std::string_view list;
  [[noreturn]] void refuse(const std::string& why) const {
    throw Error{ErrorKind::bad_input,
                text(name, " is ", in_quotes(list), ": ", why, "; expected host names as Slurm lists them, such as n[1-3,07],login")};
  }
};

bool is_name_character(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '.' || c == '_'; }

std::uint64_t number(std::string_view digits, const Source& source) {
  std::uint64_t value = 0;
  const bool good = !digits.empty() && digits.size() <= most_digits &&
                    std::all_of(digits.begin(), digits.end(), [](char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; });
  if (!good) source.refuse(text(in_quotes(digits), " in brackets is no number"));
  std::from_chars(digits.data(), digits.data() + digits.size(), value);
  return value;
}

std::string padded(std::uint64_t value, std::size_t width) {
  const auto digits = std::to_string(value);
  return digits.size() < width ? std::string(width - digits.size(), '0') + digits : digits;
}

/// "1-3" or "07": appended to `out`.
void expand_range(std::string_view range, std::vector<std::string>& out, const Source& source) {
  const auto dash = range.find('-');
  const auto low = range.substr(0, dash);
  const auto first = number(low, source);
  const auto last = dash == std::string_view::npos ? first : number(range.substr(dash + 1), source);
  if (last < first) source.refuse(text("the range ", printable(range), " runs backwards"));
  if (last - first >= most_names || out.size() + (last - first) >= most_names) source.refuse("more than a million names");
  const auto width = low.size() > 1 && low[0] == '0' ? low.size() : 0;
  for (auto value = first; value <= last; ++value) out.push_back(padded(value, width));
}

std::vector<std::string> expand_bracket(std::string_view inside, const Source& source) {
  std::vector<std::string> out;
  for (std::size_t begin = 0; begin <= inside.size();) {
    const auto comma = std::min(inside.find(',', begin), inside.size());
    expand_range(inside.substr(begin, comma - begin), out, source);
    begin = comma + 1;
  }
  return out;
}

/// Every name so far with every ending.
std::vector<std::string> crossed(const std::vector<std::string>& names, const std::vector<std::string>& endings, const Source& source) {
  if (names.size() * endings.size() > most_names) source.refuse("more than a million names");
  std::vector<std::string> out;
  out.reserve(names.size() * endings.size());
  for (const auto& name : names)
    for (const auto& ending : endings) out.push_back(name + ending);
  if (!out.empty() && out.front().size() > longest_name) source.refuse("a name is too long");
  return out;
}

/// One name with its brackets, from `at` to the comma after it or the end; moves `at` there.
std::vector<std::string> expand_name(std::size_t& at, const Source& source) {
  const auto list = source.list;
  std::vector<std::string> names{""};
  const auto begin = at;
  while (at < list.size() && list[at] != ',') {
    if (list[at] == '[') {
      const auto close = list.find(']', at);
      if (close == std::string_view::npos) source.refuse("a bracket is not closed");
      names = crossed(names, expand_bracket(list.substr(at + 1, close - at - 1), source), source);
      at = close + 1;
    } else {
      const auto from = at;
      while (at < list.size() && is_name_character(list[at])) ++at;
      if (at == from) source.refuse(text(in_quotes(list.substr(at, 1)), " is in no host name"));
      names = crossed(names, {std::string{list.substr(from, at - from)}}, source);
    }
  }
  if (at == begin) source.refuse("a name is empty");
  return names;
}

/// Names that differ in their last digits alone: "n" and the ranges "1-3", "7".
struct Ranges {
  struct Range {
    std::string low, high;
  };
  std::string prefix;
  std::vector<Range> ranges;  ///< empty: a name without digits at its end

  std::string in_words() const {
    if (ranges.empty()) return prefix;
    if (ranges.size() == 1 && ranges[0].low == ranges[0].high) return prefix + ranges[0].low;
    std::string words;
    for (const auto& [low, high] : ranges) words += text(words.empty() ? "" : ",", low, low == high ? "" : "-", low == high ? "" : high);
    return text(prefix, "[", words, "]");
  }
};

/// "07" and "08", "9" and "10": what expand_range() goes through.
bool follows(const std::string& digits, const Ranges::Range& range) {
  const std::size_t width = range.low.size() > 1 && range.low[0] == '0' ? range.low.size() : 0;
  return digits == padded(std::stoull(range.high) + 1, width);
}

}  // namespace

std::string host_list_of(const std::vector<std::string>& names) {
  std::vector<Ranges> all;
  for (const auto& name : names) {
    const auto end = name.find_last_not_of("0123456789") + 1;  // of a name of digits alone: 0
    const auto prefix = name.substr(0, end), digits = name.substr(end);
    const bool has_number = !digits.empty() && digits.size() < most_digits;
    if (!has_number) {
      all.push_back({name, {}});
      continue;
    }
    if (all.empty() || all.back().ranges.empty() || all.back().prefix != prefix) all.push_back({prefix, {}});
    auto& ranges = all.back().ranges;
    if (!ranges.empty() && follows(digits, ranges.back()))
      ranges.back().high = digits;
    else
      ranges.push_back({digits, digits});
  }
  std::string words;
  for (const auto& one : all) words += (words.empty() ? "" : ",") + one.in_words();
  return words;
}

std::vector<std::string> expand_host_list(std::string_view list, const std::string& source_name) {
  const Source source{source_name, list};
  std::vector<std::string> all;
  for (std::size_t at = 0;; ++at) {
    auto names = expand_name(at, source);
    if (all.size() + names.size() > most_names) source.refuse("more than a million names");
    std::move(names.begin(), names.end(), std::back_inserter(all));
    if (at >= list.size()) return all;
  }
}

}  // namespace flotilla::slurm
