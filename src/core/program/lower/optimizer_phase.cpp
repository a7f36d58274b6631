#include "optimizer_phase.hpp"

#include <utility>

#include "class_instructions.hpp"
#include "class_parts.hpp"
#include "flotilla/base/error.hpp"

namespace flotilla::program {
namespace {

constexpr int packed_under_way = 2;  // packed weights that are under way at once, as with gradients

void add_optimizer_of(ClassDraft& draft, int p, int share, int totals) {
  const auto& part = draft.out.parts[at(p)];
  const bool whole = share < 0;
  const OptimizerShard none;
  const auto& mine = whole ? none : part.shards[at(share)];
  auto instruction = once_per_step("optimizer " + part.name, OptimizerUpdate{p, share}, false);
  instruction.accesses = {{Role::parameters, whole ? part.parameters : mine.parameters, Mode::update},
                          {Role::gradients, whole ? part.gradients : mine.gradients, Mode::read},
                          {Role::moment1, whole ? part.moment1 : mine.moment1, Mode::update},
                          {Role::moment2, whole ? part.moment2 : mine.moment2, Mode::update},
                          {Role::totals, draft.buffers.totals, Mode::read}};
  // Packed weights are written where they are gathered.
  if (!mine.packed() && part.weights != part.parameters) instruction.accesses.push_back({Role::weights, part.weights, Mode::write});
  if (totals >= 0) instruction.waits = {{totals, last_run}};
  add_instruction(draft, std::move(instruction));
}

/// Everybody's weights, in the part's own place or packed.
int add_weights_gather(ClassDraft& draft, int part, int share, int buffer, int optimizer) {
  const auto& about = draft.out.parts[at(part)];
  const auto& mine = about.shards[at(share)];
  auto instruction = once_per_step(
      "gather weights " + about.name,
      Collective{CollectiveKind::all_gather_shards, mine.group, {{}, mine.summed * element_size(draft.in.plan.precision)}, {}}, false);
  instruction.accesses = {{Role::reduced, buffer, Mode::update}};
  instruction.waits = {{optimizer, last_run}};
  return add_instruction(draft, std::move(instruction));
}

void add_weights_unpacking(ClassDraft& draft, int part, int turn, const std::vector<int>& gathers) {
  const auto& about = draft.out.parts[at(part)];
  for (std::size_t s = 0, g = 0; s < gathers.size(); ++s, ++g) {
    while (slots_of_part(draft, part)[g] != about.shards[s].group) ++g;
    auto instruction = once_per_step(text("unpack weights ", about.name, " ", g),
                                     RegionCopy{RegionCopy::Direction::unpack, part,
                                                about.shards[s].summed * element_size(draft.in.plan.precision), about.shards[s].regions},
                                     false);
    instruction.accesses = {{Role::weights, about.weights, Mode::update}, {Role::packed, draft.buffers.packed[at(turn)][g], Mode::read}};
    instruction.waits = {{gathers[s], last_run}};
    add_instruction(draft, std::move(instruction));
  }
}

/// Weights are gathered while the next part is updated.
void add_shared_optimizers(ClassDraft& draft, int totals) {
  struct Open {
    int part = -1, turn = 0;
    std::vector<int> gathers;
  } open;
  for (int p = 0; p < static_cast<int>(draft.out.parts.size()); ++p) {
    if (draft.out.parts[at(p)].trained_elements() == 0) continue;
    const int after = std::exchange(totals, -1);  // the others follow the first
    if (!is_sharded(draft, p)) {
      add_optimizer_of(draft, p, -1, after);
      continue;
    }
    if (!draft.out.parts[at(p)].shards.front().packed()) {
      add_optimizer_of(draft, p, 0, after);
      add_weights_gather(draft, p, 0, draft.out.parts[at(p)].weights, draft.closing.back());
      continue;
    }
    const int turn = open.part < 0 ? 0 : (open.turn + 1) % packed_under_way;
    std::vector<int> gathers;
    for (std::size_t s = 0, g = 0; s < draft.out.parts[at(p)].shards.size(); ++s, ++g) {
      while (slots_of_part(draft, p)[g] != draft.out.parts[at(p)].shards[s].group) ++g;
      add_optimizer_of(draft, p, static_cast<int>(s), s == 0 ? after : -1);
      const int optimizer = draft.closing.back();
      draft.out.instructions[at(optimizer)].accesses.push_back({Role::weights, draft.buffers.packed[at(turn)][g], Mode::write});
      gathers.push_back(add_weights_gather(draft, p, static_cast<int>(s), draft.buffers.packed[at(turn)][g], optimizer));
    }
    if (open.part >= 0) add_weights_unpacking(draft, open.part, open.turn, open.gathers);
    open = {p, turn, std::move(gathers)};
  }
  if (open.part >= 0) add_weights_unpacking(draft, open.part, open.turn, open.gathers);
}

}  // namespace

void add_optimizer(ClassDraft& draft) {
  int totals = draft.closing.back();
  if (draft.in.plan.shard_optimizer) return add_shared_optimizers(draft, totals);
  for (int p = 0; p < static_cast<int>(draft.out.parts.size()); ++p)
    if (draft.out.parts[at(p)].trained_elements() > 0) add_optimizer_of(draft, p, -1, std::exchange(totals, -1));
}

}  // namespace flotilla::program
