#include <algorithm>
#include <array>
#include <cmath>

#include "interpreter.hpp"

namespace flotilla::chat {
namespace {

std::int64_t whole_of(const Value& value, std::string_view what) {
  if (const auto number = value.whole()) return *number;
  throw std::invalid_argument{text(what, ": expected a whole number, found ", value.type())};
}

const Value& only(const Given& given, std::string_view name) {
  given.expect(name, 1);
  if (given.values.empty()) throw std::invalid_argument{text("the test ", name, " needs an argument")};
  return given.values.front();
}

std::optional<bool> of_type(const std::string& name, const Value& value) {
  const bool flag = value.as<bool>() != nullptr, whole = value.as<std::int64_t>() != nullptr, fraction = value.as<double>() != nullptr;
  if (name == "defined") return !value.is_undefined();
  if (name == "undefined") return value.is_undefined();
  if (name == "none") return value.is_none();
  if (name == "boolean") return flag;
  if (name == "true") return flag && value.truth();
  if (name == "false") return flag && !value.truth();
  if (name == "integer") return whole;
  if (name == "float") return fraction;
  if (name == "number") return flag || whole || fraction;
  if (name == "string") return value.text() != nullptr;
  if (name == "mapping") return value.members() != nullptr && !value.box()->names_space;
  if (name == "callable") return value.as<Function>() != nullptr;
  if (name == "iterable" || name == "sequence") {
    const bool space = value.members() != nullptr && value.box()->names_space;
    const bool sequence = value.text() != nullptr || value.items() != nullptr || value.members() != nullptr || value.is_undefined();
    return !space && (sequence || (name == "iterable" && value.any_list() != nullptr));
  }
  return std::nullopt;
}

}  // namespace

std::optional<bool> tested(const std::string& name, const Value& value, const Given& given) {
  if (const auto answer = of_type(name, value)) {
    given.expect(name, 0);
    return answer;
  }
  if (name == "odd" || name == "even") {
    given.expect(name, 0);
    const auto number = value.number();
    if (!number) throw std::invalid_argument{text(name, ": expected a number, found ", value.type())};
    const double rest = value.whole() ? static_cast<double>(*value.whole() & 1) : *number - 2 * std::floor(*number / 2);
    return rest == (name == "odd" ? 1 : 0);
  }
  if (name == "lower" || name == "upper") {
    given.expect(name, 0);
    const auto text = printed(value);
    return with_case(text, name == "upper") == text && with_case(text, name != "upper") != text;
  }
  if (name == "divisibleby") {
    const auto by = whole_of(only(given, name), name);
    if (by == 0) throw std::invalid_argument{"divisibleby: 0"};
    return whole_of(value, name) % by == 0;
  }
  if (name == "equalto" || name == "eq" || name == "sameas") {
    const auto& other = only(given, name);
    return (name != "sameas" || value.type() == other.type()) && equal(value, other);
  }
  if (name == "ne") return !equal(value, only(given, name));
  if (name == "in") return contains(only(given, name), value);
  if (name == "lt" || name == "lessthan") return compare(value, only(given, name)) < 0;
  if (name == "le") return compare(value, only(given, name)) <= 0;
  if (name == "gt" || name == "greaterthan") return compare(value, only(given, name)) > 0;
  if (name == "ge") return compare(value, only(given, name)) >= 0;
  return std::nullopt;
}

}  // namespace flotilla::chat
