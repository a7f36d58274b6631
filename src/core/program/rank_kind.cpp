#include "rank_kind.hpp"

namespace flotilla::program {

Slots slots_of(const RankKind& kind, bool first_stage, bool last_stage, bool training) {
  Slots slots;
  int peer = 0;
  if (!first_stage) slots.activation_from = peer++;
  for (int i = 0; i < kind.activation_receivers; ++i) slots.activation_to.push_back(peer++);
  if (training) {
    if (!last_stage) slots.gradient_from = peer++;
    for (int i = 0; i < kind.gradient_receivers; ++i) slots.gradient_to.push_back(peer++);
  }
  int group = 1;
  if (kind.tensor_parallel > 1) slots.tensor = group++;
  if (kind.replicas > 1) slots.data = group++;
  if (kind.tied_members > 1) slots.tied = group++;
  return slots;
}

int served_by(int index, int ours, int theirs) { return index < theirs ? (theirs - index + ours - 1) / ours : 0; }

}  // namespace flotilla::program
