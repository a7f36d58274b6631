#pragma once
#include "pre_tokenizer.hpp"

namespace flotilla::tokenizer {

/// Joins the parts of a text, which come one after another, as a behaviour says, and hands on those that are not empty.
class Joiner {
 public:
  Joiner(SplitBehavior behavior, TextPiece text, const TakePiece& take) : behavior_{behavior}, text_{text}, take_{take} {}
  /// The bytes [first, last), which the pattern matched or not.
  void add(std::size_t first, std::size_t last, bool matched);
  void finish();

 private:
  bool joins(bool matched) const;
  void hand_on();

  SplitBehavior behavior_;
  TextPiece text_;
  const TakePiece& take_;
  std::size_t first_ = 0, last_ = 0;
  bool any_ = false, matched_ = false;
};

}  // namespace flotilla::tokenizer
