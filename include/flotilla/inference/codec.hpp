#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "flotilla/tokenizer/tokenizer.hpp"

namespace flotilla::inference {

/// Text to a model's tokens and back: by its tokenizer, or byte by byte where it has none. Not thread-safe.
class Codec {
 public:
  /// `tokenizer`: a file (tokenizer::open); empty: every byte is a token. Throws as tokenizer::open does.
  Codec(const std::filesystem::path& tokenizer, int vocabulary);

  /// What is no UTF-8 becomes U+FFFD where there is a tokenizer. Throws Error{bad_input} for a token that the model does not have, which
  /// is then not its tokenizer.
  std::vector<std::int32_t> encode(std::string_view text);
  /// Of a token, which may be a part of a character.
  std::string bytes_of(std::int32_t token) const;
  /// The token that ends a document, where the tokenizer has one that the model knows.
  std::optional<std::int32_t> end_of_document() const;
  bool has_tokenizer() const { return tokenizer_ != nullptr; }

 private:
  std::filesystem::path path_;
  int vocabulary_;
  std::unique_ptr<const tokenizer::Tokenizer> tokenizer_;
  std::unique_ptr<tokenizer::Encoder> encoder_;
};

}  // namespace flotilla::inference
