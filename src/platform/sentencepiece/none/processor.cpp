// Compiled where SentencePiece is absent.
#include "flotilla/sentencepiece/processor.hpp"

#include "flotilla/base/error.hpp"

namespace flotilla::sentencepiece {

struct Processor::State {};
Processor::Processor(std::unique_ptr<State> state) : state_{std::move(state)} {}
Processor::Processor(Processor&&) noexcept = default;
Processor& Processor::operator=(Processor&&) noexcept = default;
Processor::~Processor() = default;

Processor Processor::open(const std::filesystem::path& path) {
  throw Error{
      ErrorKind::unavailable,
      text(path.string(),
           ": a SentencePiece model; built without SentencePiece: install libsentencepiece-dev and build anew, or give a tokenizer.json")};
}

// No Processor exists.
int Processor::vocabulary() const { return 0; }
std::optional<std::int32_t> Processor::id_of(std::string_view) const { return std::nullopt; }
std::optional<std::int32_t> Processor::end_of_text() const { return std::nullopt; }
std::string Processor::bytes_of(std::int32_t) const { return {}; }
void Processor::encode(std::string_view, std::vector<std::int32_t>&) const {}

std::string library_version() { return "none: built without SentencePiece"; }

}  // namespace flotilla::sentencepiece
