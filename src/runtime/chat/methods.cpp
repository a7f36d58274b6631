#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "flotilla/base/foreign_text.hpp"
#include "interpreter.hpp"

namespace flotilla::chat {
namespace {

constexpr std::array<std::string_view, 13> text_methods{"strip", "lstrip", "rstrip",  "split",      "startswith",   "endswith",    "upper",
                                                        "lower", "title",  "replace", "capitalize", "removeprefix", "removesuffix"};
/// Methods of Python's str that templates cannot use here.
constexpr std::array<std::string_view, 34> other_text_methods{
    "casefold", "center",     "count",   "encode",     "expandtabs", "find",         "format",    "format_map", "index",
    "isalnum",  "isalpha",    "isascii", "isdecimal",  "isdigit",    "isidentifier", "islower",   "isnumeric",  "isprintable",
    "isspace",  "istitle",    "isupper", "join",       "ljust",      "maketrans",    "partition", "rfind",      "rindex",
    "rjust",    "rpartition", "rsplit",  "splitlines", "swapcase",   "translate",    "zfill"};
constexpr std::array<std::string_view, 4> dict_methods{"items", "keys", "values", "get"};
constexpr std::array<std::string_view, 7> other_dict_methods{"clear", "copy", "fromkeys", "pop", "popitem", "setdefault", "update"};
constexpr std::array<std::string_view, 11> list_methods{"append", "clear", "copy",   "count",   "extend", "index",
                                                        "insert", "pop",   "remove", "reverse", "sort"};

template <std::size_t count>
bool holds(const std::array<std::string_view, count>& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

ListKind kind_of(const Value& list) { return list.any_list()->kind; }

const std::string& text_argument(const Given& given, std::size_t at, std::string_view what) {
  if (at >= given.values.size() || given.values[at].text() == nullptr) throw std::invalid_argument{text(what, "(): expected a str")};
  return *given.values[at].text();
}

std::string replaced(const std::string& input, const std::string& what, const std::string& by, std::int64_t most) {
  std::string out;
  const auto put = [&](std::string_view part) {
    Budget::bytes(part.size());
    out += part;
    if (out.size() > longest_text) throw std::invalid_argument{"replace(): too long"};
  };
  if (what.empty()) {
    for (const auto& c : characters(input)) {
      if (most-- != 0) put(by);
      put(c);
    }
    if (most != 0) put(by);
    return out;
  }
  std::size_t at = 0;
  for (auto found = place_of(what, input); found != input.npos && most-- != 0; found = place_of(what, input, at)) {
    put(std::string_view{input}.substr(at, found - at));
    put(by);
    at = found + what.size();
  }
  put(std::string_view{input}.substr(at));
  return out;
}

Value split_at_spaces(const std::string& input, std::int64_t most) {
  Budget::bytes(input.size());
  const auto all = characters(input);
  const auto is_blank = [](std::string_view c) { return stripped(c, std::nullopt, true, false).empty(); };
  const auto end_of = [&](std::size_t at, bool blank) {
    while (at < all.size() && is_blank(all[at]) == blank) ++at;
    return at;
  };
  List parts;
  for (auto at = end_of(0, true); at < all.size();) {
    const auto end = most-- == 0 ? all.size() : end_of(at, false);
    parts.emplace_back(std::string{all[at].data(), all[end - 1].data() + all[end - 1].size()});
    at = end_of(end, true);
  }
  return Value::list(std::move(parts));
}

Value split(const std::string& input, const Given& given) {
  given.expect("split()", 2, {"sep", "maxsplit"});
  const auto* separator = given.at(0, "sep");
  const auto* most = given.at(1, "maxsplit");
  auto left = most == nullptr ? std::int64_t{-1} : most->whole().value_or(-1);
  if (separator == nullptr || separator->is_none()) return split_at_spaces(input, left);
  if (separator->text() == nullptr || separator->text()->empty()) throw std::invalid_argument{"split(): expected a str that is not empty"};
  List parts;
  std::size_t at = 0;
  const auto& between = *separator->text();
  for (auto found = place_of(between, input); found != input.npos && left-- != 0; found = place_of(between, input, at)) {
    parts.emplace_back(input.substr(at, found - at));
    at = found + between.size();
  }
  parts.emplace_back(input.substr(at));
  return Value::list(std::move(parts));
}

/// A str, or a tuple of them of which one must do.
bool any_of(const Given& given, std::string_view what, const std::function<bool(const std::string&)>& does) {
  given.expect(what, 1);
  if (given.values.size() == 1 && given.values.front().type() == "tuple")
    return std::ranges::any_of(*given.values.front().items(), [&](const Value& one) {
      Budget::elements(1);
      if (one.text() != nullptr) Budget::bytes(one.text()->size());
      return one.text() != nullptr && does(*one.text());
    });
  Budget::bytes(text_argument(given, 0, what).size());
  return does(text_argument(given, 0, what));
}

Value text_method(const std::string& input, const std::string& name, const Given& given) {
  if (name.ends_with("strip")) {
    given.expect(name + "()", 1);
    const bool all = given.values.empty() || given.values.front().is_none();
    const auto chars = all ? std::nullopt : std::optional<std::string>{text_argument(given, 0, name)};
    return stripped(input, chars, name != "rstrip", name != "lstrip");
  }
  if (name == "split") return split(input, given);
  if (name == "startswith") return any_of(given, name, [&](const std::string& part) { return input.starts_with(part); });
  if (name == "endswith") return any_of(given, name, [&](const std::string& part) { return input.ends_with(part); });
  if (name == "replace") {
    given.expect("replace()", 3);
    const auto most = given.values.size() == 3 ? given.values[2].whole().value_or(-1) : -1;
    return replaced(input, text_argument(given, 0, name), text_argument(given, 1, name), most);
  }
  if (name == "removeprefix" || name == "removesuffix") {
    given.expect(name + "()", 1);
    const auto& part = text_argument(given, 0, name);
    if (name == "removeprefix") return input.starts_with(part) ? input.substr(part.size()) : input;
    return input.ends_with(part) ? input.substr(0, input.size() - part.size()) : input;
  }
  return *filtered(name, input, given);
}

Value dict_method(const Members& members, const std::string& name, const Given& given) {
  List all;
  if (name == "get") {
    given.expect("get()", 2, {"default"});
    const auto* found = find(members, text_argument(given, 0, name));
    const auto* otherwise = given.at(1, "default");
    return found != nullptr ? *found : otherwise != nullptr ? *otherwise : Value{None{}};
  }
  given.expect(name + "()", 0);
  for (const auto& [key, value] : members) {
    if (name == "keys")
      all.emplace_back(key);
    else if (name == "values")
      all.push_back(value);
    else
      all.push_back(Value::list({key, value}, ListKind::tuple));
  }
  return Value::list(std::move(all), ListKind::view);
}

Value repeated(const Value& value, std::int64_t times) {
  times = std::max<std::int64_t>(times, 0);
  if (value.text() != nullptr) {
    if (static_cast<std::size_t>(times) > longest_text / std::max<std::size_t>(1, value.text()->size()))
      throw std::invalid_argument{"a text that is too long"};
    Budget::bytes(static_cast<std::size_t>(times) * value.text()->size());
    std::string out;
    for (std::int64_t i = 0; i < times; ++i) out += *value.text();
    return out;
  }
  if (times > 100'000) throw std::invalid_argument{"a list that is too long"};
  Budget::elements(static_cast<std::size_t>(times) * value.items()->size());
  List all;
  for (std::int64_t i = 0; i < times; ++i) all.insert(all.end(), value.items()->begin(), value.items()->end());
  return Value::list(std::move(all), kind_of(value));
}

Value of_whole(const std::string& symbol, std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  bool overflows = false;
  if (symbol == "+") overflows = __builtin_add_overflow(a, b, &result);
  if (symbol == "-") overflows = __builtin_sub_overflow(a, b, &result);
  if (symbol == "*") overflows = __builtin_mul_overflow(a, b, &result);
  if (symbol == "//" || symbol == "%") {
    if (b == 0) throw std::invalid_argument{"division by zero"};
    overflows = b == -1 && a == std::numeric_limits<std::int64_t>::min();
    const auto rest = overflows || b == -1 ? 0 : a % b;
    const auto floor = overflows ? 0 : a / b - ((rest != 0 && (rest < 0) != (b < 0)) ? 1 : 0);
    result = symbol == "//" ? floor : rest + ((rest != 0 && (rest < 0) != (b < 0)) ? b : 0);
  }
  if (symbol == "**") {
    if (b < 0) return std::pow(static_cast<double>(a), static_cast<double>(b));
    if (b > 64 && a != 0 && a != 1 && a != -1) overflows = true;
    result = 1;
    for (std::int64_t i = 0; i < (b > 64 ? b % 2 + 2 : b) && !overflows; ++i) overflows = __builtin_mul_overflow(result, a, &result);
  }
  if (overflows) throw std::invalid_argument{"a number beyond 64 bits"};
  return result;
}

}  // namespace

Method method_of(const Value& value, const std::string& name) {
  if (value.text() != nullptr)
    return holds(text_methods, name) ? Method::known : holds(other_text_methods, name) ? Method::unknown : Method::none;
  if (value.members() != nullptr && !value.box()->names_space)
    return holds(dict_methods, name) ? Method::known : holds(other_dict_methods, name) ? Method::unknown : Method::none;
  return value.items() != nullptr && holds(list_methods, name) ? Method::unknown : Method::none;
}

Value call_method(const Value& value, const std::string& name, const Given& given) {
  return value.text() != nullptr ? text_method(*value.text(), name, given) : dict_method(*value.members(), name, given);
}

List elements_of(const Value& value) {
  if (value.is_undefined()) return {};
  if (value.any_list() != nullptr) Budget::elements(value.any_list()->items.size());
  if (auto* list = value.any_list()) return list->kind == ListKind::generator ? std::exchange(list->items, {}) : list->items;
  List all;
  if (value.text() != nullptr) {
    Budget::bytes(value.text()->size());
    for (const auto& c : characters(*value.text())) {
      Budget::elements(1);
      all.emplace_back(std::string{c});
    }
    return all;
  }
  if (value.members() == nullptr || value.box()->names_space) throw std::invalid_argument{text(value.type(), " has no elements")};
  Budget::elements(value.members()->size());
  for (const auto& [key, member] : *value.members()) all.emplace_back(key);
  return all;
}

Value arithmetic(const std::string& symbol, const Value& a, const Value& b) {
  const auto x = a.number(), y = b.number();
  if (a.whole() && b.whole() && symbol != "/") return of_whole(symbol, *a.whole(), *b.whole());
  if (x && y) {
    if ((symbol == "/" || symbol == "//" || symbol == "%") && *y == 0) throw std::invalid_argument{"division by zero"};
    if (symbol == "+") return *x + *y;
    if (symbol == "-") return *x - *y;
    if (symbol == "*") return *x * *y;
    if (symbol == "/") return *x / *y;
    if (symbol == "//") return std::floor(*x / *y);
    if (symbol == "**") return std::pow(*x, *y);
    return *x - *y * std::floor(*x / *y);
  }
  if (symbol == "+" && a.text() != nullptr && b.text() != nullptr) {
    if (a.text()->size() + b.text()->size() > longest_text) throw std::invalid_argument{"a text that is too long"};
    return *a.text() + *b.text();
  }
  if (symbol == "+" && a.items() != nullptr && b.items() != nullptr && a.type() == b.type()) {
    Budget::elements(a.items()->size() + b.items()->size());
    auto all = *a.items();
    all.insert(all.end(), b.items()->begin(), b.items()->end());
    return Value::list(std::move(all), kind_of(a));
  }
  if (symbol == "*" && (a.text() != nullptr || a.items() != nullptr) && b.whole()) return repeated(a, *b.whole());
  if (symbol == "*" && (b.text() != nullptr || b.items() != nullptr) && a.whole()) return repeated(b, *a.whole());
  throw std::invalid_argument{text(a.type(), " ", symbol, " ", b.type(), " is not defined")};
}

bool contains(const Value& whole, const Value& part) {
  if (whole.text() != nullptr) {
    if (part.text() == nullptr) throw std::invalid_argument{text(part.type(), " in str is not defined")};
    return place_of(*part.text(), *whole.text()) != std::string::npos;
  }
  if (whole.members() != nullptr && !whole.box()->names_space) {
    if (part.items() != nullptr || part.members() != nullptr) throw std::invalid_argument{text(part.type(), " is no key of a dict")};
    return part.text() != nullptr && find(*whole.members(), *part.text()) != nullptr;
  }
  const auto all = elements_of(whole);
  return std::ranges::any_of(all, [&](const Value& one) { return equal(one, part); });
}

Value sliced(const Value& value, const std::optional<std::int64_t>& first, const std::optional<std::int64_t>& last, std::int64_t step) {
  if (step == 0) throw std::invalid_argument{"a slice with a step of 0"};
  const auto all = elements_of(value);
  const auto count = std::ssize(all);
  const std::int64_t low = step > 0 ? 0 : -1, high = step > 0 ? count : count - 1;
  const auto bounded = [&](std::optional<std::int64_t> bound, std::int64_t otherwise) {
    if (!bound) return otherwise;
    return std::clamp<std::int64_t>(*bound < 0 ? std::max<std::int64_t>(*bound, -count - 1) + count : *bound, low, high);
  };
  const auto begin = bounded(first, step > 0 ? low : high), end = bounded(last, step > 0 ? high : low);
  List some;
  const auto stride = std::clamp<std::int64_t>(step, -count - 1, count + 1);
  for (auto i = begin; stride > 0 ? i < end : i > end; i += stride) some.push_back(all[static_cast<std::size_t>(i)]);
  if (value.text() == nullptr) return Value::list(std::move(some), kind_of(value));
  std::string text;
  for (const auto& c : some) text += *c.text();
  return text;
}

Value attribute(const Value& value, const std::string& path) {
  Budget::bytes(path.size());
  Value at = value;
  for (std::size_t begin = 0; begin <= path.size();) {
    const auto end = std::min(path.find('.', begin), path.size());
    const auto key = path.substr(begin, end - begin);
    begin = end + 1;
    if (at.is_undefined()) throw std::invalid_argument{text(in_quotes(key), " of an undefined value")};
    std::int64_t index = 0;
    const bool number = !key.empty() && std::from_chars(key.data(), key.data() + key.size(), index).ptr == key.data() + key.size();
    const auto* member = at.members() == nullptr ? nullptr : find(*at.members(), key);
    if (number && at.items() != nullptr && index >= 0 && index < std::ssize(*at.items()))
      at = Value{at.items()->at(static_cast<std::size_t>(index))};
    else
      at = member == nullptr ? Value{Undefined{key}} : Value{*member};
  }
  return at;
}

}  // namespace flotilla::chat
