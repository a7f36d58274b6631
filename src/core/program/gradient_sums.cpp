#include "gradient_sums.hpp"

#include <algorithm>

#include "class_buffers.hpp"
#include "class_parts.hpp"
#include "class_sites.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/program/collectives.hpp"

namespace flotilla::program {
namespace {

constexpr int sums_under_way = 2;  // packed sums that are under way at once: one is packed while the other is summed

std::int64_t packed_elements(const ClassDraft& draft, int part, const Sharers& group) {
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
      for (const Access& access : draft.out.sites[at(s)].accesses)
        if (access.buffer == gradients && access.mode != Mode::read) waits = {{s, last_run}};
  return waits;
}

/// Gradients of norms and the like are those of each member's own tokens: their sum over the group, before replicas sum theirs.
int add_whole_sum(ClassDraft& draft, int part, std::int64_t elements) {
  Site site;
  site.name = "sum over tokens " + draft.out.parts[at(part)].name;
  site.op = Op::all_reduce;
  site.queue = Queue::sum;
  site.part = part;
  site.per_microbatch = false;
  site.backward = true;
  site.group = draft.slots.tensor;
  site.bytes = elements * Bytes{4};
  site.accesses = {{Role::reduced, draft.out.parts[at(part)].gradients, Mode::update},
                   {Role::staging, draft.buffers.sum_staging, Mode::write}};
  site.waits = after_backward(draft, part);
  return add_site(draft, std::move(site));
}

int add_sum(ClassDraft& draft, int part, int buffer, int slot, Bytes bytes, std::vector<Wait> waits) {
  Site site;
  site.name = "reduce gradients " + draft.out.parts[at(part)].name;
  site.op = is_sharded(draft, part) ? Op::sum_shares : Op::all_reduce;
  site.queue = Queue::sum;
  site.part = part;
  site.per_microbatch = false;
  site.backward = true;
  site.group = slot;
  site.bytes = bytes;
  site.accesses = {{Role::reduced, buffer, Mode::update}, {Role::staging, draft.buffers.sum_staging, Mode::write}};
  site.waits = std::move(waits);
  return add_site(draft, std::move(site));
}

/// Packs all groups' regions before any of them comes back, since some stand in several.
std::vector<int> add_packed_sums(ClassDraft& draft, int part, int turn) {
  const auto& summing = summing_of(draft, part);
  std::vector<int> packs(summing.groups.size(), -1), sums(summing.groups.size(), -1);
  for (std::size_t g = 0; g < summing.groups.size(); ++g) {
    Site site;
    site.regions = shared_regions_of(draft, draft.out.parts[at(part)], part, summing.groups[g]);
    if (site.regions.empty()) continue;
    site.name = text("pack gradients ", draft.out.parts[at(part)].name, " ", g);
    site.op = Op::pack;
    site.part = part;
    site.per_microbatch = false;
    site.backward = true;
    site.bytes = packed_elements(draft, part, summing.groups[g]) * fp32_size;
    site.accesses = {{Role::gradients, draft.out.parts[at(part)].gradients, Mode::read},
                     {Role::packed, draft.buffers.packed[at(turn)][g], Mode::write}};
    if (shares_tokens(draft)) site.waits = after_backward(draft, part);
    packs[g] = add_site(draft, std::move(site));
  }
  for (std::size_t g = 0; g < packs.size(); ++g)
    if (packs[g] >= 0)
      sums[g] = add_sum(draft, part, draft.buffers.packed[at(turn)][g], slots_of_part(draft, part)[g], draft.out.sites[at(packs[g])].bytes,
                        {{packs[g], last_run}});
  return sums;
}

/// Of what was packed and summed for each group, the rank's share is kept until the optimizer runs.
void add_taking(ClassDraft& draft, int part, int turn, const std::vector<int>& sums) {
  int share = 0;
  for (std::size_t g = 0; g < sums.size(); ++g) {
    if (sums[g] < 0) continue;
    const auto& mine = draft.out.parts[at(part)].shares[at(share)];
    Site site;
    site.name = text("take gradients ", draft.out.parts[at(part)].name, " ", g);
    site.op = Op::take_share;
    site.part = part;
    site.share = share;
    site.per_microbatch = false;
    site.backward = true;
    site.bytes = mine.most * fp32_size;
    site.accesses = {{Role::gradients, mine.gradients, Mode::write}, {Role::packed, draft.buffers.packed[at(turn)][g], Mode::read}};
    site.waits = {{sums[g], last_run}};
    add_site(draft, std::move(site));
    add_norm(draft, part, -1, share++);
  }
}

void add_unpacking(ClassDraft& draft, int part, int turn, const std::vector<int>& sums) {
  if (is_sharded(draft, part)) return add_taking(draft, part, turn, sums);
  const auto& summing = summing_of(draft, part);
  for (std::size_t g = 0; g < sums.size(); ++g) {
    if (sums[g] < 0) continue;
    Site site;
    site.name = text("unpack gradients ", draft.out.parts[at(part)].name, " ", g);
    site.op = Op::unpack;
    site.part = part;
    site.per_microbatch = false;
    site.backward = true;
    site.regions = shared_regions_of(draft, draft.out.parts[at(part)], part, summing.groups[g]);
    site.bytes = draft.out.sites[at(sums[g])].bytes;
    site.accesses = {{Role::gradients, draft.out.parts[at(part)].gradients, Mode::update},
                     {Role::packed, draft.buffers.packed[at(turn)][g], Mode::read}};
    site.waits = {{sums[g], last_run}};
    add_site(draft, std::move(site));
  }
}

}  // namespace

Bytes sum_staging(const ClassDraft& draft) {
  Bytes most{};
  for (int p = 0; p < static_cast<int>(draft.out.parts.size()); ++p) {
    const std::int64_t elements = draft.out.parts[at(p)].elements;
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
  Site norm;
  norm.name = "squared norm " + about.name;
  norm.op = Op::squared_norm;
  norm.part = part;
  norm.per_microbatch = false;
  norm.backward = true;
  norm.share = share;
  const int gradients = share < 0 ? about.gradients : about.shares[at(share)].gradients;
  norm.accesses = {{Role::gradients, gradients, Mode::read}, {Role::scalars, draft.buffers.scalars, Mode::update}};
  if (reduction >= 0) norm.waits = {{reduction, last_run}};
  add_site(draft, std::move(norm));
}

void add_whole_sums(ClassDraft& draft) {
  draft.whole_sums.assign(draft.out.parts.size(), -1);
  for (int part = static_cast<int>(draft.out.parts.size()) - 1; part >= 0; --part) {
    std::int64_t elements = 0;
    for (const auto& slot : draft.out.parts[at(part)].slots)
      if (draft.in.tensors[at(slot.tensor)].axis == model::Axis::none) elements = slot.offset + slot.elements;
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
    // Layer parts from last to first, the order in which backward finishes them; the word table, shared by two stages, comes last.
    const int part = draft.word_part < 0 ? p : p > 0 ? p - 1 : draft.word_part;
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
    const int whole_sum = shares_tokens(draft) ? draft.whole_sums[at(part)] : -1;
    const int reduction = summing.members < 2 ? whole_sum
                                              : add_sum(draft, part, about.gradients, slots_of_part(draft, part).front(),
                                                        {about.elements * 4}, after_backward(draft, part));
    add_norm(draft, part, reduction, is_sharded(draft, part) ? 0 : -1);
  }
  finish();
}

}  // namespace flotilla::program
