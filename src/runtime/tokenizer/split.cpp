#include "split.hpp"

namespace flotilla::tokenizer {

/// `matched_` is that of the part before. "Merged with next" is the library's rule read from the front: it goes from the back and joins
/// a match to what follows it, unless that is a match, too.
bool Joiner::joins(bool matched) const {
  switch (behavior_) {
    case SplitBehavior::contiguous: return matched == matched_;
    case SplitBehavior::merged_with_previous: return matched && !matched_;
    case SplitBehavior::merged_with_next: return matched_ && !matched;
    case SplitBehavior::isolated:
    case SplitBehavior::removed: break;
  }
  return false;
}

void Joiner::add(std::size_t first, std::size_t last, bool matched) {
  if (behavior_ == SplitBehavior::removed && matched) return;
  if (any_ && joins(matched)) {
    last_ = last;
  } else {
    hand_on();
    first_ = first;
    last_ = last;
    any_ = true;
  }
  matched_ = matched;
}

void Joiner::hand_on() {
  if (any_ && first_ < last_) take_({text_.text.substr(first_, last_ - first_), text_.at_start && first_ == 0});
}

void Joiner::finish() { hand_on(); }

}  // namespace flotilla::tokenizer
