#include "document.hpp"

#include <map>

#include "flotilla/base/foreign_text.hpp"

namespace flotilla::ingest {
namespace {

Document completed_prompt(const files::Json& line) {
  auto text = line.get_string("prompt");
  const auto prompt = text.size();
  text += line.get_string("completion");
  const auto all = text.size();
  return {std::move(text), {{prompt, all}}};
}

/// Alpaca's own prompts (https://github.com/tatsu-lab/stanford_alpaca), where no template says how the model is talked to.
Document followed_instruction(const std::string& instruction, const std::string& input, const std::string& output) {
  auto text = input.empty()
                  ? "Below is an instruction that describes a task. Write a response that appropriately completes the request.\n\n"
                    "### Instruction:\n" +
                        instruction + "\n\n### Response:\n"
                  : "Below is an instruction that describes a task, paired with an input that provides further context. Write a "
                    "response that appropriately completes the request.\n\n### Instruction:\n" +
                        instruction + "\n\n### Input:\n" + input + "\n\n### Response:\n";
  const auto prompt = text.size();
  text += output;
  const auto all = text.size();
  return {std::move(text), {{prompt, all}}};
}

Document conversation(const files::Json& line, const std::string& field, const Encoding& how) {
  if (!how.chat.format) line.refuse(how.chat.missing);
  auto rendered = how.chat.format->apply(line, field);
  return {std::move(rendered.text), std::move(rendered.generated), false, true};
}

std::string message(std::string_view role, std::string_view content) {
  return files::JsonLine{}.add("role", role).add("content", content).text();
}

/// The line with these messages in place of `field`; what else it has, templates may read.
Document conversation_of(const files::Json& line, std::string_view field, const std::string& messages, const Encoding& how) {
  files::JsonLine changed;
  for (const auto& key : line.keys())
    if (key != field && key != "messages") changed.add_json(key, line.at(key).one_line());
  changed.add_json("messages", "[" + messages + "]");
  return conversation(files::Json::parse(changed.text(), line.source()), "messages", how);
}

/// Alpaca: with a template, a message and its answer.
Document instruction(const files::Json& line, const Encoding& how) {
  const auto asked = line.get_string("instruction"), output = line.get_string("output");
  const auto input = line.has("input") && !line.at("input").is_null() ? line.get_string("input") : std::string{};
  if (!how.chat.format) return followed_instruction(asked, input, output);
  const auto question = input.empty() ? asked : asked + "\n\n" + input;
  return conversation_of(line, "instruction", message("user", question) + ", " + message("assistant", output), how);
}

/// The role that ShareGPT calls so.
std::string role_of(const files::Json& from) {
  static const std::map<std::string, std::string, std::less<>> roles{
      {"human", "user"},          {"user", "user"},       {"gpt", "assistant"}, {"chatgpt", "assistant"},
      {"assistant", "assistant"}, {"model", "assistant"}, {"system", "system"}, {"tool", "tool"}};
  const auto found = roles.find(from.as_string());
  if (found == roles.end()) from.refuse("expected human, gpt, system or tool, got " + in_quotes(from.as_string()));
  return found->second;
}

/// ShareGPT: turns of `from` and `value`; or messages under that key.
Document shared_conversation(const files::Json& line, const Encoding& how) {
  const auto turns = line.at("conversations").items();
  if (!turns.empty() && turns.front().has("role")) return conversation(line, "conversations", how);
  std::string messages;
  if (line.has("system") && line.at("system").is_string()) messages = message("system", line.get_string("system"));
  for (const auto& turn : turns) messages += (messages.empty() ? "" : ", ") + message(role_of(turn.at("from")), turn.get_string("value"));
  return conversation_of(line, "conversations", messages, how);
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
  if (line.has("conversations")) return shared_conversation(line, how);
  if (line.has("instruction") && line.has("output")) return instruction(line, how);
  line.refuse(
      "expected the key 'text', 'messages', 'conversations', or 'prompt' and 'completion', or 'instruction' and 'output'; --field KEY (flotilla train: --data.field KEY) names another");
}

}  // namespace flotilla::ingest
