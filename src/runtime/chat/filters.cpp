#include <algorithm>
#include <charconv>
#include <cmath>

#include "flotilla/base/foreign_text.hpp"
#include "interpreter.hpp"

namespace flotilla::chat {
namespace {

std::string joined(const Value& input, const Given& given) {
  given.expect("join", 2, {"d", "attribute"});
  const auto* with = given.at(0, "d");
  const auto* key = given.at(1, "attribute");
  const auto between = with == nullptr ? std::string{} : printed(*with);
  std::string out;
  bool first = true;
  for (const auto& element : elements_of(input)) {
    if (!std::exchange(first, false)) out += between;
    Budget::bytes(between.size());
    out += printed(key == nullptr ? element : attribute(element, printed(*key)));
    if (out.size() > longest_text) throw std::invalid_argument{"join: too long"};
  }
  return out;
}

std::int64_t length_of(const Value& input) {
  const bool counted = input.any_list() != nullptr && input.any_list()->kind != ListKind::generator;
  if (input.text() == nullptr && !counted && input.members() == nullptr && !input.is_undefined())
    throw std::invalid_argument{text(input.type(), " has no length")};
  if (input.any_list() != nullptr) return std::ssize(input.any_list()->items);
  return std::ssize(elements_of(input));
}

/// First letter of the text, or of every word, in upper case.
std::string capitalized(const std::string& text, bool words) {
  auto out = with_case(text, false);
  bool begins = true;
  for (char& c : out) {
    const bool separates = words ? c == ' ' || c == '\t' || c == '\n' || c == '-' || c == '(' || c == '[' || c == '{' || c == '<' : false;
    if (begins && c >= 'a' && c <= 'z') c = static_cast<char>(c - 32);
    begins = separates;
  }
  return out;
}

/// All lines but the first, unless `first`, and blank ones, unless `blank`, moved to the right.
std::string indented(const std::string& text, const Given& given) {
  given.expect("indent", 3, {"width", "first", "blank"});
  const auto* width = given.at(0, "width");
  const auto* first = given.at(1, "first");
  const auto* blank = given.at(2, "blank");
  std::string by(4, ' ');
  if (width != nullptr && width->text() != nullptr) by = *width->text();
  if (width != nullptr && width->whole()) by.assign(static_cast<std::size_t>(std::clamp<std::int64_t>(*width->whole(), 0, 1000)), ' ');
  std::string out;
  for (std::size_t at = 0; at <= text.size();) {
    const auto end = std::min(text.find('\n', at), text.size());
    const auto line = text.substr(at, end - at);
    const bool moves = at == 0 ? first != nullptr && first->truth() : !line.empty() || (blank != nullptr && blank->truth());
    if (at > 0) out += '\n';
    Budget::bytes(line.size() + by.size());
    if (moves) out += by;
    out += line;
    if (out.size() > longest_text) throw std::invalid_argument{"indent: too long"};
    at = end + 1;
  }
  return out;
}

Value as_whole(const Value& input, const Given& given) {
  given.expect("int", 1, {"default"});
  const auto* otherwise = given.at(0, "default");
  const Value fallback = otherwise == nullptr ? Value{std::int64_t{0}} : *otherwise;
  if (input.is_undefined()) throw std::invalid_argument{"int: the value is undefined"};
  if (const auto number = input.whole()) return *number;
  if (const auto* number = input.as<double>()) {
    if (!(std::abs(*number) < 9e18)) return fallback;
    return static_cast<std::int64_t>(*number);
  }
  if (input.text() == nullptr) return fallback;
  const auto digits = stripped(*input.text(), std::nullopt, true, true);
  std::int64_t number = 0;
  const auto* begin = digits.data() + (digits.starts_with('+') ? 1 : 0);
  const auto* end = digits.data() + digits.size();
  if (begin != end && std::from_chars(begin, end, number).ptr == end) return number;
  return fallback;
}

Value first_or_last(const Value& input, bool first) {
  if (!first && input.any_list() != nullptr && input.any_list()->kind == ListKind::generator)
    throw std::invalid_argument{"the last of a generator is not supported; use list before"};
  const auto all = elements_of(input);
  if (all.empty()) return Undefined{"an element of nothing"};
  return first ? all.front() : all.back();
}

std::string replaced(const std::string& input, const Given& given) {
  given.expect("replace", 2);
  if (given.values.size() != 2) throw std::invalid_argument{"replace: expected what, and by what"};
  return *call_method(input, "replace", given).text();
}

Value items_of(const Value& input) {
  if (input.is_undefined()) return Value::list({}, ListKind::generator);
  if (input.members() == nullptr) throw std::invalid_argument{text("items of ", input.type(), " is not supported")};
  return Value::list(elements_of(call_method(input, "items", {})), ListKind::generator);
}

Value in_order(const Value& input, bool backward) {
  auto all = elements_of(input);
  if (backward && input.text() != nullptr) {
    std::string text;
    for (auto c = all.rbegin(); c != all.rend(); ++c) text += *c->text();
    return text;
  }
  if (backward) std::ranges::reverse(all);
  return Value::list(std::move(all), backward ? ListKind::generator : ListKind::list);
}

std::optional<Value> text_filter(const std::string& name, const Value& input, const Given& given) {
  if (name == "trim") {
    given.expect(name, 1, {"chars"});
    const auto* chars = given.at(0, "chars");
    return stripped(printed(input), chars == nullptr || chars->is_none() ? std::nullopt : std::optional<std::string>{printed(*chars)}, true,
                    true);
  }
  if (name == "replace") return replaced(printed(input), given);
  if (name == "indent") return indented(printed(input), given);
  if (name == "join") return joined(input, given);
  if (name == "tojson") {
    given.expect(name, 1, {"indent", "ensure_ascii"});
    const auto* indent = given.at(0, "indent");
    const auto* ascii = find(given.named, "ensure_ascii");
    if (ascii != nullptr && ascii->truth()) throw std::invalid_argument{"tojson: ensure_ascii is not supported"};
    return as_json(input, indent == nullptr || indent->is_none() || ascii == indent ? std::nullopt : indent->whole());
  }
  static constexpr std::array simple{"upper", "lower", "capitalize", "title", "string", "safe"};
  if (std::ranges::find(simple, name) == simple.end()) return std::nullopt;
  given.expect(name, 0);
  if (name == "upper" || name == "lower") return with_case(printed(input), name == "upper");
  if (name == "capitalize" || name == "title") return capitalized(printed(input), name == "title");
  return printed(input);
}

}  // namespace

std::optional<Value> filtered(const std::string& name, const Value& input, const Given& given) {
  if (auto value = text_filter(name, input, given)) return value;
  if (name == "default" || name == "d") {
    given.expect(name, 2, {"default_value", "boolean"});
    const auto* otherwise = given.at(0, "default_value");
    const auto* boolean = given.at(1, "boolean");
    const bool taken = input.is_undefined() || (boolean != nullptr && boolean->truth() && !input.truth());
    return !taken ? input : otherwise == nullptr ? Value{std::string{}} : *otherwise;
  }
  if (name == "int") return as_whole(input, given);
  static constexpr std::array simple{"length", "count", "list", "reverse", "first", "last", "items", "abs"};
  if (std::ranges::find(simple, name) == simple.end()) return std::nullopt;
  given.expect(name, 0);
  if (name == "length" || name == "count") return length_of(input);
  if (name == "list" || name == "reverse") return in_order(input, name == "reverse");
  if (name == "first" || name == "last") return first_or_last(input, name == "first");
  if (name == "items") return items_of(input);
  return compare(input, std::int64_t{0}) < 0 ? arithmetic("-", std::int64_t{0}, input) : input;
}

Value Interpreter::filter(const std::string& name, const Value& input, const Given& given) {
  if (name == "map") return map(input, given);
  if (name == "select" || name == "reject" || name == "selectattr" || name == "rejectattr")
    return select(input, given, name.starts_with("select"), name.ends_with("attr"));
  auto value = filtered(name, input, given);
  if (!value) throw std::invalid_argument{text("the filter ", in_quotes(name), " is not supported")};
  return *value;
}

Value Interpreter::map(const Value& input, const Given& given) {
  List all;
  const auto* key = find(given.named, "attribute");
  const auto* otherwise = find(given.named, "default");
  if (key == nullptr && given.values.empty()) throw std::invalid_argument{"map: expected a filter or attribute="};
  for (const auto& element : elements_of(input)) {
    if (key != nullptr) {
      auto value = attribute(element, printed(*key));
      all.push_back(value.is_undefined() && otherwise != nullptr ? *otherwise : std::move(value));
    } else {
      const Depth depth{*this, {}};
      Budget::elements(given.values.size() + given.named.size());
      all.push_back(filter(printed(given.values.front()), element, {{given.values.begin() + 1, given.values.end()}, given.named}));
    }
  }
  return Value::list(std::move(all), ListKind::generator);
}

Value Interpreter::select(const Value& input, const Given& given, bool wanted, bool by_attribute) {
  if (!given.named.empty() || (by_attribute && given.values.empty()))
    throw std::invalid_argument{"selectattr: expected an attribute, and a test of it"};
  const std::size_t test = by_attribute ? 1 : 0;
  List all;
  for (const auto& element : elements_of(input)) {
    const auto value = by_attribute ? attribute(element, printed(given.values.front())) : element;
    bool holds = value.truth();
    if (given.values.size() > test) {
      Budget::elements(given.values.size());
      const auto name = printed(given.values[test]);
      const auto answer = tested(name, value, {{given.values.begin() + static_cast<std::ptrdiff_t>(test) + 1, given.values.end()}, {}});
      if (!answer) throw std::invalid_argument{text("the test ", in_quotes(name), " is not supported")};
      holds = *answer;
    }
    if (holds == wanted) all.push_back(element);
  }
  return Value::list(std::move(all), ListKind::generator);
}

}  // namespace flotilla::chat
