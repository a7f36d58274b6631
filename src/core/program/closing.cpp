// The end of a step: gradients are summed over the replicas, their norm and the step's scalars over the world, then the optimizer runs.
#include <algorithm>

#include "class_builder.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/program/collectives.hpp"
#include "index.hpp"

namespace flotilla::program {
namespace {

constexpr int sums_under_way = 2;  // packed sums that are under way at once: one is packed while the other is summed

}  // namespace

const Summing& ClassBuilder::summing_of(int part) const {
  return part == word_part_ && in_.kind.tied.members > 1 ? in_.kind.tied : in_.kind.data;
}

const std::vector<int>& ClassBuilder::slots_of_part(int part) const {
  return part == word_part_ && in_.kind.tied.members > 1 ? slots_.tied : slots_.data;
}

/// What the group sums of it; `part` is the index that it has, or will have.
std::vector<Region> ClassBuilder::shared_regions_of(const Part& about, int part, const Sharers& group) const {
  const Summing& summing = summing_of(part);
  return shared_regions(in_.tensors, about, summing.degrees, group, summing.replica);
}

std::int64_t ClassBuilder::packed_elements(int part, const Sharers& group) const {
  std::int64_t elements = 0;
  for (const Region& region : shared_regions_of(out_.parts[at(part)], part, group)) elements += region.outer * region.inner;
  return elements;
}

/// Others' contributions to any part's sum, packed or not.
Bytes ClassBuilder::sum_staging() const {
  Bytes most{};
  for (int p = 0; p < static_cast<int>(out_.parts.size()); ++p) {
    const std::int64_t elements = out_.parts[at(p)].elements;
    const Summing& summing = summing_of(p);
    most = std::max(most, summing.rooms ? summing.rooms->staging.elements(elements) * fp32_size
                                        : all_reduce_staging(elements * fp32_size, fp32_size, summing.members));
  }
  return most;
}

/// Where shards do not line up, what a group sums is packed first.
void ClassBuilder::add_packed_buffers() {
  std::vector<std::int64_t> most;  // by group
  for (int p = 0; p < static_cast<int>(out_.parts.size()); ++p) {
    const auto& groups = summing_of(p).groups;
    most.resize(std::max(most.size(), groups.size()));
    for (std::size_t g = 0; g < groups.size(); ++g) most[g] = std::max(most[g], packed_elements(p, groups[g]));
  }
  for (int turn = 0; turn < sums_under_way && !most.empty(); ++turn) {
    auto& buffers = packed_.emplace_back();
    for (std::size_t g = 0; g < most.size(); ++g)
      buffers.push_back(add_buffer(text("packed ", g, turn == 0 ? " even" : " odd"), Category::communication, most[g] * fp32_size));
  }
}

/// The last backward pass that adds to the part's gradients, or the sum over those who share its tokens.
std::vector<Wait> ClassBuilder::after_backward(int part) const {
  if (at(part) < whole_sums_.size() && whole_sums_[at(part)] >= 0) return {{whole_sums_[at(part)], last_run}};
  std::vector<Wait> waits;
  const int gradients = out_.parts[at(part)].gradients;
  for (const auto* phase : {&backward_, &weights_})
    for (int s : *phase)
      for (const Access& access : out_.sites[at(s)].accesses)
        if (access.buffer == gradients && access.mode != Mode::read) waits = {{s, last_run}};
  return waits;
}

int ClassBuilder::add_sum(int part, int buffer, int slot, Bytes bytes, std::vector<Wait> waits) {
  Site site;
  site.name = "reduce gradients " + out_.parts[at(part)].name;
  site.op = shares_out(part) ? Op::sum_shares : Op::all_reduce;
  site.queue = Queue::sum;
  site.part = part;
  site.per_microbatch = false;
  site.backward = true;
  site.group = slot;
  site.bytes = bytes;
  site.accesses = {{Role::reduced, buffer, Mode::update}, {Role::staging, sum_staging_, Mode::write}};
  site.waits = std::move(waits);
  return add_site(std::move(site));
}

/// Packs all groups' regions before any of them comes back, since some stand in several.
std::vector<int> ClassBuilder::add_packed_sums(int part, int turn) {
  const auto& summing = summing_of(part);
  std::vector<int> packs(summing.groups.size(), -1), sums(summing.groups.size(), -1);
  for (std::size_t g = 0; g < summing.groups.size(); ++g) {
    Site site;
    site.regions = shared_regions_of(out_.parts[at(part)], part, summing.groups[g]);
    if (site.regions.empty()) continue;
    site.name = text("pack gradients ", out_.parts[at(part)].name, " ", g);
    site.op = Op::pack;
    site.part = part;
    site.per_microbatch = false;
    site.backward = true;
    site.bytes = packed_elements(part, summing.groups[g]) * fp32_size;
    site.accesses = {{Role::gradients, out_.parts[at(part)].gradients, Mode::read}, {Role::packed, packed_[at(turn)][g], Mode::write}};
    if (shares()) site.waits = after_backward(part);
    packs[g] = add_site(std::move(site));
  }
  for (std::size_t g = 0; g < packs.size(); ++g)
    if (packs[g] >= 0)
      sums[g] = add_sum(part, packed_[at(turn)][g], slots_of_part(part)[g], out_.sites[at(packs[g])].bytes, {{packs[g], last_run}});
  return sums;
}

void ClassBuilder::add_unpacking(int part, int turn, const std::vector<int>& sums) {
  if (shares_out(part)) return add_taking(part, turn, sums);
  const auto& summing = summing_of(part);
  for (std::size_t g = 0; g < sums.size(); ++g) {
    if (sums[g] < 0) continue;
    Site site;
    site.name = text("unpack gradients ", out_.parts[at(part)].name, " ", g);
    site.op = Op::unpack;
    site.part = part;
    site.per_microbatch = false;
    site.backward = true;
    site.regions = shared_regions_of(out_.parts[at(part)], part, summing.groups[g]);
    site.bytes = out_.sites[at(sums[g])].bytes;
    site.accesses = {{Role::gradients, out_.parts[at(part)].gradients, Mode::update}, {Role::packed, packed_[at(turn)][g], Mode::read}};
    site.waits = {{sums[g], last_run}};
    add_site(std::move(site));
  }
}

/// Of the part, or of the rank's share of it.
void ClassBuilder::add_norm(int part, int reduction, int share) {
  const auto& about = out_.parts[at(part)];
  Site norm;
  norm.name = "squared norm " + about.name;
  norm.op = Op::squared_norm;
  norm.part = part;
  norm.per_microbatch = false;
  norm.backward = true;
  norm.share = share;
  const int gradients = share < 0 ? about.gradients : about.shares[at(share)].gradients;
  norm.accesses = {{Role::gradients, gradients, Mode::read}, {Role::scalars, scalars_, Mode::update}};
  if (reduction >= 0) norm.waits = {{reduction, last_run}};
  add_site(std::move(norm));
}

void ClassBuilder::add_part_reductions() {
  struct Open {
    int part = -1, turn = 0;
    std::vector<int> sums;
  } open;
  const auto finish = [&] {
    if (open.part < 0) return;
    add_unpacking(open.part, open.turn, open.sums);
    if (!shares_out(open.part)) add_norm(open.part, -1);
    open = {-1, (open.turn + 1) % sums_under_way, {}};
  };
  for (int p = static_cast<int>(out_.parts.size()) - 1; p >= 0; --p) {
    // Layer parts from last to first, the order in which backward finishes them; the word table, shared by two stages, comes last.
    const int part = word_part_ < 0 ? p : p > 0 ? p - 1 : word_part_;
    const auto& summing = summing_of(part);
    if (!summing.groups.empty()) {
      // One part is packed while the one before is summed.
      const int turn = open.part < 0 ? open.turn : (open.turn + 1) % sums_under_way;
      auto sums = add_packed_sums(part, turn);
      finish();
      open = {part, turn, std::move(sums)};
      continue;
    }
    const auto& about = out_.parts[at(part)];
    const int whole_sum = shares() ? whole_sums_[at(part)] : -1;
    const int reduction = summing.members < 2
                              ? whole_sum
                              : add_sum(part, about.gradients, slots_of_part(part).front(), {about.elements * 4}, after_backward(part));
    add_norm(part, reduction, shares_out(part) ? 0 : -1);
  }
  finish();
}

/// Queue order carries the wait for the totals from the first to the others.
void ClassBuilder::add_optimizer() {
  const int totals = closing_.back();
  if (in_.plan.shard_optimizer) return add_shared_optimizers(totals);
  for (int p = 0; p < static_cast<int>(out_.parts.size()); ++p) add_optimizer_of(p, -1, p == 0 ? totals : -1);
}

void ClassBuilder::add_optimizer_of(int p, int share, int totals) {
  const auto& part = out_.parts[at(p)];
  const bool whole = share < 0;
  const PartShare none;
  const auto& mine = whole ? none : part.shares[at(share)];
  Site site;
  site.name = "optimizer " + part.name;
  site.op = Op::optimizer;
  site.part = p;
  site.share = share;
  site.per_microbatch = false;
  site.accesses = {{Role::parameters, whole ? part.parameters : mine.parameters, Mode::update},
                   {Role::gradients, whole ? part.gradients : mine.gradients, Mode::read},
                   {Role::moment1, whole ? part.moment1 : mine.moment1, Mode::update},
                   {Role::moment2, whole ? part.moment2 : mine.moment2, Mode::update},
                   {Role::totals, totals_, Mode::read}};
  // Packed weights are written where they are gathered.
  if (!mine.packed() && part.weights != part.parameters) site.accesses.push_back({Role::weights, part.weights, Mode::write});
  if (totals >= 0) site.waits = {{totals, last_run}};
  add_site(std::move(site));
}

/// The last site that adds to the scalars, or -1.
int ClassBuilder::last_adding_scalars() const {
  int found = -1;
  for (const auto* phase : {&forward_, &backward_, &closing_})
    for (int s : *phase)
      for (const Access& access : out_.sites[at(s)].accesses)
        if (access.buffer == scalars_) found = s;
  return found;
}

void ClassBuilder::add_closing_phase() {
  if (training() && shares()) add_whole_sums();
  if (training()) add_part_reductions();
  const int last_scalar = last_adding_scalars();
  Site scalars;
  scalars.name = "reduce scalars";
  scalars.op = Op::reduce_scalars;
  scalars.queue = Queue::sum;
  scalars.per_microbatch = false;
  scalars.group = slots_.world;
  scalars.bytes = out_.buffers[static_cast<std::size_t>(scalars_)].size;
  scalars.accesses = {{Role::scalars, scalars_, Mode::read}, {Role::totals, totals_, Mode::write}};
  if (sum_staging_ >= 0) scalars.accesses.push_back({Role::staging, sum_staging_, Mode::write});
  scalars.waits = {{opening_.front(), last_run}};  // of itself enough where no microbatch runs
  if (last_scalar >= 0) scalars.waits.push_back({last_scalar, last_run});
  add_site(std::move(scalars));
  if (training()) add_optimizer();
}

}  // namespace flotilla::program
