#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "flotilla/files/json.hpp"

/// Chat templates of Hugging Face tokenizers, in a stated subset of Jinja (docs/tokenize.md).
namespace flotilla::chat {

/// Bytes [first, last) of a text.
struct TextSpan {
  std::size_t first = 0, last = 0;
  bool operator==(const TextSpan&) const = default;
};

struct Rendered {
  std::string text;
  std::vector<TextSpan> generated;  ///< what stands in {% generation %}
};

/// What a template is given.
struct Inputs {
  std::vector<files::Json> messages;
  std::vector<std::pair<std::string, files::Json>> variables;  ///< further ones, by name
  bool add_generation_prompt = false;
};

/// A template, parsed. Rendering is thread-safe; copies share it. The same inputs give the same text anywhere, at any time.
class Template {
 public:
  /// `name` is for messages. Throws Error{bad_input}: "name:line:column: " and what is not understood or not supported.
  static Template parse(std::string_view text, std::string_view name);

  /// Throws likewise, also where the template calls raise_exception(), and where it does not end soon.
  Rendered render(const Inputs&) const;
  /// Whether it says itself what the model has to say ({% generation %}).
  bool marks_generation() const;

 private:
  struct State;
  explicit Template(std::shared_ptr<const State> state) : state_{std::move(state)} {}
  std::shared_ptr<const State> state_;
};

}  // namespace flotilla::chat
