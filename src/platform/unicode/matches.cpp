#include "flotilla/unicode/regex.hpp"
#include "flotilla/unicode/utf8.hpp"

#include "flotilla/base/error.hpp"
#include "flotilla/signals/stop_signals.hpp"

namespace flotilla::unicode {

void MatchEffort::spend(std::size_t looks) {
  signals::refuse_if_stopped();
  FLOTILLA_REQUIRE(looks <= left_, ErrorKind::bad_input, "regular expression: its matches in a text of ", bytes_, " bytes take more than ",
                   least + per_byte * bytes_, " looks at a byte; take a tokenizer whose patterns end, or shorter documents");
  left_ -= looks;
}

std::optional<Match> Matches::next() {
  while (from_ <= text_.size()) {
    const auto match = regex_.find(text_, from_, effort_);
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
