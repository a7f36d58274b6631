#include "host_list.hpp"

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

}  // namespace

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
