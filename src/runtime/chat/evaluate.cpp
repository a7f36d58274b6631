#include <algorithm>

#include "flotilla/base/foreign_text.hpp"
#include "interpreter.hpp"

namespace flotilla::chat {

using ExpressionKind = TemplateExpression::Kind;

namespace {

std::int64_t index_of(const Value& value, std::string_view what) {
  const auto index = value.whole();
  if (!index) throw std::invalid_argument{text(what, ": expected a whole number, found ", value.type())};
  return *index;
}

[[noreturn]] void refuse_undefined(const Undefined& value, std::string_view what) {
  throw std::invalid_argument{text(value.name.empty() ? "the value" : in_quotes(value.name), " is undefined", what)};
}

}  // namespace

const Value* Given::at(std::size_t place, std::string_view name) const {
  if (place < values.size()) return &values[place];
  return find(named, name);
}

void Given::expect(std::string_view what, std::size_t most, std::initializer_list<std::string_view> names) const {
  if (values.size() + named.size() > most) throw std::invalid_argument{text(what, ": takes at most ", most, " arguments here")};
  for (const auto& [name, value] : named)
    if (std::ranges::find(names, name) == names.end())
      throw std::invalid_argument{text(what, ": the argument ", name, " is not supported")};
}

/// Errors name the innermost expression that has one.
Value Interpreter::evaluate(const TemplateExpression& expression) {
  count_step(expression.place);
  const Depth depth{*this, expression.place};
  try {
    Budget::bytes(expression.text.size());
    return evaluate_kind(expression);
  } catch (const std::invalid_argument& wrong) {
    refuse(name_, expression.place, wrong.what());
  }
}

Value Interpreter::evaluate_kind(const TemplateExpression& e) {
  switch (e.kind) {
    case ExpressionKind::constant: return e.value;
    case ExpressionKind::name: return name(e);
    case ExpressionKind::list:
    case ExpressionKind::tuple: {
      List items;
      for (const auto& part : e.parts) items.push_back(evaluate(*part));
      return Value::list(std::move(items), e.kind == ExpressionKind::tuple ? ListKind::tuple : ListKind::list);
    }
    case ExpressionKind::dict: {
      Members members;
      for (std::size_t i = 0; i < e.parts.size(); i += 2) {
        const auto key = evaluate(*e.parts[i]);
        if (key.text() == nullptr) throw std::invalid_argument{text("a key of type ", key.type(), " is not supported; expected a str")};
        auto value = evaluate(*e.parts[i + 1]);
        Budget::elements(members.size() / 16);
        const auto found = std::ranges::find(members, *key.text(), [](const auto& member) { return member.first; });
        if (found == members.end())
          members.emplace_back(*key.text(), std::move(value));
        else
          found->second = std::move(value);
      }
      return Value::dict(std::move(members));
    }
    case ExpressionKind::member: return member(evaluate(*e.parts[0]), e.text);
    case ExpressionKind::item: {
      const auto object = evaluate(*e.parts[0]);
      return item(object, evaluate(*e.parts[1]));
    }
    case ExpressionKind::slice: return slice(e);
    case ExpressionKind::call: return call(e);
    case ExpressionKind::filter: {
      const auto input = evaluate(*e.parts[0]);
      return filter(e.text, input, given(e.arguments));
    }
    case ExpressionKind::test: {
      const auto value = evaluate(*e.parts[0]);
      const auto answer = tested(e.text, value, given(e.arguments));
      if (!answer) throw std::invalid_argument{text("the test ", in_quotes(e.text), " is not supported")};
      return *answer;
    }
    case ExpressionKind::unary: {
      const auto value = evaluate(*e.parts[0]);
      if (e.text == "not") return !value.truth();
      return e.text == "-" ? arithmetic("-", std::int64_t{0}, value) : arithmetic("+", std::int64_t{0}, value);
    }
    case ExpressionKind::binary: return binary(e);
    case ExpressionKind::comparison: return compared(e);
    case ExpressionKind::conditional:
      if (evaluate(*e.parts[1]).truth()) return evaluate(*e.parts[0]);
      return e.parts[2] == nullptr ? Value{} : evaluate(*e.parts[2]);
  }
  return {};
}

Value Interpreter::name(const TemplateExpression& e) const {
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope)
    if (const auto found = scope->find(e.text); found != scope->end()) return found->second;
  return Undefined{e.text};
}

/// object.name: in Python's order, an attribute and then a key.
Value Interpreter::member(const Value& object, const std::string& name) const {
  if (const auto* undefined = object.as<Undefined>()) refuse_undefined(*undefined, text(" and has no member ", in_quotes(name)));
  const auto method = method_of(object, name);
  if (method == Method::unknown)
    throw std::invalid_argument{text("the method ", in_quotes(name), " of ", object.type(), " is not supported")};
  if (method == Method::known) return Function{name, std::make_shared<Value>(object)};
  const auto* found = object.members() == nullptr ? nullptr : find(*object.members(), name);
  return found == nullptr ? Value{Undefined{name}} : *found;
}

