#include "gradient_reduction.hpp"

#include <algorithm>

#include "class_buffers.hpp"
#include "class_instructions.hpp"
#include "class_parts.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/program/collectives.hpp"

namespace flotilla::program {
namespace {

constexpr int sums_under_way = 2;  // packed sums that are under way at once: one is packed while the other is summed

std::int64_t packed_elements(const ClassDraft& draft, int part, const GradientGroup& group) {
  std::int64_t elements = 0;
  for (const Region& region : shared_regions_of(draft, draft.out.parts[at(part)], part, group)) elements += region.outer * region.inner;
  return elements;
}

/// The last backward pass that adds to the part's gradients, or the sum over those who share its tokens.
std::vector<Wait> after_backward(const ClassDraft& draft, int part) {
  if (at(part) < draft.whole_sums.size() && draft.whole_sums[at(part)] >= 0) return {{draft.whole_sums[at(part)], last_run}};
  std::vector<Wait> waits;
  const int gradients = draft.out.parts[at(part)].gradients;
  for (const auto* phase : {&draft.backward, &draft.weights})
    for (int s : *phase)
      for (const Access& access : draft.out.instructions[at(s)].accesses)
        if (access.buffer == gradients && access.mode != Mode::read) waits = {{s, last_run}};
  return waits;
}

/// The members' parts of a gradient are summed before replicas sum theirs.
int add_whole_sum(ClassDraft& draft, int part, std::int64_t elements) {
  auto instruction = once_per_step("sum over members " + draft.out.parts[at(part)].name,
                                   Collective{CollectiveKind::all_reduce, draft.slots.tensor, {{}, elements * fp32_size}, {}}, true);
  instruction.accesses = {{Role::reduced, draft.out.parts[at(part)].gradients, Mode::update},
                          {Role::staging, draft.buffers.sum_staging, Mode::write}};
  instruction.waits = after_backward(draft, part);
  return add_instruction(draft, std::move(instruction));
}

int add_sum(ClassDraft& draft, int part, int buffer, int slot, Bytes bytes, std::vector<Wait> waits) {
  const auto kind = is_sharded(draft, part) ? CollectiveKind::reduce_scatter_shards : CollectiveKind::all_reduce;
  auto instruction = once_per_step("reduce gradients " + draft.out.parts[at(part)].name, Collective{kind, slot, {{}, bytes}, {}}, true);
  instruction.accesses = {{Role::reduced, buffer, Mode::update}, {Role::staging, draft.buffers.sum_staging, Mode::write}};
  instruction.waits = std::move(waits);
  return add_instruction(draft, std::move(instruction));
}

/// Packs all groups' regions before any of them comes back, since some stand in several.
std::vector<int> add_packed_sums(ClassDraft& draft, int part, int turn) {
  const auto& summing = summing_of(draft, part);
  std::vector<int> packs(summing.groups.size(), -1), sums(summing.groups.size(), -1);
  for (std::size_t g = 0; g < summing.groups.size(); ++g) {
    auto regions = shared_regions_of(draft, draft.out.parts[at(part)], part, summing.groups[g]);
    if (regions.empty()) continue;
    auto instruction = once_per_step(
        text("pack gradients ", draft.out.parts[at(part)].name, " ", g),
        RegionCopy{RegionCopy::Direction::pack, part, packed_elements(draft, part, summing.groups[g]) * fp32_size, std::move(regions)},
        true);
    instruction.accesses = {{Role::gradients, draft.out.parts[at(part)].gradients, Mode::read},
                            {Role::packed, draft.buffers.packed[at(turn)][g], Mode::write}};
    if (shares_tokens(draft) || draft.whole_sums[at(part)] >= 0) instruction.waits = after_backward(draft, part);
    packs[g] = add_instruction(draft, std::move(instruction));
  }
  for (std::size_t g = 0; g < packs.size(); ++g)
    if (packs[g] >= 0)
      sums[g] = add_sum(draft, part, draft.buffers.packed[at(turn)][g], slots_of_part(draft, part)[g],
                        draft.out.instructions[at(packs[g])].as<RegionCopy>()->bytes, {{packs[g], last_run}});
  return sums;
}

/// Of what was packed and summed for each group, the rank's share is kept until the optimizer runs.
void add_taking(ClassDraft& draft, int part, int turn, const std::vector<int>& sums) {
  int share = 0;
  for (std::size_t g = 0; g < sums.size(); ++g) {
    if (sums[g] < 0) continue;
    const auto& mine = draft.out.parts[at(part)].shards[at(share)];
    auto instruction = once_per_step(text("take gradients ", draft.out.parts[at(part)].name, " ", g),
                                     ShardExtraction{part, share, mine.most * fp32_size}, true);
    instruction.accesses = {{Role::gradients, mine.gradients, Mode::write}, {Role::packed, draft.buffers.packed[at(turn)][g], Mode::read}};
    instruction.waits = {{sums[g], last_run}};
    add_instruction(draft, std::move(instruction));
    add_norm(draft, part, -1, share++);
  }
}

void add_unpacking(ClassDraft& draft, int part, int turn, const std::vector<int>& sums) {
  if (is_sharded(draft, part)) return add_taking(draft, part, turn, sums);
  const auto& summing = summing_of(draft, part);
  for (std::size_t g = 0; g < sums.size(); ++g) {
    if (sums[g] < 0) continue;
    auto instruction =
        once_per_step(text("unpack gradients ", draft.out.parts[at(part)].name, " ", g),
                      RegionCopy{RegionCopy::Direction::unpack, part, draft.out.instructions[at(sums[g])].as<Collective>()->size.fixed,
                                 shared_regions_of(draft, draft.out.parts[at(part)], part, summing.groups[g])},
                      true);
    instruction.accesses = {{Role::gradients, draft.out.parts[at(part)].gradients, Mode::update},
                            {Role::packed, draft.buffers.packed[at(turn)][g], Mode::read}};
    instruction.waits = {{sums[g], last_run}};
    add_instruction(draft, std::move(instruction));
  }
}

}  // namespace

Bytes sum_staging(const ClassDraft& draft) {
  Bytes most{};
  for (int p = 0; p < static_cast<int>(draft.out.parts.size()); ++p) {
    const std::int64_t elements = draft.out.parts[at(p)].trained_elements();
    const Summing& summing = summing_of(draft, p);
    most = std::max(most, summing.rooms ? summing.rooms->staging.elements(elements) * fp32_size
                                        : all_reduce_staging(elements * fp32_size, fp32_size, summing.members));
  }
  return most;
}

void add_packed_buffers(ClassDraft& draft) {
  std::vector<std::int64_t> most;  // by group
  for (int p = 0; p < static_cast<int>(draft.out.parts.size()); ++p) {
    const auto& groups = summing_of(draft, p).groups;
    most.resize(std::max(most.size(), groups.size()));
    for (std::size_t g = 0; g < groups.size(); ++g) most[g] = std::max(most[g], packed_elements(draft, p, groups[g]));
  }
  for (int turn = 0; turn < sums_under_way && !most.empty(); ++turn) {
    auto& buffers = draft.buffers.packed.emplace_back();
    for (std::size_t g = 0; g < most.size(); ++g)
      buffers.push_back(add_buffer(draft, text("packed ", g, turn == 0 ? " even" : " odd"), Category::communication, most[g] * fp32_size));
  }
}

void add_norm(ClassDraft& draft, int part, int reduction, int share) {
  const auto& about = draft.out.parts[at(part)];
  auto norm = once_per_step("squared norm " + about.name, SquaredNorm{part, share}, true);
  const int gradients = share < 0 ? about.gradients : about.shards[at(share)].gradients;
  norm.accesses = {{Role::gradients, gradients, Mode::read}, {Role::scalars, draft.buffers.scalars, Mode::update}};
  if (reduction >= 0) norm.waits = {{reduction, last_run}};
  add_instruction(draft, std::move(norm));
}

std::int64_t whole_sum_elements(const ClassDraft& draft, const Part& part) {
  std::int64_t elements = 0;
  for (const auto& slot : part.slots)
    if (slot.trained && is_summed(draft, draft.in.tensors[at(slot.tensor)])) elements = slot.offset + slot.elements;
  return elements;
}

void add_whole_sums(ClassDraft& draft) {
  draft.whole_sums.assign(draft.out.parts.size(), -1);
  if (draft.slots.tensor < 0) return;
  for (int part = static_cast<int>(draft.out.parts.size()) - 1; part >= 0; --part) {
    const std::int64_t elements = whole_sum_elements(draft, draft.out.parts[at(part)]);
    if (elements > 0) draft.whole_sums[at(part)] = add_whole_sum(draft, part, elements);
  }
}

void add_part_reductions(ClassDraft& draft) {
  struct Open {
    int part = -1, turn = 0;
    std::vector<int> sums;
  } open;
  const auto finish = [&] {
    if (open.part < 0) return;
    add_unpacking(draft, open.part, open.turn, open.sums);
    if (!is_sharded(draft, open.part)) add_norm(draft, open.part, -1);
    open = {-1, (open.turn + 1) % sums_under_way, {}};
  };
  for (int p = static_cast<int>(draft.out.parts.size()) - 1; p >= 0; --p) {
    // Layer parts from last to first, the order in which backward finishes them; the token embedding, shared by two stages, comes last.
    const int part = draft.token_embedding_part < 0 ? p : p > 0 ? p - 1 : draft.token_embedding_part;
    if (draft.out.parts[at(part)].trained_elements() == 0) continue;
    const auto& summing = summing_of(draft, part);
    if (!summing.groups.empty()) {
      // One part is packed while the one before is summed.
      const int turn = open.part < 0 ? open.turn : (open.turn + 1) % sums_under_way;
      auto sums = add_packed_sums(draft, part, turn);
      finish();
      open = {part, turn, std::move(sums)};
      continue;
    }
    const auto& about = draft.out.parts[at(part)];
    const int whole_sum = draft.whole_sums[at(part)];
    const int reduction = summing.members < 2 ? whole_sum
                                              : add_sum(draft, part, about.gradients, slots_of_part(draft, part).front(),
                                                        about.trained_elements() * fp32_size, after_backward(draft, part));
    add_norm(draft, part, reduction, is_sharded(draft, part) ? 0 : -1);
  }
  finish();
}

}  // namespace flotilla::program
