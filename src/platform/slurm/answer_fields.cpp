#include "answer_fields.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>

#include "flotilla/base/error.hpp"
#include "flotilla/base/foreign_text.hpp"

namespace flotilla::slurm {
namespace {

bool is_key_character(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '/' || c == ':' || c == '.' || c == '-' || c == '%';
}

/// Where the next "Key=" begins at or behind `from`: at the line's beginning or behind a blank. npos: nowhere.
std::size_t next_key(std::string_view line, std::size_t from, std::size_t* equals) {
  for (std::size_t at = from; at < line.size(); ++at) {
    if (at > 0 && line[at - 1] != ' ') continue;
    std::size_t end = at;
    while (end < line.size() && is_key_character(line[end])) ++end;
    if (end > at && end < line.size() && line[end] == '=' && std::isalpha(static_cast<unsigned char>(line[at])) != 0) {
      *equals = end;
      return at;
    }
  }
  return std::string_view::npos;
}

std::string trimmed(std::string_view text) {
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  return std::string{text};
}

}  // namespace

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> pieces;
  for (std::size_t begin = 0; begin <= text.size();) {
    const auto end = std::min(text.find(separator, begin), text.size());
    pieces.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return pieces;
}

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  for (std::size_t begin = 0; begin < text.size();) {
    const auto end = std::min(text.find('\n', begin), text.size());
    auto line = text.substr(begin, end - begin);
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    if (line.find_first_not_of(' ') != line.npos) lines.push_back(line);
    begin = end + 1;
  }
  return lines;
}

std::string upper(std::string_view text) {
  std::string out{text};
  std::ranges::transform(out, out.begin(), [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return out;
}

std::string lower(std::string_view text) {
  std::string out{text};
  std::ranges::transform(out, out.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

std::map<std::string, std::string> record_of(std::string_view line) {
  std::map<std::string, std::string> record;
  std::size_t equals = 0;
  for (auto at = next_key(line, 0, &equals); at != line.npos;) {
    std::size_t next_equals = 0;
    const auto next = next_key(line, equals + 1, &next_equals);
    const auto value = line.substr(equals + 1, std::min(next, line.size()) - equals - 1);
    record.emplace(std::string{line.substr(at, equals - at)}, trimmed(value));
    at = next;
    equals = next_equals;
  }
  return record;
}

std::string field(const std::map<std::string, std::string>& record, const std::string& key) {
  const auto found = record.find(key);
  if (found == record.end() || found->second == "(null)" || found->second == "N/A") return "";
  return found->second;
}

int number_of(std::string_view digits) {
  constexpr int most = 1'000'000'000;
  int value = 0;
  const auto [rest, failed] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  return failed == std::errc{} && rest == digits.data() + digits.size() && value >= 0 && value <= most ? value : -1;
}

std::int64_t count_of(std::string_view words) {
  constexpr double most = 9223372036854774784.0;  // the largest double below 2^63
  double value = 0;
  if (words.empty() || std::isdigit(static_cast<unsigned char>(words.front())) == 0) return -1;
  const auto [rest, failed] = std::from_chars(words.data(), words.data() + words.size(), value, std::chars_format::fixed);
  const std::string unit = upper(words.substr(static_cast<std::size_t>(rest - words.data())));
  const std::string units = "KMGTP";
  if (failed != std::errc{} || unit.size() > 1 || (!unit.empty() && units.find(unit) == units.npos)) return -1;
  if (!unit.empty()) value *= std::pow(1024.0, static_cast<double>(units.find(unit)) + 1);
  return static_cast<std::int64_t>(std::min(std::round(value), most));
}

Bytes memory_of(const std::string& text) {
  constexpr double mebibyte = 1 << 20, most = 1e18;
  double value = 0;
  const auto [rest, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string unit = upper(std::string_view{rest, static_cast<std::size_t>(text.data() + text.size() - rest)});
  const std::string units = "KMGTP";
  const bool known = unit.empty() || (unit.size() == 1 && units.find(unit) != units.npos);
  const double factor = unit.empty() ? mebibyte : std::pow(1024.0, static_cast<double>(units.find(unit)) + 1);
  if (failed != std::errc{} || !known || !(value >= 0) || value * factor > most)
    throw Error{ErrorKind::bad_input, flotilla::text(in_quotes(text), " is no size of Slurm's; expected for example 3000M")};
  return {static_cast<std::int64_t>(value * factor)};
}

}  // namespace flotilla::slurm
