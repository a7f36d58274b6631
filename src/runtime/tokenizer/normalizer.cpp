#include "normalizer.hpp"

#include "flotilla/base/error.hpp"
#include "flotilla/base/foreign_text.hpp"
#include "flotilla/base/overloaded.hpp"

namespace flotilla::tokenizer {
namespace {

/// NFKD makes 11 bytes of one, the normalizers of published tokenizers 3.
void require_bounded(std::size_t bytes, const unicode::MatchEffort& effort) {
  const auto most = 32 * effort.bytes() + (64 << 10);
  FLOTILLA_REQUIRE(bytes <= most, ErrorKind::bad_input, "normalizer: makes more than ", most, " bytes of ", effort.bytes(),
                   "; take the tokenizer that the model was published with");
}

std::string with_replacements(const std::string& text, const unicode::Regex& pattern, const std::string& content,
                              unicode::MatchEffort& effort) {
  unicode::Matches matches{pattern, text, effort};
  std::string result;
  std::size_t at = 0;
  while (const auto match = matches.next()) {
    require_bounded(result.size() + content.size(), effort);
    result.append(text, at, match->first - at).append(content);
    at = match->last;
  }
  return result.append(text, at);
}

}  // namespace

unicode::Regex pattern_of(const files::Json& pattern) {
  pattern.expect_keys({"String", "Regex"});
  if (pattern.has("String")) return unicode::Regex::literal(pattern.get_string("String"));
  const auto regex = pattern.at("Regex");
  try {
    return unicode::Regex{regex.as_string()};
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::bad_input) throw;
    regex.refuse(error.what());
  }
}

Normalizer::Normalizer(const files::Json& normalizer) {
  if (!normalizer.is_null()) add(normalizer);
}

void Normalizer::add(const files::Json& step) {
  if (steps_.size() == most_steps) step.refuse(flotilla::text("more than ", most_steps, " steps are not supported"));
  using unicode::NormalForm;
  const auto type = step.get_string("type");
  if (type == "Sequence") {
    step.expect_keys({"type", "normalizers"});
    for (const auto& one : step.at("normalizers").items()) add(one);
  } else if (type == "Prepend") {
    step.expect_keys({"type", "prepend"});
    steps_.emplace_back(Prepend{step.get_string("prepend")});
  } else if (type == "Replace") {
    step.expect_keys({"type", "pattern", "content"});
    steps_.emplace_back(Replace{pattern_of(step.at("pattern")), step.get_string("content")});
  } else {
    step.expect_keys({"type"});
    if (type == "NFC")
      steps_.emplace_back(NormalForm::nfc);
    else if (type == "NFD")
      steps_.emplace_back(NormalForm::nfd);
    else if (type == "NFKC")
      steps_.emplace_back(NormalForm::nfkc);
    else if (type == "NFKD")
      steps_.emplace_back(NormalForm::nfkd);
    else
      step.at("type").refuse(in_quotes(type) + " is not supported; expected NFC, NFD, NFKC, NFKD, Prepend, Replace or Sequence");
  }
}

std::string Normalizer::run(std::string text, unicode::MatchEffort& effort) const {
  for (const auto& step : steps_) {
    effort.spend(text.size());
    text = std::visit(Overloaded{[&](unicode::NormalForm form) { return unicode::normalized(text, form); },
                                 [&](const Prepend& prepend) { return text.empty() ? text : prepend.what + text; },
                                 [&](const Replace& replace) { return with_replacements(text, replace.pattern, replace.content, effort); }},
                      step);
    require_bounded(text.size(), effort);
  }
  return text;
}

}  // namespace flotilla::tokenizer
