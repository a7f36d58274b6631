#include "hugging_face.hpp"

#include <algorithm>
#include <functional>

namespace flotilla::tokenizer {
namespace {

class HuggingFaceEncoder : public Encoder {
 public:
  explicit HuggingFaceEncoder(const HuggingFaceTokenizer::Parts& parts) : parts_{parts} {}

  void encode(std::string_view text, std::vector<std::int32_t>& tokens) override {
    tokens_ = &tokens;
    unicode::MatchEffort effort{text.size()};
    parts_.raw.split(text, effort, [&](std::string_view part, std::optional<std::int32_t> token) {
      token ? tokens.push_back(*token) : encode_raw({part, part.data() == text.data()}, effort);
    });
  }

 private:
  void encode_raw(TextPiece part, unicode::MatchEffort& effort) {
    if (parts_.normalizer.empty()) return encode_normalized(part, effort);
    const auto text = parts_.normalizer.run(std::string{part.text}, effort);
    encode_normalized({text, part.at_start}, effort);
  }

  void encode_normalized(TextPiece whole, unicode::MatchEffort& effort) {
    parts_.normalized.split(whole.text, effort, [&](std::string_view part, std::optional<std::int32_t> token) {
      if (token) return tokens_->push_back(*token);
      parts_.pre_tokenizer.run({part, whole.at_start && part.data() == whole.text.data()}, effort, take_word_);
    });
  }

  const HuggingFaceTokenizer::Parts& parts_;
  Bpe::Workspace work_;
  std::vector<std::int32_t>* tokens_ = nullptr;
  const TakePiece take_word_ = [this](TextPiece word) { parts_.model.encode(word.text, work_, *tokens_); };
};

}  // namespace

HuggingFaceTokenizer::HuggingFaceTokenizer(Parts parts) : parts_{std::move(parts)} {
  for (const Vocabulary& tokens : {std::cref(parts_.model.vocabulary()), std::cref(parts_.added)})
    for (const auto& [token, id] : tokens) vocabulary_ = std::max(vocabulary_, id + 1);
  for (const auto& [token, id] : parts_.model.vocabulary()) bytes_[id] = parts_.model.bytes_of(token);
  for (const auto& [token, id] : parts_.added) bytes_[id] = parts_.special.contains(token) ? std::string{} : token;
}

std::string HuggingFaceTokenizer::bytes_of(std::int32_t token) const {
  const auto found = bytes_.find(token);
  return found == bytes_.end() ? std::string{} : found->second;
}

std::optional<std::int32_t> HuggingFaceTokenizer::id_of(std::string_view token) const {
  for (const Vocabulary& tokens : {std::cref(parts_.added), std::cref(parts_.model.vocabulary())})
    if (const auto found = tokens.find(token); found != tokens.end()) return found->second;
  return std::nullopt;
}

std::unique_ptr<Encoder> HuggingFaceTokenizer::encoder() const { return std::make_unique<HuggingFaceEncoder>(parts_); }

}  // namespace flotilla::tokenizer
