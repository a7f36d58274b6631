#include "value.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <span>

#include "flotilla/base/foreign_text.hpp"

namespace flotilla::options::detail {
namespace {

struct Unit {
  const char* name;
  double scale;
};
// Largest first: the first that divides evenly is how people write the value.
constexpr std::array<Unit, 9> size_units{
    {{"TiB", 0x1p40}, {"GiB", 0x1p30}, {"MiB", 0x1p20}, {"KiB", 0x1p10}, {"TB", 1e12}, {"GB", 1e9}, {"MB", 1e6}, {"kB", 1e3}, {"B", 1}}};
constexpr std::array<Unit, 7> duration_units{{{"d", 86400}, {"h", 3600}, {"min", 60}, {"s", 1}, {"ms", 1e-3}, {"us", 1e-6}, {"ns", 1e-9}}};
constexpr std::array<Unit, 8> rate_units{{{"Tbit/s", 125e9},
                                          {"Gbit/s", 125e6},
                                          {"Mbit/s", 125e3},
                                          {"GiB/s", 0x1p30},
                                          {"MiB/s", 0x1p20},
                                          {"KiB/s", 0x1p10},
                                          {"kB/s", 1e3},
                                          {"B/s", 1}}};

std::string number(double value) {
  std::array<char, 64> out{};
  const auto end = std::to_chars(out.data(), out.data() + out.size(), value, std::chars_format::general).ptr;
  return {out.data(), end};
}

Fault wrong(const std::string& word, const Option& option) {
  return {text("expected ", kind_in_words(option), ", got ", in_quotes(word)), {}};
}

void check_limits(double value, const std::string& word, const Option& option) {
  const auto& d = option.details;
  const bool low = (d.minimum && value < *d.minimum) || (d.above && value <= *d.above);
  const bool high = (d.maximum && value > *d.maximum) || (d.below && value >= *d.below);
  if (low || high) throw wrong(word, option);
}

template <class T>
void parse_integer(const std::string& word, const Option& option, T& out) {
  const char* end = word.data() + word.size();
  const auto [rest, error] = std::from_chars(word.data(), end, out);
  if (error == std::errc::result_out_of_range)
    throw Fault{text(in_quotes(word), " is beyond ", std::numeric_limits<T>::max(), "; expected ", kind_in_words(option)), {}};
  if (error != std::errc{} || rest != end) throw wrong(word, option);
  check_limits(static_cast<double>(out), word, option);
}

/// The whole word as a finite number.
std::optional<double> as_number(const std::string& word) {
  double value = 0;
  const char* end = word.data() + word.size();
  const auto [rest, error] = std::from_chars(word.data(), end, value);
  if (error != std::errc{} || rest != end || !std::isfinite(value)) return std::nullopt;
  return value;
}

/// The unit of "64MiB".
std::string unit_of(const std::string& quantity) {
  const auto first = quantity.find_first_not_of("0123456789.");
  return first == std::string::npos ? "" : quantity.substr(first);
}

std::string example_of(const Option& option) {
  if (!option.details.example.empty()) return option.details.example;
  const bool useful = option.standard.size() == 1 && option.standard[0].find_first_of("123456789") != std::string::npos;
  if (useful) return option.standard[0];
  switch (option.kind) {
    case Kind::size: return "64MiB";
    case Kind::duration: return "90s";
    case Kind::rate: return "10Gbit/s";
    case Kind::money: return "1.2usd";
    default: return "1%";
  }
}

template <class T, class Parse>
void parse_quantity(const std::string& word, const Option& option, Parse parse, T& out) {
  if (as_number(word))
    throw Fault{text(in_quotes(word), " has no unit; expected ", kind_in_words(option)), word + unit_of(example_of(option))};
  try {
    out = parse(word);
  } catch (const Error&) {
    throw wrong(word, option);
  }
}

template <class T, std::size_t N, class Parse>
std::string show_quantity(double value, const std::array<Unit, N>& units, const char* base, const T& original, Parse parse) {
  for (const auto& unit : units) {
    const double count = value / unit.scale;
    if (count < 1 || count != std::floor(count) || count >= 0x1p53) continue;
    std::string word = number(count) + unit.name;
    if (parse(word) == original) return word;
  }
  return number(value) + base;
}

}  // namespace

void parse_word(const std::string& word, const Option& option, bool& out) {
  if (word != "true" && word != "false") throw wrong(word, option);
  out = word == "true";
}
void parse_word(const std::string& word, const Option& option, int& out) { parse_integer(word, option, out); }
void parse_word(const std::string& word, const Option& option, std::int64_t& out) { parse_integer(word, option, out); }
void parse_word(const std::string& word, const Option& option, double& out) {
  const auto value = as_number(word);
  if (!value) throw wrong(word, option);
  check_limits(*value, word, option);
  out = *value;
}
void parse_word(const std::string& word, const Option& option, std::string& out) {
  for (const char c : word)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
      throw Fault{text("expected ", kind_in_words(option), " without control characters, got ", in_quotes(word)), {}};
  out = word;
}
void parse_word(const std::string& word, const Option& option, Bytes& out) {
  parse_quantity(word, option, parse_bytes, out);
  check_limits(static_cast<double>(out.count), word, option);
}
void parse_word(const std::string& word, const Option& option, Seconds& out) {
  parse_quantity(word, option, parse_seconds, out);
  if (!std::isfinite(out.value)) throw wrong(word, option);
  check_limits(out.value, word, option);
}
void parse_word(const std::string& word, const Option& option, BytesPerSecond& out) {
  parse_quantity(word, option, parse_bytes_per_second, out);
  if (!std::isfinite(out.value)) throw wrong(word, option);
  check_limits(out.value, word, option);
}

void parse_word(const std::string& word, const Option& option, UsDollars& out) {
  parse_quantity(word, option, parse_us_dollars, out);
  check_limits(out.value, word, option);
}
void parse_word(const std::string& word, const Option& option, Share& out) {
  parse_quantity(word, option, parse_share, out);
  check_limits(out.value, word, option);
}

std::string show_word(bool value) { return value ? "true" : "false"; }
std::string show_word(std::int64_t value) { return std::to_string(value); }
std::string show_word(double value) { return number(value); }
std::string show_word(const std::string& value) { return value; }
std::string show_word(Bytes value) {
  // Whole bytes, printed as an integer: a double's shortest spelling may use an exponent.
  const auto word = show_quantity(static_cast<double>(value.count), size_units, "B", value, parse_bytes);
  return word.find('e') == std::string::npos ? word : std::to_string(value.count) + "B";
}
std::string show_word(Seconds value) { return show_quantity(value.value, duration_units, "s", value, parse_seconds); }
std::string show_word(BytesPerSecond value) { return show_quantity(value.value, rate_units, "B/s", value, parse_bytes_per_second); }
std::string show_word(UsDollars value) { return number(value.value) + "usd"; }
std::string show_word(Share value) {
  // Of the numbers beside value x 100, which is rounded, the shortest that reads back as the same share.
  const double percents = value.value * 100;
  std::string shortest;
  for (const double near : {percents, std::nextafter(percents, 0.0), std::nextafter(percents, 1e300)}) {
    const std::string word = number(near);
    if (near / 100 == value.value && (shortest.empty() || word.size() < shortest.size())) shortest = word;
  }
  return (shortest.empty() ? number(percents) : shortest) + "%";
}

namespace {

/// A limit in the option's own unit.
std::string limit(const Option& option, double value) {
  switch (option.kind) {
    case Kind::size: return show_word(Bytes{static_cast<std::int64_t>(value)});
    case Kind::duration: return show_word(Seconds{value});
    case Kind::rate: return show_word(BytesPerSecond{value});
    case Kind::money: return show_word(UsDollars{value});
    case Kind::share: return show_word(Share{value});
    case Kind::integer: return std::to_string(static_cast<std::int64_t>(value));
    default: return number(value);
  }
}

std::string range_in_words(const Option& option) {
  const auto& d = option.details;
  if (d.minimum && d.maximum) return text(" from ", limit(option, *d.minimum), " to ", limit(option, *d.maximum));
  std::string low, high;
  if (d.minimum) low = text(" of at least ", limit(option, *d.minimum));
  if (d.above) low = text(" above ", limit(option, *d.above));
  if (d.maximum) high = text(" of at most ", limit(option, *d.maximum));
  if (d.below) high = text(" below ", limit(option, *d.below));
  return low + (low.empty() || high.empty() ? "" : " and") + high;
}

std::string item_in_words(const Option& option) {
  const std::string& place = option.details.value;
  switch (option.kind) {
    case Kind::boolean: return "true or false";
    case Kind::integer: return "an integer";
    case Kind::real: return "a number";
    case Kind::size: return "a size with its unit (B, kB, MB, GB, TB, KiB, MiB, GiB, TiB)";
    case Kind::duration: return "a duration with its unit (ns, us, ms, s, min, h, d)";
    case Kind::rate: return "a rate with its unit (bit/s, kbit/s, Mbit/s, Gbit/s, B/s, kB/s, MB/s, GB/s)";
    case Kind::money: return "an amount with its unit (usd)";
    case Kind::share: return "a percentage (%)";
    case Kind::choice: return "one of " + join(option.choices, ", ");
    case Kind::text: break;
  }
  return place == "FILE" ? "a file name" : place == "DIRECTORY" ? "a folder" : "a text";
}

std::string standing_for(const Option& option) {
  if (!option.details.value.empty()) return option.details.value;
  switch (option.kind) {
    case Kind::boolean: return "true|false";
    case Kind::integer: return "N";
    case Kind::real: return "X";
    case Kind::size: return "SIZE";
    case Kind::duration: return "TIME";
    case Kind::rate: return "RATE";
    case Kind::money: return "USD";
    case Kind::share: return "PERCENT";
    case Kind::choice: return join(option.choices, "|");
    case Kind::text: break;
  }
  return "TEXT";
}

std::string example_for(const Option& option) {
  if (!option.details.example.empty()) return option.details.example;
  if (option.quantity()) return example_of(option);
  if (!option.standard.empty() && !option.standard[0].empty()) return option.standard[0];
  switch (option.kind) {
    case Kind::boolean: return "true";
    case Kind::integer: return "1";
    case Kind::real: return "0.1";
    case Kind::choice: return option.choices.front();
    default: return standing_for(option);
  }
}

/// The line to write instead, in the place's own language.
std::string line_to_write(const Option& option, const std::string& word, Origin origin) {
  if (origin == Origin::job_file) return text(option.key(), " = ", toml_value(option, {word}));
  if (origin == Origin::environment) return text(environment_name(option.name), "=", word);
  return text("--", option.name, " ", word);
}

}  // namespace

bool may_be_true(const Option& option) {
  return option.kind == Kind::choice && std::ranges::count(option.choices, std::string{"true"}) > 0;
}

std::string kind_in_words(const Option& option) {
  const std::string item = item_in_words(option) + range_in_words(option);
  if (!option.list) return item;
  return text("a list, each ", item);
}

std::string value_name(const Option& option) { return standing_for(option); }

void refuse(const Option& option, const Fault& fault, const ValueSource& place) {
  const std::string what = fault.what + (fault.meant.empty() ? "; write for example " : "; write ") +
                           line_to_write(option, fault.meant.empty() ? example_for(option) : fault.meant, place.origin);
  if (place.origin == Origin::command_line) throw Error{ErrorKind::usage, text("--", option.name, ": ", what)};
  if (place.origin == Origin::environment) throw Error{ErrorKind::bad_input, text(environment_name(option.name), ": ", what)};
  throw Error{ErrorKind::bad_input, text(place.text, ": ", option.name, ": ", what)};
}

void assign(Option& option, const Words& words, const ValueSource& place) {
  try {
    const auto commit = option.prepare(option, words);
    if (place.origin < option.origin) return;
    commit();
    option.origin = place.origin;
    option.place = place.text;
  } catch (const Fault& fault) {
    refuse(option, fault, place);
  }
}

std::string toml_value(const Option& option, const Words& words) {
  const bool number = option.kind == Kind::boolean || option.kind == Kind::integer || option.kind == Kind::real;
  Words items;
  for (const auto& word : words) {
    std::string item;
    for (const char c : word) {
      if (c == '"' || c == '\\') item += '\\';
      item += c;
    }
    const bool bare = number || (may_be_true(option) && (word == "true" || word == "false"));
    items.push_back(bare ? word : "\"" + item + "\"");
  }
  if (option.list) return "[" + join(items, ", ") + "]";
  return items.empty() ? "" : items[0];
}

std::string join(const Words& words, std::string_view separator) {
  std::string all;
  for (const auto& word : words) all.append(&word == &words.front() ? "" : separator).append(word);
  return all;
}

Words split(std::string_view text, char separator) {
  Words words;
  while (!text.empty()) {
    const auto end = text.find(separator);
    words.emplace_back(text.substr(0, end));
    text = end == std::string_view::npos ? "" : text.substr(end + 1);
  }
  return words;
}

}  // namespace flotilla::options::detail
