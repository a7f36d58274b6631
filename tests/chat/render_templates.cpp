// Renders chat templates for comparison: a JSON object on each line of standard input, {"template", "messages", and variables}; answers on
// standard output, {"text", "generated"} or {"error"}.
#include <iostream>

#include "flotilla/base/error.hpp"
#include "flotilla/chat/template.hpp"

namespace {

std::string answer(const flotilla::files::Json& request) {
  using namespace flotilla;
  chat::Inputs inputs;
  inputs.messages = request.at("messages").items();
  inputs.add_generation_prompt = request.has("add_generation_prompt") && request.get_bool("add_generation_prompt");
  for (const auto& name : request.keys())
    if (name != "template" && name != "messages" && name != "add_generation_prompt") inputs.variables.emplace_back(name, request.at(name));
  const auto rendered = chat::Template::parse(request.get_string("template"), "template").render(inputs);
  std::string spans;
  for (const auto& span : rendered.generated) spans += text(spans.empty() ? "" : ", ", "[", span.first, ", ", span.last, "]");
  return files::JsonLine{}.add("text", rendered.text).add_json("generated", "[" + spans + "]").text();
}

}  // namespace

int main() {
  std::string line;
  while (std::getline(std::cin, line)) {
    try {
      std::cout << answer(flotilla::files::Json::parse(line, "request")) << std::endl;
    } catch (const flotilla::Error& error) {
      std::cout << flotilla::files::JsonLine{}.add("error", error.what()).text() << std::endl;
    }
  }
}
