#pragma once
#include <memory>
#include <string>
#include <vector>

#include "lexer.hpp"
#include "value.hpp"

namespace flotilla::chat {

struct TemplateExpression;
using ExpressionPointer = std::unique_ptr<TemplateExpression>;

/// Arguments of a call, a filter or a test.
struct Arguments {
  std::vector<ExpressionPointer> values;
  std::vector<std::pair<std::string, ExpressionPointer>> named;
};

struct TemplateExpression {
  enum class Kind {
    constant,     ///< value
    name,         ///< text
    list,         ///< parts
    tuple,        ///< parts
    dict,         ///< parts: key, value, key, ...
    member,       ///< parts[0] . text
    item,         ///< parts[0] [parts[1]]
    slice,        ///< parts[0] [parts[1] : parts[2] : parts[3]], of which the last three may be nullptr
    call,         ///< parts[0] (arguments)
    filter,       ///< parts[0] | text(arguments)
    test,         ///< parts[0] is text(arguments)
    unary,        ///< text parts[0]: not, -, +
    binary,       ///< parts[0] text parts[1]
    comparison,   ///< parts[0] operators[0] parts[1] operators[1] ...
    conditional,  ///< parts[0] if parts[1] else parts[2], which may be nullptr
  };
  Kind kind = Kind::constant;
  TemplateLocation place = {};
  std::string text = {};
  Value value = {};
  std::vector<ExpressionPointer> parts = {};
  std::vector<std::string> operators = {};
  Arguments arguments = {};
};

struct Statement;
using Body = std::vector<Statement>;

struct Branch {
  ExpressionPointer condition;  ///< nullptr: else
  Body body;
};

struct Statement {
  enum class Kind { data, output, branches, loop, set, set_block, macro, leave_loop, next_round, generation };
  Kind kind = Kind::data;
  TemplateLocation place = {};
  std::string text = {};                ///< data; a name that is set
  std::string attribute = {};           ///< set of a namespace's member
  std::vector<std::string> names = {};  ///< of a loop or of an unpacking set
  ExpressionPointer value = nullptr;    ///< written, set, or looped over
  ExpressionPointer filter = nullptr;   ///< of a loop
  std::vector<Branch> branches = {};
  Body body = {}, otherwise = {};
  std::shared_ptr<MacroStatement> macro = nullptr;
};

struct MacroStatement {
  std::string name;
  std::vector<std::string> parameters;
  std::vector<ExpressionPointer> defaults;  ///< of the last parameters
  Body body;
};

struct TemplateProgram {
  Body body;
  bool marks_generation = false;
};

/// Throws Error{bad_input} with name, line and column.
TemplateProgram parse(std::string_view source, std::string_view name);

}  // namespace flotilla::chat
