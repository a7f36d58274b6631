#pragma once
#include <string>
#include <variant>
#include <vector>

#include "flotilla/files/json.hpp"
#include "flotilla/unicode/normal_form.hpp"
#include "flotilla/unicode/regex.hpp"

namespace flotilla::tokenizer {

/// What becomes of a text before it is split: steps in order. Const members are thread-safe.
class Normalizer {
 public:
  Normalizer() = default;
  /// tokenizer.json's "normalizer": NFC, NFD, NFKC, NFKD, Prepend, Replace and Sequence, or null.
  explicit Normalizer(const files::Json&);

  bool empty() const { return steps_.empty(); }
  /// Throws Error{bad_input} where patterns cost too much, or the text grows without measure.
  std::string run(std::string text, unicode::MatchEffort&) const;

 private:
  struct Prepend {
    std::string what;
  };
  struct Replace {
    unicode::Regex pattern;
    std::string content;
  };
  using Step = std::variant<unicode::NormalForm, Prepend, Replace>;
  void add(const files::Json&);

  std::vector<Step> steps_;
};

/// Of a normalizer or a pre-tokenizer; published ones have at most 16.
inline constexpr std::size_t most_steps = 64;

/// {"String": ...} or {"Regex": ...}.
unicode::Regex pattern_of(const files::Json&);

}  // namespace flotilla::tokenizer
