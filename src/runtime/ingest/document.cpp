#include "document.hpp"

namespace flotilla::ingest {
namespace {

Document completed_prompt(const files::Json& line) {
  auto text = line.get_string("prompt");
  const auto prompt = text.size();
  text += line.get_string("completion");
  const auto all = text.size();
  return {std::move(text), {{prompt, all}}};
}

Document conversation(const files::Json& line, const std::string& field, const Encoding& how) {
  if (!how.chat.format) line.refuse(how.chat.missing);
  auto rendered = how.chat.format->apply(line, field);
  return {std::move(rendered.text), std::move(rendered.generated), false, true};
}

Document of_field(const files::Json& line, const std::string& field, const Encoding& how) {
  const auto value = line.at(field);
  return value.is_array() ? conversation(line, field, how) : whole_document(value.as_string());
}

}  // namespace

Document whole_document(std::string text) {
  const auto all = text.size();
  return {std::move(text), {{0, all}}};
}

Document read_document(const files::Json& line, const Encoding& how) {
  if (!how.field.empty()) return of_field(line, how.field, how);
  for (const char* field : {"text", "messages"})
    if (line.has(field)) return of_field(line, field, how);
  if (line.has("prompt") && line.has("completion")) return completed_prompt(line);
  line.refuse(
      "expected the key 'text', 'messages', or 'prompt' and 'completion'; --field KEY (flotilla train: --data.field KEY) names another");
}

}  // namespace flotilla::ingest
