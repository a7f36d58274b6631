#include "flotilla/slurm/time.hpp"

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <vector>

#include "answer_fields.hpp"

namespace flotilla::slurm {
namespace {

std::optional<std::int64_t> number(std::string_view digits) {
  if (digits.empty() || digits.size() > 9) return std::nullopt;
  std::int64_t value = 0;
  for (char c : digits) {
    if (std::isdigit(static_cast<unsigned char>(c)) == 0) return std::nullopt;
    value = value * 10 + (c - '0');
  }
  return value;
}

}  // namespace

std::optional<Seconds> parse_time(std::string_view words) {
  std::int64_t days = 0;
  const auto dash = words.find('-');
  const bool has_days = dash != std::string_view::npos;
  if (has_days) {
    const auto value = number(words.substr(0, dash));
    if (!value) return std::nullopt;
    days = *value;
    words.remove_prefix(dash + 1);
  }
  std::vector<std::int64_t> parts;
  for (std::size_t begin = 0; begin <= words.size();) {
    const auto colon = std::min(words.find(':', begin), words.size());
    const auto value = number(words.substr(begin, colon - begin));
    if (!value) return std::nullopt;
    parts.push_back(*value);
    begin = colon + 1;
  }
  if (parts.size() > 3) return std::nullopt;
  // Behind days the first part is hours; else a lone part is minutes, and two are minutes and seconds.
  if (!has_days && parts.size() < 3) parts.insert(parts.begin(), 0);
  parts.resize(3, 0);
  return Seconds{static_cast<double>(((days * 24 + parts[0]) * 60 + parts[1]) * 60 + parts[2])};
}

std::optional<Seconds> shortest_time(std::string_view lines) {
  std::optional<Seconds> shortest;
  for (const auto line : lines_of(lines))
    if (const auto time = parse_time(line)) shortest = shortest ? std::min(*shortest, *time) : *time;
  return shortest;
}

}  // namespace flotilla::slurm
