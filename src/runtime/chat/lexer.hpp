#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "flotilla/base/error.hpp"
#include "flotilla/base/text.hpp"

namespace flotilla::chat {

/// Where something stands in a template, from 1.
struct TemplateLocation {
  int line = 1, column = 1;
};

/// "name:line:column: " and the parts.
template <class... Parts>
[[noreturn]] void refuse(std::string_view name, TemplateLocation place, const Parts&... parts) {
  throw Error{ErrorKind::bad_input, text(name, ":", place.line, ":", place.column, ": ", parts...)};
}

struct Token {
  enum class Kind { data, output_begin, output_end, block_begin, block_end, name, string, whole, fraction, symbol, end };
  Kind kind = Kind::end;
  std::string text = {};  ///< a string's with its escapes replaced
  TemplateLocation place = {};

  bool is(std::string_view symbol) const { return kind == Kind::symbol && text == symbol; }
  bool is_name(std::string_view word) const { return kind == Kind::name && text == word; }
};

/// A template's tokens, an end behind them, as Jinja cuts it with trim_blocks and lstrip_blocks: a line end behind a block is left out, and
/// so is white space before one that begins a line. Comments are left out.
std::vector<Token> tokens_of(std::string_view source, std::string_view name);

}  // namespace flotilla::chat
