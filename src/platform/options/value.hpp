#pragma once
#include <optional>
#include <string>

#include "flotilla/base/units.hpp"
#include "option.hpp"

/// Words to values and back. `parse_word` throws Fault; `show_word` gives a text that parses to the same value.
namespace flotilla::options::detail {

void parse_word(const std::string&, const Option&, bool& out);
void parse_word(const std::string&, const Option&, int& out);
void parse_word(const std::string&, const Option&, std::int64_t& out);
void parse_word(const std::string&, const Option&, double& out);
void parse_word(const std::string&, const Option&, std::string& out);
void parse_word(const std::string&, const Option&, Bytes& out);
void parse_word(const std::string&, const Option&, Seconds& out);
void parse_word(const std::string&, const Option&, BytesPerSecond& out);
void parse_word(const std::string&, const Option&, UsDollars& out);
void parse_word(const std::string&, const Option&, Share& out);

std::string show_word(bool);
std::string show_word(std::int64_t);
std::string show_word(double);
std::string show_word(const std::string&);
std::string show_word(Bytes);
std::string show_word(Seconds);
std::string show_word(BytesPerSecond);
std::string show_word(UsDollars);
std::string show_word(Share);
inline std::string show_word(int value) { return show_word(std::int64_t{value}); }

template <class T>
constexpr Kind kind_of() {
  if constexpr (std::is_same_v<T, bool>)
    return Kind::boolean;
  else if constexpr (std::is_integral_v<T>)
    return Kind::integer;
  else if constexpr (std::is_same_v<T, double>)
    return Kind::real;
  else if constexpr (std::is_same_v<T, Bytes>)
    return Kind::size;
  else if constexpr (std::is_same_v<T, Seconds>)
    return Kind::duration;
  else if constexpr (std::is_same_v<T, BytesPerSecond>)
    return Kind::rate;
  else if constexpr (std::is_same_v<T, UsDollars>)
    return Kind::money;
  else if constexpr (std::is_same_v<T, Share>)
    return Kind::share;
  else
    return Kind::text;
}

/// How a field of type T is filled from words.
template <class T>
struct FieldShape {
  using Item = T;
  static constexpr bool list = false, optional = false;
  static void read(const Option& option, const Words& words, T& out) { parse_word(words.at(0), option, out); }
  static Words show(const T& value) { return {show_word(value)}; }
};

template <class T>
struct FieldShape<std::optional<T>> {
  using Item = T;
  static constexpr bool list = false, optional = true;
  static void read(const Option& option, const Words& words, std::optional<T>& out) { parse_word(words.at(0), option, out.emplace()); }
  static Words show(const std::optional<T>& value) { return value ? Words{show_word(*value)} : Words{}; }
};

template <class T>
struct FieldShape<std::vector<T>> {
  using Item = T;
  static constexpr bool list = true, optional = false;
  static void read(const Option& option, const Words& words, std::vector<T>& out) {
    for (const auto& word : words) parse_word(word, option, out.emplace_back());
  }
  static Words show(const std::vector<T>& value) {
    Words words;
    for (const auto& item : value) words.push_back(show_word(item));
    return words;
  }
};

}  // namespace flotilla::options::detail
