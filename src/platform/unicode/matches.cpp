#include "flotilla/unicode/regex.hpp"
#include "flotilla/unicode/utf8.hpp"

namespace flotilla::unicode {

std::optional<Match> Matches::next() {
  while (from_ <= text_.size()) {
    const auto match = regex_.find(text_, from_);
    if (!match) break;
    if (match->first == match->last && last_ == match->last) {
      from_ += from_ < text_.size() ? character_bytes(text_[from_]) : 1;
      continue;
    }
    from_ = match->last;
    last_ = match->last;
    return match;
  }
  from_ = text_.size() + 1;
  return std::nullopt;
}

}  // namespace flotilla::unicode
