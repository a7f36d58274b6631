#include "flotilla/chat/template.hpp"

#include "interpreter.hpp"

namespace flotilla::chat {

struct Template::State {
  std::string name;
  TemplateProgram program;
};

Template Template::parse(std::string_view text, std::string_view name) {
  auto state = std::make_shared<State>();
  state->name = name;
  state->program = chat::parse(text, state->name);
  return Template{std::move(state)};
}

bool Template::marks_generation() const { return state_->program.marks_generation; }

Rendered Template::render(const Inputs& inputs) const {
  Scope variables;
  List messages;
  for (const auto& message : inputs.messages) messages.push_back(Value::of(message));
  variables.emplace("messages", Value::list(std::move(messages)));
  variables.emplace("tools", None{});
  variables.emplace("documents", None{});
  variables.emplace("add_generation_prompt", inputs.add_generation_prompt);
  for (const auto& [name, value] : inputs.variables) variables.insert_or_assign(name, Value::of(value));
  for (const char* function : {"raise_exception", "namespace", "range", "dict"}) variables.emplace(function, Function{function, nullptr});
  return Interpreter{state_->program, state_->name}.run(std::move(variables));
}

}  // namespace flotilla::chat
