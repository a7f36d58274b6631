#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// Tokenizers of published models: text to the numbers of tokens.
namespace flotilla::tokenizer {

/// What one thread encodes with: scratch memory and a cache of words. Its tokenizer must outlive it.
class Encoder {
 public:
  Encoder() = default;
  Encoder(const Encoder&) = delete;
  Encoder& operator=(const Encoder&) = delete;
  virtual ~Encoder() = default;
  /// Appends the tokens of `text`, valid UTF-8; none at its beginning or end that are not in it. The same for any order of calls.
  virtual void encode(std::string_view text, std::vector<std::int32_t>& tokens) = 0;
};

/// A vocabulary and how text becomes it. Thread-safe.
class Tokenizer {
 public:
  Tokenizer() = default;
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;
  virtual ~Tokenizer() = default;

  /// One more than the largest token.
  virtual int vocabulary() const = 0;
  virtual std::optional<std::int32_t> id_of(std::string_view token) const = 0;
  /// The token that ends a document, where the file, or tokenizer_config.json beside it, says which.
  virtual std::optional<std::int32_t> end_of_document() const = 0;
  virtual std::unique_ptr<Encoder> encoder() const = 0;
  /// What the token adds to a text: bytes, of which several tokens may make one character. None for a special token, and for a number
  /// without a token.
  virtual std::string bytes_of(std::int32_t token) const = 0;
};

/// A Hugging Face tokenizer.json, or a SentencePiece .model (by its suffix). Throws Error{bad_input} with file and field for what is
/// damaged or not understood, Error{unavailable} where a library for it was not linked.
std::unique_ptr<const Tokenizer> open(const std::filesystem::path&);

}  // namespace flotilla::tokenizer
