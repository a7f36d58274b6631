#include <utility>

#include "interpreter.hpp"

namespace flotilla::chat {

using StatementKind = Statement::Kind;

Rendered Interpreter::run(Scope variables) {
  scopes_ = {std::move(variables)};
  out_ = &rendered_.text;
  run(program_.body);
  return std::move(rendered_);
}

void Interpreter::count_step(TemplateLocation place) {
  try {
    Budget::step();
  } catch (const std::invalid_argument& wrong) {
    refuse(name_, place, wrong.what());
  }
}

void Interpreter::write(std::string_view text) {
  Budget::bytes(text.size());
  if (out_->size() + text.size() > longest_text)
    throw std::invalid_argument{flotilla::text("a text of more than ", longest_text, " bytes")};
  *out_ += text;
}

Interpreter::Outcome Interpreter::run(const Body& body) {
  for (const auto& statement : body) {
    count_step(statement.place);
    Outcome outcome{};
    try {
      const Depth depth{*this, statement.place};
      Budget::bytes(statement.text.size());
      outcome = run(statement);
    } catch (const RaisedByTemplate& raised) {
      refuse(name_, statement.place, "the template refuses these messages: ", raised.what());
    } catch (const std::invalid_argument& wrong) {
      refuse(name_, statement.place, wrong.what());
    }
    if (outcome != Outcome::on) return outcome;
  }
  return Outcome::on;
}

Interpreter::Outcome Interpreter::run(const Statement& statement) {
  auto outcome = Outcome::on;
  switch (statement.kind) {
    case StatementKind::data: write(statement.text); break;
    case StatementKind::output: write(printed(evaluate(*statement.value))); break;
    case StatementKind::branches: return run_branches(statement);
    case StatementKind::loop: return run_loop(statement);
    case StatementKind::set: set(statement); break;
    case StatementKind::set_block: {
      auto text = captured(statement.body);
      scopes_.back().insert_or_assign(statement.text, Value{std::move(text)});
      break;
    }
    case StatementKind::macro:
      scopes_.back().insert_or_assign(statement.text, Function{statement.text, nullptr, statement.macro.get()});
      break;
    case StatementKind::leave_loop: return Outcome::leave;
    case StatementKind::next_round: return Outcome::next;
    case StatementKind::generation: run_generation(statement, outcome); break;
  }
  return outcome;
}

void Interpreter::run_generation(const Statement& statement, Outcome& outcome) {
  if (captures_ > 0) throw std::invalid_argument{"{% generation %} in a macro or a set block is not supported"};
  const auto first = rendered_.text.size();
  scopes_.emplace_back();
  outcome = run(statement.body);
  scopes_.pop_back();
  if (rendered_.text.size() > first) rendered_.generated.push_back({first, rendered_.text.size()});
}

std::string Interpreter::captured(const Body& body) {
  std::string text;
  auto* const before = std::exchange(out_, &text);
  ++captures_;
  run(body);
  --captures_;
  out_ = before;
  return text;
}

Interpreter::Outcome Interpreter::run_branches(const Statement& statement) {
  for (const auto& branch : statement.branches)
    if (branch.condition == nullptr || evaluate(*branch.condition).truth()) return run(branch.body);
  return Outcome::on;
}

void Interpreter::bind(const std::vector<std::string>& names, const Value& value) {
  for (const auto& name : names) Budget::bytes(name.size());
  if (names.size() == 1) {
    scopes_.back().insert_or_assign(names.front(), value);
    return;
  }
  const auto parts = elements_of(value);
  if (parts.size() != names.size()) throw std::invalid_argument{text(parts.size(), " values for ", names.size(), " names")};
  for (std::size_t i = 0; i < names.size(); ++i) scopes_.back().insert_or_assign(names[i], parts[i]);
}

void Interpreter::set(const Statement& statement) {
  auto value = evaluate(*statement.value);
  if (statement.attribute.empty()) return bind(statement.names, value);
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope)
    if (const auto found = scope->find(statement.text); found != scope->end()) {
      auto* box = found->second.box();
      if (value.box() != nullptr && value.box()->names_space)
        throw std::invalid_argument{"a namespace() in a list, a dict or a namespace is not supported"};
      if (box == nullptr || !box->names_space) break;
      Budget::elements(box->members.size() / 16);
      for (auto& [name, member] : box->members)
        if (name == statement.attribute) {
          member = std::move(value);
          return;
        }
      box->members.emplace_back(statement.attribute, std::move(value));
      return;
    }
  throw std::invalid_argument{text("cannot set ", statement.text, ".", statement.attribute, ": not a namespace()")};
}

Interpreter::Outcome Interpreter::run_loop(const Statement& statement) {
  List rounds;
  for (auto& element : elements_of(evaluate(*statement.value))) {
    count_step(statement.place);
    if (statement.filter != nullptr) {
      scopes_.emplace_back();
      bind(statement.names, element);
      const bool kept = evaluate(*statement.filter).truth();
      scopes_.pop_back();
      if (!kept) continue;
    }
    rounds.push_back(std::move(element));
  }
  bool completed = false;
  const auto count = static_cast<std::int64_t>(rounds.size());
  for (std::int64_t i = 0; i < count; ++i) {
    const auto at = [&](std::int64_t round) {
      return round < 0 || round >= count ? Value{Undefined{"loop's neighbour"}} : rounds[static_cast<std::size_t>(round)];
    };
    auto& scope = scopes_.emplace_back();
    scope.insert_or_assign("loop", Value::dict({{"index", i + 1},
                                                {"index0", i},
                                                {"first", i == 0},
                                                {"last", i + 1 == count},
                                                {"length", count},
                                                {"revindex", count - i},
                                                {"revindex0", count - i - 1},
                                                {"previtem", at(i - 1)},
                                                {"nextitem", at(i + 1)},
                                                {"depth", std::int64_t{1}},
                                                {"depth0", std::int64_t{0}}}));
    bind(statement.names, at(i));
    const auto outcome = run(statement.body);
    scopes_.pop_back();
    completed = completed || outcome == Outcome::on;
    if (outcome == Outcome::leave) break;
  }
  if (completed) return Outcome::on;
  // As Jinja has it: also where every round was left before its end.
  scopes_.emplace_back();
  const auto outcome = run(statement.otherwise);
  scopes_.pop_back();
  return outcome;
}

Value Interpreter::call_macro(const MacroStatement& macro, const Given& given) {
  if (given.values.size() > macro.parameters.size())
    throw std::invalid_argument{text(macro.name, "() takes ", macro.parameters.size(), " arguments")};
  for (const auto& [name, value] : given.named)
    if (std::find(macro.parameters.begin(), macro.parameters.end(), name) == macro.parameters.end())
      throw std::invalid_argument{text(macro.name, "() has no parameter ", name)};
  Budget::elements(scopes_.front().size());
  // A macro sees what stands at the top of the template, not what surrounds the call.
  std::vector<Scope> outer(1, scopes_.front());
  std::swap(scopes_, outer);
  scopes_.emplace_back();
  const auto first_default = macro.parameters.size() - macro.defaults.size();
  for (std::size_t i = 0; i < macro.parameters.size(); ++i) {
    const auto& name = macro.parameters[i];
    const auto* value = given.at(i, name);
    scopes_.back().insert_or_assign(name, value != nullptr     ? *value
                                          : i >= first_default ? evaluate(*macro.defaults[i - first_default])
                                                               : Value{Undefined{name}});
  }
  Value result{captured(macro.body)};
  std::swap(scopes_, outer);
  return result;
}

}  // namespace flotilla::chat