/// object[index]: a key or an index, and then an attribute.
Value Interpreter::item(const Value& object, const Value& index) const {
  if (const auto* undefined = object.as<Undefined>()) refuse_undefined(*undefined, " and has no elements");
  if (object.members() != nullptr && index.text() != nullptr)
    if (const auto* found = find(*object.members(), *index.text())) return *found;
  if (index.text() != nullptr) return member(object, *index.text());
  if (!index.whole() || (object.items() == nullptr && object.text() == nullptr)) return Undefined{printed(index)};
  const auto all = object.items() != nullptr ? List{} : elements_of(object);
  const auto& items = object.items() != nullptr ? *object.items() : all;
  const auto count = std::ssize(items);
  const auto at = *index.whole() < 0 ? *index.whole() + count : *index.whole();
  return at < 0 || at >= count ? Value{Undefined{text("element ", *index.whole())}} : items[static_cast<std::size_t>(at)];
}

Value Interpreter::slice(const TemplateExpression& e) {
  const auto object = evaluate(*e.parts[0]);
  const auto bound = [&](std::size_t part) -> std::optional<std::int64_t> {
    if (e.parts[part] == nullptr) return std::nullopt;
    const auto value = evaluate(*e.parts[part]);
    return value.is_none() ? std::nullopt : std::optional{index_of(value, "a slice")};
  };
  const auto first = bound(1), last = bound(2), step = bound(3);
  if (const auto* undefined = object.as<Undefined>()) refuse_undefined(*undefined, " and has no elements");
  if (object.text() == nullptr && object.items() == nullptr)
    throw std::invalid_argument{text("a slice of ", object.type(), " is not supported")};
  return sliced(object, first, last, step.value_or(1));
}

Given Interpreter::given(const Arguments& arguments) {
  Given all;
  for (const auto& value : arguments.values) all.values.push_back(evaluate(*value));
  for (const auto& [name, value] : arguments.named) all.named.emplace_back(name, evaluate(*value));
  return all;
}

Value Interpreter::call(const TemplateExpression& e) {
  const auto callee = evaluate(*e.parts[0]);
  if (const auto* undefined = callee.as<Undefined>()) refuse_undefined(*undefined, " and cannot be called");
  const auto* function = callee.as<Function>();
  if (function == nullptr) throw std::invalid_argument{text(callee.type(), " cannot be called")};
  return call_function(*function, given(e.arguments));
}

Value Interpreter::call_function(const Function& function, const Given& given) {
  if (function.macro != nullptr) return call_macro(*function.macro, given);
  if (function.self != nullptr) return call_method(*function.self, function.name, given);
  if (function.name == "raise_exception") throw RaisedByTemplate{given.values.empty() ? "" : printed(given.values.front())};
  if (function.name == "namespace" || function.name == "dict") {
    if (!given.values.empty()) throw std::invalid_argument{text(function.name, "(): takes names with values here")};
    auto made = Value::dict(given.named);
    made.box()->names_space = function.name == "namespace";
    return made;
  }
  given.expect("range()", 3);
  if (given.values.empty()) throw std::invalid_argument{"range(): expected a number"};
  const bool one = given.values.size() == 1;
  const auto first = one ? 0 : index_of(given.values[0], "range()"), last = index_of(given.values[one ? 0 : 1], "range()");
  const auto step = given.values.size() == 3 ? index_of(given.values[2], "range()") : 1;
  if (step == 0) throw std::invalid_argument{"range(): a step of 0"};
  constexpr std::size_t most = 100'000;
  Budget::elements(1);
  List all;
  for (auto i = first; step > 0 ? i < last : i > last;) {
    if (all.size() == most) throw std::invalid_argument{text("range(): more than ", most, " numbers")};
    all.emplace_back(i);
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  return Value::list(std::move(all));
}

Value Interpreter::binary(const TemplateExpression& e) {
  const auto a = evaluate(*e.parts[0]);
  if (e.text == "or") return a.truth() ? a : evaluate(*e.parts[1]);
  if (e.text == "and") return a.truth() ? evaluate(*e.parts[1]) : a;
  const auto b = evaluate(*e.parts[1]);
  if (e.text == "~") return printed(a) + printed(b);
  if (e.text == "%" && a.text() != nullptr) throw std::invalid_argument{"% of a str is not supported"};
  for (const auto* side : {&a, &b})
    if (const auto* undefined = side->as<Undefined>()) refuse_undefined(*undefined, text("; it cannot be an operand of ", e.text));
  return arithmetic(e.text, a, b);
}

Value Interpreter::compared(const TemplateExpression& e) {
  auto left = evaluate(*e.parts[0]);
  for (std::size_t i = 0; i < e.operators.size(); ++i) {
    auto right = evaluate(*e.parts[i + 1]);
    const auto& symbol = e.operators[i];
    bool holds = false;
    if (symbol == "==" || symbol == "!=")
      holds = equal(left, right) == (symbol == "==");
    else if (symbol == "in" || symbol == "not in")
      holds = contains(right, left) == (symbol == "in");
    else if (symbol.front() == '<')
      holds = symbol == "<" ? compare(left, right) < 0 : compare(left, right) <= 0;
    else
      holds = symbol == ">" ? compare(left, right) > 0 : compare(left, right) >= 0;
    if (!holds) return false;
    left = std::move(right);
  }
  return true;
}

}  // namespace flotilla::chat
