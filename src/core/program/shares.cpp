// Optimizers shared out among those who sum the gradients (ZeRO-1): everybody has the sum of its share, updates that, and the refreshed
// weights are gathered. What a share is, the sum says (team_sum.hpp); where shards do not line up it is a share of what is packed.
#include "class_builder.hpp"
#include "flotilla/base/error.hpp"
#include "index.hpp"

namespace flotilla::program {
namespace {

constexpr int packed_under_way = 2;  // packed weights that are under way at once, as with gradients

}  // namespace

bool ClassBuilder::shares_out(int part) const { return in_.plan.shard_optimizer && summing_of(part).members > 1; }

void ClassBuilder::add_shares(Part& part, int index) {
  const Summing& summing = summing_of(index);
  const auto& slots = slots_of_part(index);
  if (summing.groups.empty()) {
    PartShare share;
    share.group = slots.front();
    share.summed = part.elements;
    share.gradients = part.gradients;
    share.parameters = part.parameters;  // none yet in bf16
    for (int s = 0; s < static_cast<int>(part.slots.size()); ++s)
      share.spans.push_back({s, part.slots[at(s)].offset, part.slots[at(s)].elements});
    add_share_buffers(part, share, part.name);
    part.shares.push_back(std::move(share));
    return;
  }
  for (std::size_t g = 0; g < summing.groups.size(); ++g) {
    PartShare share;
    share.group = slots[g];
    for (int s = 0; s < static_cast<int>(part.slots.size()); ++s) {
      Part one;
      one.slots = {part.slots[at(s)]};
      PartShare::Span span{s, share.summed, 0, static_cast<std::int64_t>(share.regions.size()), 0};
      for (const Region& region : shared_regions_of(one, index, summing.groups[g])) {
        span.elements += region.outer * region.inner;
        ++span.regions;
        share.regions.push_back(region);
      }
      share.summed += span.elements;
      if (span.elements > 0) share.spans.push_back(span);
    }
    if (share.regions.empty()) continue;
    add_share_buffers(part, share, text(part.name, " ", g));
    part.shares.push_back(std::move(share));
  }
}

void ClassBuilder::add_share_buffers(Part& part, PartShare& share, const std::string& name) {
  share.most = summing_of(static_cast<int>(out_.parts.size())).rooms->share.elements(share.summed);
  const auto add = [&](const char* what, Category category) {
    return add_buffer(text(what, " share ", name), category, share.most * fp32_size, 1, true);
  };
  if (share.packed()) share.gradients = add("gradients", Category::gradients);
  if (share.packed() || share.parameters < 0) share.parameters = add("parameters", Category::parameters);
  share.moment1 = add("moment1", Category::optimizer);
  share.moment2 = add("moment2", Category::optimizer);
  FLOTILLA_ASSERT(share.gradients >= 0 && part.gradients >= 0, part.name);
}

/// Of what was packed and summed for each group, the rank's share is kept until the optimizer runs.
void ClassBuilder::add_taking(int part, int turn, const std::vector<int>& sums) {
  int share = 0;
  for (std::size_t g = 0; g < sums.size(); ++g) {
    if (sums[g] < 0) continue;
    const auto& mine = out_.parts[at(part)].shares[at(share)];
    Site site;
    site.name = text("take gradients ", out_.parts[at(part)].name, " ", g);
    site.op = Op::take_share;
    site.part = part;
    site.share = share;
    site.per_microbatch = false;
    site.backward = true;
    site.bytes = mine.most * fp32_size;
    site.accesses = {{Role::gradients, mine.gradients, Mode::write}, {Role::packed, packed_[at(turn)][g], Mode::read}};
    site.waits = {{sums[g], last_run}};
    add_site(std::move(site));
    add_norm(part, -1, share++);
  }
}

/// Everybody's weights, in the part's own place or packed.
int ClassBuilder::add_weights_gather(int part, int share, int buffer, int optimizer) {
  const auto& about = out_.parts[at(part)];
  Site site;
  site.name = "gather weights " + about.name;
  site.op = Op::gather_shares;
  site.queue = Queue::sum;
  site.part = part;
  site.share = share;
  site.per_microbatch = false;
  site.group = about.shares[at(share)].group;
  site.bytes = about.shares[at(share)].summed * element_size(in_.plan.precision);
  site.accesses = {{Role::reduced, buffer, Mode::update}};
  site.waits = {{optimizer, last_run}};
  return add_site(std::move(site));
}

void ClassBuilder::add_weights_unpacking(int part, int turn, const std::vector<int>& gathers) {
  const auto& about = out_.parts[at(part)];
  for (std::size_t s = 0, g = 0; s < gathers.size(); ++s, ++g) {
    while (slots_of_part(part)[g] != about.shares[s].group) ++g;
    Site site;
    site.name = text("unpack weights ", about.name, " ", g);
    site.op = Op::unpack;
    site.part = part;
    site.per_microbatch = false;
    site.regions = about.shares[s].regions;
    site.bytes = about.shares[s].summed * element_size(in_.plan.precision);
    site.accesses = {{Role::weights, about.weights, Mode::update}, {Role::packed, packed_[at(turn)][g], Mode::read}};
    site.waits = {{gathers[s], last_run}};
    add_site(std::move(site));
  }
}

/// Weights are gathered while the next part is updated.
void ClassBuilder::add_shared_optimizers(int totals) {
  struct Open {
    int part = -1, turn = 0;
    std::vector<int> gathers;
  } open;
  for (int p = 0; p < static_cast<int>(out_.parts.size()); ++p) {
    const int after = p == 0 ? totals : -1;
    if (!shares_out(p)) {
      add_optimizer_of(p, -1, after);
      continue;
    }
    if (!out_.parts[at(p)].shares.front().packed()) {
      add_optimizer_of(p, 0, after);
      add_weights_gather(p, 0, out_.parts[at(p)].weights, closing_.back());
      continue;
    }
    const int turn = open.part < 0 ? 0 : (open.turn + 1) % packed_under_way;
    std::vector<int> gathers;
    for (std::size_t s = 0, g = 0; s < out_.parts[at(p)].shares.size(); ++s, ++g) {
      while (slots_of_part(p)[g] != out_.parts[at(p)].shares[s].group) ++g;
      add_optimizer_of(p, static_cast<int>(s), s == 0 ? after : -1);
      const int optimizer = closing_.back();
      out_.sites[at(optimizer)].accesses.push_back({Role::weights, packed_[at(turn)][g], Mode::write});
      gathers.push_back(add_weights_gather(p, static_cast<int>(s), packed_[at(turn)][g], optimizer));
    }
    if (open.part >= 0) add_weights_unpacking(open.part, open.turn, open.gathers);
    open = {p, turn, std::move(gathers)};
  }
  if (open.part >= 0) add_weights_unpacking(open.part, open.turn, open.gathers);
}

}  // namespace flotilla::program
