#include "flotilla/data/sampler.hpp"

#include <algorithm>
#include <ostream>

#include "flotilla/base/error.hpp"
#include "flotilla/base/hash.hpp"
#include "permutation.hpp"

namespace flotilla::data {
namespace {

constexpr std::uint64_t order_purpose = fnv1a("data order");
constexpr std::uint64_t offset_purpose = fnv1a("data offset");
constexpr std::uint64_t evaluation_purpose = fnv1a("evaluation order");

/// From here on a section gives up one sequence so that its offset can be any: at most 1 token in 32 is not seen in an epoch.
constexpr std::int64_t enough_to_shift_freely = 32;

struct SequenceCut {
  std::int64_t sequences = 0;
  std::int64_t offsets = 1;  ///< the offset is one of 0 … offsets-1
};

SequenceCut cut(std::int64_t tokens, std::int64_t length) {
  const auto whole = std::max<std::int64_t>(tokens - 1, 0) / length;
  if (whole == 0) return {};
  if (whole >= enough_to_shift_freely) return {whole - 1, length};
  return {whole, tokens - whole * length};
}

void check(const SamplerOptions& options) {
  FLOTILLA_REQUIRE(options.length >= 1, ErrorKind::bad_input, "sequence length ", options.length, "; expected at least 1");
  FLOTILLA_REQUIRE(options.global_batch >= 1, ErrorKind::bad_input, "global batch ", options.global_batch, "; expected at least 1");
  FLOTILLA_REQUIRE(options.vocabulary >= 1, ErrorKind::bad_input, "vocabulary ", options.vocabulary, "; expected at least 1");
}

[[noreturn]] void refuse_too_short(const Corpus& corpus, int length) {
  FLOTILLA_REQUIRE(!corpus.empty(), ErrorKind::bad_input, "no data to take sequences from; expected at least one file of ", length + 1,
                   " tokens");
  const auto& longest = *std::ranges::max_element(corpus.sections(), {}, &Section::size);
  throw Error{ErrorKind::bad_input, text(longest.file->path().string(), ": tokens ", longest.first, " to ", longest.last, " are ",
                                         longest.size(), ", too few for one sequence; expected at least ", length + 1, " (length ", length,
                                         " and the last target); use a longer file or a shorter length",
                                         longest.first > 0 ? " or a larger validation fraction" : "")};
}

}  // namespace

std::ostream& operator<<(std::ostream& out, const Location& location) {
  return out << "epoch " << location.epoch << ", sequence " << location.sequence << ": token " << location.first << " of file "
             << location.section;
}

Sampler::Sampler(Corpus corpus, SamplerOptions options) : corpus_{std::move(corpus)}, options_{options} {
  check(options_);
  for (const auto& section : corpus_.sections()) {
    first_sequence_.push_back(per_epoch_);
    per_epoch_ += cut(section.size(), options_.length).sequences;
  }
  first_sequence_.push_back(per_epoch_);
  if (per_epoch_ == 0) refuse_too_short(corpus_, options_.length);
}

Location Sampler::locate(std::int64_t step, int index) const {
  FLOTILLA_ASSERT(step >= 0 && index >= 0 && index < options_.global_batch, "sequence ", index, " of step ", step);
  const auto number = step * options_.global_batch + index;
  const auto epoch = number / per_epoch_;
  const Permutation order{per_epoch_, options_.seed, order_purpose + static_cast<std::uint64_t>(epoch)};
  return place(epoch, order(number % per_epoch_), true);
}

Location Sampler::locate_evaluation(std::int64_t index) const {
  return place(0, Permutation{per_epoch_, 0, evaluation_purpose}(index), false);
}

Location Sampler::place(std::int64_t epoch, std::int64_t sequence, bool shifted) const {
  // The last section that begins at or before the sequence: sections without sequences begin where the next one does.
  const auto after = std::ranges::upper_bound(first_sequence_, sequence);
  const auto number = static_cast<std::size_t>(after - first_sequence_.begin()) - 1;
  const auto& section = corpus_.sections()[number];
  auto first = section.first + (sequence - first_sequence_[number]) * options_.length;
  if (shifted) {
    const auto bits = Philox{options_.seed, offset_purpose}(static_cast<std::uint64_t>(epoch), number);
    const auto offsets = static_cast<std::uint64_t>(cut(section.size(), options_.length).offsets);
    first += static_cast<std::int64_t>((std::uint64_t{bits[0]} << 32 | bits[1]) % offsets);
  }
  return {epoch, sequence, static_cast<int>(number), first};
}

void Sampler::read(const Location& location, std::span<std::int32_t> tokens) const {
  FLOTILLA_ASSERT(tokens.size() == static_cast<std::size_t>(options_.length) + 1, "room for ", tokens.size(), " tokens, length ",
                  options_.length);
  corpus_.sections().at(static_cast<std::size_t>(location.section)).file->read(location.first, tokens, options_.vocabulary);
}

std::string Sampler::unused() const {
  std::int64_t count = 0;
  const Section* first = nullptr;
  for (const auto& section : corpus_.sections()) {
    if (section.size() > options_.length) continue;
    if (count++ == 0) first = &section;
  }
  if (count == 0) return {};
  return text(count, " of ", corpus_.sections().size(), " files have fewer than ", options_.length + 1,
              " tokens (length + 1) and are not used, the first: ", first->file->path().string(), " (", first->size(), " tokens)");
}

}  // namespace flotilla::data
