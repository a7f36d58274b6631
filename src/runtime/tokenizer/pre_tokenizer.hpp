#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "bpe.hpp"
#include "flotilla/files/json.hpp"
#include "flotilla/unicode/regex.hpp"

namespace flotilla::tokenizer {

/// A part of a text on its way to the model.
struct TextPiece {
  std::string_view text;
  bool at_start = false;  ///< of the document
};
using TakePiece = std::function<void(TextPiece)>;

/// What becomes of the parts that a pattern matches, and of those between.
enum class SplitBehavior { isolated, removed, merged_with_previous, merged_with_next, contiguous };

/// How a text is split into the words that the model encodes: steps in order. Const members are thread-safe.
class PreTokenizer {
 public:
  PreTokenizer() = default;
  /// tokenizer.json's "pre_tokenizer": ByteLevel, Split, Digits, Metaspace and Sequence, or null.
  explicit PreTokenizer(const files::Json&);

  Alphabet alphabet() const { return alphabet_; }
  /// Calls `take` with every word, in order. Throws Error{bad_input} where that costs too much.
  void run(TextPiece text, unicode::MatchEffort& effort, const TakePiece& take) const { run_from(0, text, effort, take); }

 private:
  struct Split {
    unicode::Regex pattern;
    SplitBehavior behavior = SplitBehavior::isolated;
    bool invert = false;
  };
  struct PrependSpace {};
  struct Metaspace {
    std::string replacement;
    std::string scheme;  ///< "always", "first", "never"
  };
  using Step = std::variant<Split, PrependSpace, Metaspace>;

  void add(const files::Json&);
  void add_split(const files::Json&);
  void add_byte_level(const files::Json&);
  void add_metaspace(const files::Json&);
  void run_from(std::size_t step, TextPiece, unicode::MatchEffort&, const TakePiece&) const;
  static void split(const Split&, TextPiece, unicode::MatchEffort&, const TakePiece&);
  static void mark_spaces(const Metaspace&, TextPiece, const TakePiece&);

  std::vector<Step> steps_;
  Alphabet alphabet_ = Alphabet::characters;
};

}  // namespace flotilla::tokenizer
