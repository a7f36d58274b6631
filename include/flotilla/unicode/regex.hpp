#pragma once
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace flotilla::unicode {

/// The bytes [first, last) of a text.
struct Match {
  std::size_t first = 0, last = 0;
};

/// What the patterns and the copies of one encoding may still cost, in looks at a byte. Time stays in proportion to the text, whatever the
/// patterns are: those of published tokenizers look some 60 times at a byte of prose.
class MatchEffort {
 public:
  static constexpr std::size_t least = std::size_t{1} << 26, per_byte = 1024;

  explicit MatchEffort(std::size_t bytes) : left_{least + per_byte * bytes}, bytes_{bytes} {}
  /// Throws Error{bad_input} where nothing is left, signals::Stopped where a signal asks the process to stop.
  void spend(std::size_t looks);
  /// Of the text that is encoded.
  std::size_t bytes() const { return bytes_; }

 private:
  std::size_t left_, bytes_;
};

/// A regular expression over UTF-8, in the dialect of Hugging Face tokenizers (Oniguruma's, Ruby's syntax): classes, \p{...}, \s, \d, \w,
/// groups, look-around, lazy and possessive repeats. Thread-safe; copies share the compiled form.
class Regex {
 public:
  /// Throws Error{bad_input} with the place in the pattern for what is no regular expression, and for what the dialect reads in another
  /// way than the library that executes it; Error{unavailable} where that library was not linked.
  explicit Regex(std::string_view pattern);
  /// Exactly this text.
  static Regex literal(std::string_view text);

  /// The leftmost match that begins at byte `from` or later. `text` must be valid UTF-8 and `from` the start of a character.
  /// Throws Error{bad_input} where that takes more effort, or memory, than there is.
  std::optional<Match> find(std::string_view text, std::size_t from, MatchEffort&) const;

 private:
  struct State;
  explicit Regex(std::shared_ptr<const State> state) : state_{std::move(state)} {}
  std::shared_ptr<const State> state_;
};

/// All matches, from left to right. An empty match directly after another match is passed over.
class Matches {
 public:
  Matches(const Regex& regex, std::string_view text, MatchEffort& effort) : regex_{regex}, text_{text}, effort_{effort} {}
  std::optional<Match> next();

 private:
  const Regex& regex_;
  std::string_view text_;
  MatchEffort& effort_;
  std::size_t from_ = 0;
  std::optional<std::size_t> last_;
};

/// "PCRE2 10.42, utf8proc 2.8.0", or that they were not linked.
std::string library_version();

}  // namespace flotilla::unicode
