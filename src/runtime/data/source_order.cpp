#include "source_order.hpp"

#include <algorithm>

#include "flotilla/base/error.hpp"
#include "flotilla/base/hash.hpp"
#include "permutation.hpp"

namespace flotilla::data {
namespace {

constexpr std::uint64_t order_purpose = fnv1a("data order");
constexpr std::uint64_t offset_purpose = fnv1a("data offset");
constexpr std::uint64_t growth_purpose = fnv1a("data growth");
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

}  // namespace

SourceOrder::SourceOrder(const Corpus& corpus, std::size_t known, int length, std::uint64_t seed)
    : corpus_{corpus}, length_{length}, seed_{seed} {
  std::int64_t sum = 0;
  for (const auto& section : corpus_.sections()) {
    first_sequence_.push_back(sum);
    sum += cut(section.size(), length_).sequences;
  }
  first_sequence_.push_back(sum);
  generations_.push_back({.total = total(known)});
}

void SourceOrder::grow(std::int64_t draw, std::size_t known) {
  const auto& last = generations_.back();
  FLOTILLA_ASSERT(draw >= last.begin && total(known) >= last.total, "growth at draw ", draw, " to ", known, " files");
  const auto later = draw - last.whole_from(), drawn = last.total > 0 ? std::max<std::int64_t>(0, later) : 0;
  const auto epochs = drawn / std::max<std::int64_t>(1, last.total), begun = drawn % std::max<std::int64_t>(1, last.total);
  Generation next{.begin = draw, .total = total(known), .pool_epoch = last.pool_epoch, .whole_epoch = last.whole_epoch + epochs};
  if (later < 0) next.left = -later;
  if (begun > 0) next.left = last.total - begun;
  if (later >= 0) next.pool_epoch = next.whole_epoch - (begun > 0 ? 0 : 1);
  if (begun > 0) ++next.whole_epoch;
  // Of a source that nothing was drawn from, the new sequences are part of the first epoch.
  if (next.whole_epoch > 0) next.pool = next.left + next.total - last.total;
  generations_.push_back(next);
}

std::int64_t SourceOrder::draws(std::int64_t epochs) const {
  const auto& last = generations_.back();
  return last.whole_from() + std::max<std::int64_t>(0, epochs - last.whole_epoch) * last.total;
}

Location SourceOrder::locate(std::int64_t draw) const {
  const auto after = std::ranges::upper_bound(generations_, draw, {}, &Generation::begin);
  return locate(static_cast<std::size_t>(after - generations_.begin()) - 1, draw);
}

Location SourceOrder::locate(std::size_t number, std::int64_t draw) const {
  const auto& generation = generations_[number];
  if (draw < generation.whole_from()) {
    const auto drawn = Permutation{generation.pool, seed_, growth_purpose + number}(draw - generation.begin);
    if (drawn < generation.left) return locate(number - 1, generation.begin + drawn);
    return place(generation.pool_epoch, generations_[number - 1].total + drawn - generation.left, true);
  }
  const auto later = draw - generation.whole_from();
  const auto epoch = generation.whole_epoch + later / generation.total;
  const Permutation order{generation.total, seed_, order_purpose + static_cast<std::uint64_t>(epoch)};
  return place(epoch, order(later % generation.total), true);
}

Location SourceOrder::locate_evaluation(std::int64_t index) const {
  return place(0, Permutation{sequences(), 0, evaluation_purpose}(index), false);
}

Location SourceOrder::place(std::int64_t epoch, std::int64_t sequence, bool shifted) const {
  // The last section that begins at or before the sequence: sections without sequences begin where the next one does.
  const auto after = std::ranges::upper_bound(first_sequence_, sequence);
  const auto number = static_cast<std::size_t>(after - first_sequence_.begin()) - 1;
  const auto& section = corpus_.sections()[number];
  auto first = section.first + (sequence - first_sequence_[number]) * length_;
  if (shifted) {
    const auto bits = Philox{seed_, offset_purpose}(static_cast<std::uint64_t>(epoch), number);
    const auto offsets = static_cast<std::uint64_t>(cut(section.size(), length_).offsets);
    first += static_cast<std::int64_t>((std::uint64_t{bits[0]} << 32 | bits[1]) % offsets);
  }
  return {epoch, sequence, static_cast<int>(number), first};
}

}  // namespace flotilla::data
