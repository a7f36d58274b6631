#include "toml_depth.hpp"

#include <algorithm>

#include "flotilla/base/error.hpp"

namespace flotilla::options::detail {
namespace {

constexpr int deepest = 16;

/// Walks the text past strings and comments.
class Walker {
 public:
  explicit Walker(std::string_view text) : rest_{text} {}

  bool done() const { return rest_.empty(); }
  int line() const { return line_; }

  /// The next character outside strings and comments; 0 where one of those was skipped.
  char next() {
    const char c = rest_.front();
    if (c == '#') return skip_to("\n", false), '\0';
    if (c == '"' || c == '\'') return skip_string(c), '\0';
    advance(1);
    return c;
  }

 private:
  void advance(std::size_t count) {
    for (const char c : rest_.substr(0, count)) line_ += c == '\n';
    rest_.remove_prefix(std::min(count, rest_.size()));
  }
  void skip_string(char quote) {
    const std::string one(1, quote), three(3, quote);
    const bool multi = rest_.starts_with(three);
    advance(multi ? 3 : 1);
    skip_to(multi ? three : one, quote == '"');
    advance(multi ? 3 : 1);
    // A multi-line string may end in up to two quotes of its own.
    for (int extra = 0; multi && extra < 2 && rest_.starts_with(quote); ++extra) advance(1);
  }
  void skip_to(std::string_view end, bool escapes) {
    while (!rest_.empty() && !rest_.starts_with(end)) advance(escapes && rest_.front() == '\\' ? 2 : 1);
  }

  std::string_view rest_;
  int line_ = 1;
};

}  // namespace

void require_shallow(std::string_view toml, const std::string& source) {
  int brackets = 0, dots = 0;
  for (Walker walker{toml}; !walker.done();) {
    const char c = walker.next();
    if (c == '[' || c == '{') ++brackets;
    if ((c == ']' || c == '}') && brackets > 0) --brackets;
    if (c == '.') ++dots;
    if (c == '=' || c == ',' || c == '\n' || c == '[' || c == ']' || c == '{' || c == '}') dots = 0;
    FLOTILLA_REQUIRE(brackets <= deepest && dots <= deepest, ErrorKind::bad_input, source, ":", walker.line(), ":1: nested deeper than ",
                     deepest, "; a job file has [section] and key = value");
  }
}

}  // namespace flotilla::options::detail
