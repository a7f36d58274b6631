#include "flotilla/base/units.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <ostream>
#include <utility>

#include "flotilla/base/error.hpp"
#include "flotilla/base/foreign_text.hpp"

namespace flotilla {
namespace {

using Scale = std::pair<std::string_view, double>;

constexpr std::array<Scale, 9> byte_units{
    {{"B", 1}, {"kB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12}, {"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30}, {"TiB", 0x1p40}}};
constexpr std::array<Scale, 7> second_units{{{"s", 1}, {"ms", 1e-3}, {"us", 1e-6}, {"ns", 1e-9}, {"min", 60}, {"h", 3600}, {"d", 86400}}};
constexpr std::array<Scale, 12> rate_units{{{"B/s", 1},
                                            {"kB/s", 1e3},
                                            {"MB/s", 1e6},
                                            {"GB/s", 1e9},
                                            {"KiB/s", 0x1p10},
                                            {"MiB/s", 0x1p20},
                                            {"GiB/s", 0x1p30},
                                            {"bit/s", 0.125},
                                            {"kbit/s", 125},
                                            {"Mbit/s", 125e3},
                                            {"Gbit/s", 125e6},
                                            {"Tbit/s", 125e9}}};

constexpr std::array<Scale, 2> dollar_units{{{"usd", 1}, {"USD", 1}}};
constexpr std::array<Scale, 1> share_units{{{"%", 1}}};

template <std::size_t N>
double parse_quantity(std::string_view what, std::string_view input, const std::array<Scale, N>& units, std::string_view example) {
  double number = 0;
  const char* end = input.data() + input.size();
  auto [rest, failed] = std::from_chars(input.data(), end, number);
  FLOTILLA_REQUIRE(failed == std::errc{} && std::isfinite(number) && number >= 0, ErrorKind::bad_input, in_quotes(input), " is not a ",
                   what, "; write for example ", example);
  while (rest != end && *rest == ' ') ++rest;
  const std::string_view unit{rest, static_cast<std::size_t>(end - rest)};
  for (const auto& [name, scale] : units)
    if (unit == name) return number * scale;
  std::string known;
  for (const auto& [name, scale] : units) known += (known.empty() ? "" : ", ") + std::string{name};
  FLOTILLA_REQUIRE(!unit.empty(), ErrorKind::bad_input, in_quotes(input), " has no unit; write for example ", input, units[0].first, " (",
                   known, ")");
  throw Error{ErrorKind::bad_input, text(in_quotes(input), " has an unknown unit ", in_quotes(unit), "; expected one of ", known)};
}

std::string scaled(double value, const char* unit) {
  std::array<char, 64> out{};
  const double magnitude = std::fabs(value);
  const char* format = magnitude < 10 ? "%.2f %s" : magnitude < 100 ? "%.1f %s" : "%.0f %s";
  std::snprintf(out.data(), out.size(), format, value, unit);
  return out.data();
}

}  // namespace

std::string to_string(Bytes b) {
  const double v = static_cast<double>(b.count), m = std::fabs(v);
  if (m < 0x1p10) return std::to_string(b.count) + " B";
  if (m < 0x1p20) return scaled(v / 0x1p10, "KiB");
  if (m < 0x1p30) return scaled(v / 0x1p20, "MiB");
  if (m < 0x1p40) return scaled(v / 0x1p30, "GiB");
  return scaled(v / 0x1p40, "TiB");
}

std::string to_string(Seconds s) {
  const double v = s.value, m = std::fabs(v);
  if (m == 0) return "0 s";
  if (m < 1e-3) return scaled(v * 1e6, "us");
  if (m < 1) return scaled(v * 1e3, "ms");
  if (m < 120) return scaled(v, "s");
  if (m < 7200) return scaled(v / 60, "min");
  return scaled(v / 3600, "h");
}

std::string to_string(BytesPerSecond r) {
  const double v = r.value, m = std::fabs(v);
  if (m < 1e6) return scaled(v / 1e3, "kB/s");
  if (m < 1e9) return scaled(v / 1e6, "MB/s");
  return scaled(v / 1e9, "GB/s");
}

std::ostream& operator<<(std::ostream& out, Bytes b) { return out << to_string(b); }
std::ostream& operator<<(std::ostream& out, Seconds s) { return out << to_string(s); }
std::ostream& operator<<(std::ostream& out, BytesPerSecond r) { return out << to_string(r); }

Bytes parse_bytes(std::string_view input) {
  const double bytes = parse_quantity("size", input, byte_units, "64MiB");
  FLOTILLA_REQUIRE(bytes < 0x1p62, ErrorKind::bad_input, in_quotes(input), " is larger than any memory; expected less than 4 EiB");
  return {std::llround(bytes)};
}
Seconds parse_seconds(std::string_view input) { return {parse_quantity("duration", input, second_units, "90s")}; }
BytesPerSecond parse_bytes_per_second(std::string_view input) { return {parse_quantity("rate", input, rate_units, "10Gbit/s")}; }
UsDollars parse_us_dollars(std::string_view input) { return {parse_quantity("amount of money", input, dollar_units, "1.2usd")}; }
Share parse_share(std::string_view input) { return {parse_quantity("share", input, share_units, "1%") / 100}; }

}  // namespace flotilla
