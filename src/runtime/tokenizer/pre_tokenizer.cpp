#include "pre_tokenizer.hpp"

#include "flotilla/base/foreign_text.hpp"
#include "flotilla/base/overloaded.hpp"
#include "flotilla/unicode/utf8.hpp"
#include "normalizer.hpp"
#include "split.hpp"

namespace flotilla::tokenizer {
namespace {

constexpr const char* gpt2_words = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

SplitBehavior behavior_of(const files::Json& name) {
  const auto word = name.as_string();
  if (word == "Isolated") return SplitBehavior::isolated;
  if (word == "Removed") return SplitBehavior::removed;
  if (word == "MergedWithPrevious") return SplitBehavior::merged_with_previous;
  if (word == "MergedWithNext") return SplitBehavior::merged_with_next;
  if (word == "Contiguous") return SplitBehavior::contiguous;
  name.refuse(in_quotes(word) + " is not supported; expected Isolated, Removed, MergedWithPrevious, MergedWithNext or Contiguous");
}

std::string with_every(std::string_view text, char from, std::string_view to) {
  std::string result;
  for (const char c : text) c == from ? result.append(to) : result.append(1, c);
  return result;
}

}  // namespace

PreTokenizer::PreTokenizer(const files::Json& pre_tokenizer) {
  if (!pre_tokenizer.is_null()) add(pre_tokenizer);
}

void PreTokenizer::add(const files::Json& step) {
  const auto type = step.get_string("type");
  if (steps_.size() >= most_steps) step.refuse(text("more than ", most_steps, " steps are not supported"));
  if (alphabet_ == Alphabet::bytes) step.refuse("a step behind ByteLevel is not supported");
  if (type == "Sequence") {
    step.expect_keys({"type", "pretokenizers"});
    for (const auto& one : step.at("pretokenizers").items()) add(one);
  } else if (type == "Split") {
    add_split(step);
  } else if (type == "Digits") {
    step.expect_keys({"type", "individual_digits"});
    const auto behavior = step.get_bool("individual_digits") ? SplitBehavior::isolated : SplitBehavior::contiguous;
    steps_.emplace_back(Split{unicode::Regex{"\\p{N}"}, behavior});
  } else if (type == "ByteLevel") {
    add_byte_level(step);
  } else if (type == "Metaspace") {
    add_metaspace(step);
  } else {
    step.at("type").refuse(in_quotes(type) + " is not supported; expected ByteLevel, Split, Digits, Metaspace or Sequence");
  }
}

void PreTokenizer::add_split(const files::Json& step) {
  step.expect_keys({"type", "pattern", "behavior", "invert"});
  steps_.emplace_back(
      Split{pattern_of(step.at("pattern")), behavior_of(step.at("behavior")), step.has("invert") && step.get_bool("invert")});
}

/// `trim_offsets` is about places in the text, which nobody asks for here.
void PreTokenizer::add_byte_level(const files::Json& step) {
  step.expect_keys({"type", "add_prefix_space", "trim_offsets", "use_regex"});
  if (step.get_bool("add_prefix_space")) steps_.emplace_back(PrependSpace{});
  if (!step.has("use_regex") || step.get_bool("use_regex")) steps_.emplace_back(Split{unicode::Regex{gpt2_words}});
  alphabet_ = Alphabet::bytes;
}

void PreTokenizer::add_metaspace(const files::Json& step) {
  step.expect_keys({"type", "replacement", "prepend_scheme", "add_prefix_space", "split", "str_rep"});
  const bool old_prefix = step.has("add_prefix_space") && !step.at("add_prefix_space").is_null() && !step.get_bool("add_prefix_space");
  const auto scheme = step.has("prepend_scheme") ? step.get_string("prepend_scheme") : old_prefix ? "never" : "always";
  if (scheme != "always" && scheme != "first" && scheme != "never")
    step.at("prepend_scheme").refuse(in_quotes(scheme) + " is not supported; expected always, first or never");
  const auto replacement = step.get_string("replacement");
  if (replacement.empty() || unicode::character_bytes(replacement[0]) != replacement.size())
    step.at("replacement").refuse("expected one character");
  steps_.emplace_back(Metaspace{replacement, scheme});
  if (!step.has("split") || step.get_bool("split"))
    steps_.emplace_back(Split{unicode::Regex::literal(replacement), SplitBehavior::merged_with_next});
}

void PreTokenizer::run_from(std::size_t step, TextPiece piece, unicode::MatchEffort& effort, const TakePiece& take) const {
  effort.spend(64 + piece.text.size());
  if (step == steps_.size()) return take(piece);
  const bool last = step + 1 == steps_.size();
  const TakePiece further = last ? TakePiece{} : [this, step, &effort, &take](TextPiece part) { run_from(step + 1, part, effort, take); };
  const TakePiece& next = last ? take : further;
  std::visit(Overloaded{[&](const Split& how) { split(how, piece, effort, next); },
                        [&](const PrependSpace&) {
                          if (piece.text.starts_with(' ')) return next(piece);
                          const auto text = " " + std::string{piece.text};
                          next({text, piece.at_start});
                        },
                        [&](const Metaspace& how) { mark_spaces(how, piece, next); }},
             steps_[step]);
}

void PreTokenizer::split(const Split& how, TextPiece piece, unicode::MatchEffort& effort, const TakePiece& take) {
  unicode::Matches matches{how.pattern, piece.text, effort};
  Joiner joiner{how.behavior, piece, take};
  std::size_t at = 0;
  while (const auto match = matches.next()) {
    if (at != match->first) joiner.add(at, match->first, how.invert);
    joiner.add(match->first, match->last, !how.invert);
    at = match->last;
  }
  if (at != piece.text.size()) joiner.add(at, piece.text.size(), how.invert);
  joiner.finish();
}

void PreTokenizer::mark_spaces(const Metaspace& how, TextPiece piece, const TakePiece& take) {
  auto text = with_every(piece.text, ' ', how.replacement);
  const bool wanted = how.scheme == "always" || (how.scheme == "first" && piece.at_start);
  if (wanted && !text.starts_with(how.replacement)) text = how.replacement + text;
  take({text, piece.at_start});
}

}  // namespace flotilla::tokenizer
