#include "flotilla/base/error.hpp"
#include "flotilla/sentencepiece/processor.hpp"
#include "flotilla/tokenizer/tokenizer.hpp"
#include "hugging_face.hpp"

namespace flotilla::tokenizer {
namespace {

class SentencePieceEncoder : public Encoder {
 public:
  explicit SentencePieceEncoder(const sentencepiece::Processor& processor) : processor_{processor} {}
  void encode(std::string_view text, std::vector<std::int32_t>& tokens) override { processor_.encode(text, tokens); }

 private:
  const sentencepiece::Processor& processor_;
};

class SentencePieceTokenizer : public Tokenizer {
 public:
  explicit SentencePieceTokenizer(sentencepiece::Processor processor) : processor_{std::move(processor)} {}
  int vocabulary() const override { return processor_.vocabulary(); }
  std::optional<std::int32_t> id_of(std::string_view token) const override { return processor_.id_of(token); }
  std::optional<std::int32_t> end_of_document() const override { return processor_.end_of_text(); }
  std::unique_ptr<Encoder> encoder() const override { return std::make_unique<SentencePieceEncoder>(processor_); }
  std::string bytes_of(std::int32_t token) const override { return processor_.bytes_of(token); }

 private:
  sentencepiece::Processor processor_;
};

}  // namespace

std::unique_ptr<const Tokenizer> open(const std::filesystem::path& path) {
  if (path.extension() == ".model") return std::make_unique<SentencePieceTokenizer>(sentencepiece::Processor::open(path));
  return read_hugging_face(path);
}

}  // namespace flotilla::tokenizer
