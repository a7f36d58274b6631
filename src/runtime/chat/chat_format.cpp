#include "flotilla/chat/chat_format.hpp"

#include <algorithm>
#include <array>

#include "flotilla/base/error.hpp"
#include "flotilla/base/foreign_text.hpp"
#include "flotilla/files/look.hpp"
#include "flotilla/files/text_file.hpp"

namespace flotilla::chat {
namespace {

namespace fs = std::filesystem;
using files::Json;

constexpr const char* config_name = "tokenizer_config.json";
constexpr std::array special_names{"bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"};

/// A token is written as a text, or as an added token with its content.
std::vector<std::pair<std::string, Json>> special_tokens_of(const Json& config) {
  std::vector<std::pair<std::string, Json>> all;
  for (const char* name : special_names) {
    if (!config.has(name) || config.at(name).is_null()) continue;
    const auto token = config.at(name);
    all.emplace_back(name, token.is_string() ? token : token.at("content"));
    if (!all.back().second.is_string()) token.refuse("expected a text, or an object with content");
  }
  return all;
}

std::string template_of(const Json& config) {
  const auto value = config.at("chat_template");
  if (value.is_string()) return value.as_string();
  for (const auto& one : value.items())
    if (one.get_string("name") == "default") return one.get_string("template");
  value.refuse("expected a template, or a list with one named default");
}

bool has_template(const Json& config) { return config.has("chat_template") && !config.at("chat_template").is_null(); }

/// One conversation, of which beginnings are rendered.
class Conversation {
 public:
  Conversation(const Template& how, const Json& line, std::string_view messages, const std::vector<std::pair<std::string, Json>>& special)
      : template_{how}, line_{line} {
    all_.messages = line.at(messages).items();
    if (all_.messages.empty()) line.at(messages).refuse("expected at least one message");
    for (const auto& message : all_.messages) message.get_string("role");
    all_.variables = special;
    for (const char* name : {"tools", "documents"})
      if (line.has(name)) all_.variables.emplace_back(name, line.at(name));
    if (!line.has("chat_template_kwargs")) return;
    for (const auto& name : line.at("chat_template_kwargs").keys())
      all_.variables.emplace_back(name, line.at("chat_template_kwargs").at(name));
  }

  Rendered rendered() const {
    auto whole = first(all_.messages.size(), false);
    if (!template_.marks_generation()) whole.generated = turns(whole.text);
    return whole;
  }

  std::string prompt() const { return first(all_.messages.size(), true).text; }

 private:
  Rendered first(std::size_t count, bool prompt) const {
    auto some = all_;
    some.messages.resize(count, all_.messages.front());
    some.add_generation_prompt = prompt;
    try {
      return template_.render(some);
    } catch (const Error& error) {
      throw Error{error.kind(), text(line_.source(), ": ", error.what(),
                                     count < all_.messages.size() ? text(" (of the first ", count, " messages)") : "")};
    }
  }

  /// The messages of the assistant, by what beginnings of the conversation add to one another.
  std::vector<TextSpan> turns(const std::string& whole) const {
    std::vector<TextSpan> spans;
    for (std::size_t i = 0; i < all_.messages.size(); ++i) {
      if (all_.messages[i].get_string("role") != "assistant") continue;
      const auto begin = i == 0 ? 0 : beginning(whole, i, true),
                 end = i + 1 == all_.messages.size() ? whole.size() : beginning(whole, i + 1, false);
      if (begin > end) refuse_cut(i + 1);
      if (!spans.empty() && spans.back().last > begin) refuse_cut(i + 1);
      if (begin < end) spans.push_back({begin, end});
    }
    return spans;
  }

  std::size_t beginning(const std::string& whole, std::size_t count, bool prompt) const {
    const auto part = first(count, prompt).text;
    if (!whole.starts_with(part)) refuse_cut(count);
    return part.size();
  }

  [[noreturn]] void refuse_cut(std::size_t count) const {
    throw Error{
        ErrorKind::bad_input,
        text(line_.source(), ": the chat template writes the first ", count,
             " messages otherwise than the whole conversation, so what the assistant says in it is not known: mark it in the template, {% "
             "generation %} ... {% endgeneration %}")};
  }

  const Template& template_;
  const Json& line_;
  Inputs all_;
};

}  // namespace

ChatFormat::ChatFormat(std::string source, std::string_view name, const std::optional<Json>& config)
    : template_{Template::parse(source, name)},
      special_tokens_{config ? special_tokens_of(*config) : decltype(special_tokens_){}},
      identity_{std::move(source)} {
  for (const auto& [token, value] : special_tokens_) identity_ += "\n" + token + " " + value.one_line();
}

ChatFormat ChatFormat::read(const fs::path& path) {
  if (path.extension() == ".json") {
    const auto config = Json::read(path);
    return {template_of(config), path.string() + ": chat_template", config};
  }
  const auto config = path.parent_path() / config_name;
  return {files::read_text(path), path.string(), files::facts_of(config) ? std::optional{Json::read(config)} : std::nullopt};
}

std::optional<ChatFormat> ChatFormat::beside(const fs::path& tokenizer) {
  const auto own = tokenizer.parent_path() / "chat_template.jinja", config = tokenizer.parent_path() / config_name;
  if (files::facts_of(own)) return read(own);
  if (files::facts_of(config) && has_template(Json::read(config))) return read(config);
  return std::nullopt;
}

Rendered ChatFormat::apply(const Json& line, std::string_view messages) const {
  return Conversation{template_, line, messages, special_tokens_}.rendered();
}

std::string ChatFormat::prompt(const Json& line, std::string_view messages) const {
  return Conversation{template_, line, messages, special_tokens_}.prompt();
}

}  // namespace flotilla::chat
