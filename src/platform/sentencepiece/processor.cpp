#include "flotilla/sentencepiece/processor.hpp"

#include <sentencepiece_processor.h>

#include "flotilla/base/error.hpp"
#include "flotilla/base/foreign_text.hpp"
#include "flotilla/files/text_file.hpp"

namespace flotilla::sentencepiece {
namespace {

void require(const ::sentencepiece::util::Status& status, std::string_view what) {
  FLOTILLA_REQUIRE(status.ok(), ErrorKind::bad_input, what, ": ", printable(status.message()));
}

}  // namespace

struct Processor::State {
  ::sentencepiece::SentencePieceProcessor processor;
};

Processor::Processor(std::unique_ptr<State> state) : state_{std::move(state)} {}
Processor::Processor(Processor&&) noexcept = default;
Processor& Processor::operator=(Processor&&) noexcept = default;
Processor::~Processor() = default;

Processor Processor::open(const std::filesystem::path& path) {
  const auto model = files::read_text(path);
  FLOTILLA_REQUIRE(!model.empty(), ErrorKind::bad_input, path.string(), ": empty; expected a SentencePiece model");
  auto state = std::make_unique<State>();
  require(state->processor.LoadFromSerializedProto(model), path.string() + ": no SentencePiece model");
  FLOTILLA_REQUIRE(state->processor.GetPieceSize() > 0, ErrorKind::bad_input, path.string(), ": a SentencePiece model without pieces");
  return Processor{std::move(state)};
}

int Processor::vocabulary() const { return state_->processor.GetPieceSize(); }

std::optional<std::int32_t> Processor::id_of(std::string_view piece) const {
  const auto id = state_->processor.PieceToId(std::string{piece});
  if (id < 0 || id >= vocabulary() || state_->processor.IdToPiece(id) != piece) return std::nullopt;
  return id;
}

std::optional<std::int32_t> Processor::end_of_text() const {
  const auto id = state_->processor.eos_id();
  return id < 0 ? std::nullopt : std::optional<std::int32_t>{id};
}

std::string Processor::bytes_of(std::int32_t id) const {
  const auto& p = state_->processor;
  if (id < 0 || id >= vocabulary() || p.IsControl(id) || p.IsUnknown(id) || p.IsUnused(id)) return {};
  const std::string& piece = p.IdToPiece(id);
  if (p.IsByte(id)) return {static_cast<char>(std::stoi(piece.substr(3, 2), nullptr, 16))};  // <0x0A>
  constexpr std::string_view space_mark = "\xe2\x96\x81";
  std::string text;
  for (std::size_t at = 0; at < piece.size();) {
    const bool space = std::string_view{piece}.substr(at).starts_with(space_mark);
    text += space ? ' ' : piece[at];
    at += space ? space_mark.size() : 1;
  }
  return text;
}

void Processor::encode(std::string_view text, std::vector<std::int32_t>& ids) const {
  std::vector<int> mine;
  require(state_->processor.Encode({text.data(), text.size()}, &mine), "SentencePiece");
  ids.insert(ids.end(), mine.begin(), mine.end());
}

std::string library_version() { return "SentencePiece " FLOTILLA_SENTENCEPIECE_VERSION; }

}  // namespace flotilla::sentencepiece
