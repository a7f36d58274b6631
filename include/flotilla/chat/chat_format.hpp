#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "flotilla/chat/template.hpp"

namespace flotilla::chat {

/// How a model's conversations are written: its template, and the special tokens that the template may name.
class ChatFormat {
 public:
  /// tokenizer_config.json with chat_template (a text, or the one named default of a list), or a template of its own (.jinja, with the
  /// special tokens of tokenizer_config.json beside it, if there is one). Throws Error{bad_input} with file and place.
  static ChatFormat read(const std::filesystem::path&);
  /// chat_template.jinja or tokenizer_config.json with a template, beside the tokenizer, in that order; none: nothing.
  static std::optional<ChatFormat> beside(const std::filesystem::path& tokenizer);

  /// The text of a JSON line's `messages` (with `tools` and other keys but `messages` that templates take, `documents` and
  /// `chat_template_kwargs`), and what of it the model has to say: what stands in {% generation %}, else each message whose role is
  /// assistant, with what the template puts behind it: the text that a conversation up to it has more than one up to the message before,
  /// less the generation prompt. Throws Error{bad_input} with the line's place, also where these texts do not go on from one another.
  Rendered apply(const files::Json& line, std::string_view messages = "messages") const;
  /// The text of a conversation that the assistant is to go on with: as apply(), and the generation prompt.
  std::string prompt(const files::Json& line, std::string_view messages = "messages") const;
  /// What decides the text of a conversation, for a hash.
  const std::string& identity() const { return identity_; }

 private:
  ChatFormat(std::string source, std::string_view name, const std::optional<files::Json>& config);

  Template template_;
  std::vector<std::pair<std::string, files::Json>> special_tokens_;
  std::string identity_;
};

}  // namespace flotilla::chat
