#pragma once
#include <functional>
#include <map>
#include <optional>
#include <stdexcept>

#include "budget.hpp"
#include "flotilla/chat/template.hpp"
#include "syntax.hpp"

namespace flotilla::chat {

/// What a template says with raise_exception().
class RaisedByTemplate : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Evaluated arguments.
struct Given {
  List values;
  Members named;

  /// That at a place or of a name; nullptr: not given.
  const Value* at(std::size_t place, std::string_view name) const;
  /// Throws std::invalid_argument unless there are at most so many, all of these names.
  void expect(std::string_view what, std::size_t most, std::initializer_list<std::string_view> names = {}) const;
};

/// Variables of one block.
using Scope = std::map<std::string, Value, std::less<>>;

/// Runs a template once. Refusals name the place.
class Interpreter {
 public:
  Interpreter(const TemplateProgram& program, std::string_view name) : program_{program}, name_{name} {}
  Rendered run(Scope variables);

 private:
  enum class Outcome { on, leave, next };
  struct Depth;

  void count_step(TemplateLocation);
  Outcome run(const Body&);
  Outcome run(const Statement&);
  Outcome run_branches(const Statement&);
  Outcome run_loop(const Statement&);
  void run_generation(const Statement&, Outcome&);
  void set(const Statement&);
  void bind(const std::vector<std::string>& names, const Value&);
  void write(std::string_view text);
  /// What a body writes, apart from the template's own text.
  std::string captured(const Body&);

  Value evaluate(const TemplateExpression&);
  Value evaluate_kind(const TemplateExpression&);
  Value name(const TemplateExpression&) const;
  Value member(const Value& object, const std::string& name) const;
  Value item(const Value& object, const Value& index) const;
  Value slice(const TemplateExpression&);
  Value call(const TemplateExpression&);
  Value call_function(const Function&, const Given&);
  Value call_macro(const MacroStatement&, const Given&);
  Value binary(const TemplateExpression&);
  Value compared(const TemplateExpression&);
  Given given(const Arguments&);
  Value filter(const std::string& name, const Value& input, const Given&);
  Value map(const Value& input, const Given&);
  Value select(const Value& input, const Given&, bool wanted, bool by_attribute);

  const TemplateProgram& program_;
  const std::string_view name_;
  std::vector<Scope> scopes_;
  std::string* out_ = nullptr;
  Rendered rendered_;
  int depth_ = 0, captures_ = 0;
};

/// Counts how deep statements, expressions and calls stand in one another.
struct Interpreter::Depth {
  Depth(Interpreter& interpreter, TemplateLocation place) : interpreter_{interpreter} {
    if (++interpreter_.depth_ > 1000) refuse(interpreter_.name_, place, "calls and expressions nested deeper than 1000");
  }
  Depth(const Depth&) = delete;
  Depth& operator=(const Depth&) = delete;
  ~Depth() { --interpreter_.depth_; }
  Interpreter& interpreter_;
};

/// Elements of a list, keys of a dictionary, characters of a text, none of what is undefined. Throws std::invalid_argument.
List elements_of(const Value&);
/// a + b and so on, as Python has it. Throws std::invalid_argument.
Value arithmetic(const std::string& symbol, const Value& a, const Value& b);
bool contains(const Value& whole, const Value& part);
/// Python's x[first:last:step], of a text or a list. Throws std::invalid_argument.
Value sliced(const Value&, const std::optional<std::int64_t>& first, const std::optional<std::int64_t>& last, std::int64_t step);
/// Tests of values: none where there is none of the name.
std::optional<bool> tested(const std::string& name, const Value&, const Given&);
/// Filters that need nothing but their input: none where there is none of the name.
std::optional<Value> filtered(const std::string& name, const Value&, const Given&);
/// Whether a value has a method of that name in Python, and whether it is known here.
enum class Method { none, known, unknown };
Method method_of(const Value&, const std::string& name);
Value call_method(const Value&, const std::string& name, const Given&);
/// A path of keys and indices with dots between them, as selectattr() takes it.
Value attribute(const Value&, const std::string& path);

}  // namespace flotilla::chat
