#include "flotilla/chat/template.hpp"

#include "interpreter.hpp"

namespace flotilla::chat {

struct Template::State {
  std::string name;
  TemplateProgram program;
};

namespace {

Scope variables_of(const Inputs& inputs) {
  Scope variables;
  List messages;
  for (const auto& message : inputs.messages) messages.push_back(Value::of(message));
  variables.emplace("messages", Value::list(std::move(messages)));
  variables.emplace("tools", None{});
  variables.emplace("documents", None{});
  variables.emplace("add_generation_prompt", inputs.add_generation_prompt);
  for (const auto& [name, value] : inputs.variables) variables.insert_or_assign(name, Value::of(value));
  for (const char* function : {"raise_exception", "namespace", "range", "dict"}) variables.emplace(function, Function{function, nullptr});
  return variables;
}

}  // namespace

Template Template::parse(std::string_view text, std::string_view name) {
  FLOTILLA_REQUIRE(text.size() <= longest_template, ErrorKind::bad_input, name, ": a template of ", text.size(), " bytes; at most ",
                   longest_template, " are read: take the model's own");
  auto state = std::make_shared<State>();
  state->name = name;
  state->program = chat::parse(text, state->name);
  return Template{std::move(state)};
}

bool Template::marks_generation() const { return state_->program.marks_generation; }

Rendered Template::render(const Inputs& inputs) const {
  const Budget budget;
  try {
    return Interpreter{state_->program, state_->name}.run(variables_of(inputs));
  } catch (const std::invalid_argument& wrong) {  // of the messages; a template's have a place
    throw Error{ErrorKind::bad_input, flotilla::text(state_->name, ": the messages: ", wrong.what())};
  }
}

}  // namespace flotilla::chat
