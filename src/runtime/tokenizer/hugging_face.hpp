#pragma once
#include <filesystem>
#include <memory>

#include "added_tokens.hpp"
#include "bpe.hpp"
#include "flotilla/tokenizer/tokenizer.hpp"
#include "normalizer.hpp"
#include "pre_tokenizer.hpp"

namespace flotilla::tokenizer {

/// tokenizer.json: added tokens, normalizer, pre-tokenizer, model. What its post-processor adds around a text is not added here.
class HuggingFaceTokenizer : public Tokenizer {
 public:
  struct Parts {
    AddedTokens raw, normalized;  ///< looked for before and after normalization
    Normalizer normalizer;
    PreTokenizer pre_tokenizer;
    Bpe model;
    Vocabulary added, special;  ///< special ones are among the added
    std::optional<std::int32_t> end_of_document;
  };
  explicit HuggingFaceTokenizer(Parts parts);

  int vocabulary() const override { return vocabulary_; }
  std::optional<std::int32_t> id_of(std::string_view token) const override;
  std::optional<std::int32_t> end_of_document() const override { return parts_.end_of_document; }
  std::unique_ptr<Encoder> encoder() const override;
  std::string bytes_of(std::int32_t token) const override;

 private:
  Parts parts_;
  std::unordered_map<std::int32_t, std::string> bytes_;  ///< by token
  int vocabulary_ = 0;
};

std::unique_ptr<const Tokenizer> read_hugging_face(const std::filesystem::path&);

}  // namespace flotilla::tokenizer
