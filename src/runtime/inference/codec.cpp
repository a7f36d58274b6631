#include "flotilla/inference/codec.hpp"

#include "flotilla/base/error.hpp"
#include "flotilla/unicode/utf8.hpp"

namespace flotilla::inference {

Codec::Codec(const std::filesystem::path& tokenizer, int vocabulary) : path_{tokenizer}, vocabulary_{vocabulary} {
  if (tokenizer.empty()) return;
  tokenizer_ = tokenizer::open(tokenizer);
  encoder_ = tokenizer_->encoder();
}

std::vector<std::int32_t> Codec::encode(std::string_view text) {
  std::vector<std::int32_t> tokens;
  if (encoder_)
    encoder_->encode(unicode::valid_prefix(text) == text.size() ? std::string{text} : unicode::repaired(text), tokens);
  else
    for (const char c : text) tokens.push_back(static_cast<unsigned char>(c));
  for (const std::int32_t token : tokens)
    FLOTILLA_REQUIRE(token < vocabulary_, ErrorKind::bad_input, encoder_ ? path_.string() : "text as bytes", ": token ", token,
                     "; the model's vocabulary has ", vocabulary_, ": give the model's own tokenizer (--tokenizer)");
  return tokens;
}

std::string Codec::bytes_of(std::int32_t token) const {
  if (tokenizer_) return tokenizer_->bytes_of(token);
  return token < 256 ? std::string{static_cast<char>(token)} : std::string{};
}

std::optional<std::int32_t> Codec::end_of_document() const {
  const auto end = tokenizer_ ? tokenizer_->end_of_document() : std::nullopt;
  return end && *end < vocabulary_ ? end : std::nullopt;
}

}  // namespace flotilla::inference
