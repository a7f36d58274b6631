#include <algorithm>

#include "flotilla/base/error.hpp"
#include "flotilla/program/program.hpp"

namespace flotilla::program {
namespace {

/// Position of each (instruction, microbatch) in the list; -1 where it does not run.
class Positions {
 public:
  Positions(std::size_t instructions, int microbatches)
      : runs_{static_cast<std::size_t>(std::max(1, microbatches))}, at_(instructions * runs_, -1), last_(instructions, -1) {}
  void set(int instruction, int microbatch, int position) {
    at_[slot(instruction, microbatch)] = position;
    last_[static_cast<std::size_t>(instruction)] = position;
  }
  /// What a wait of a run at `microbatch` names, or -1 when that run does not exist.
  int of(const Wait& wait, int microbatch) const {
    if (wait.lag == last_run) return last_[static_cast<std::size_t>(wait.instruction)];
    return microbatch < wait.lag ? -1 : at_[slot(wait.instruction, microbatch - wait.lag)];
  }

 private:
  std::size_t slot(int instruction, int microbatch) const {
    return static_cast<std::size_t>(instruction) * runs_ + static_cast<std::size_t>(microbatch);
  }
  std::size_t runs_;
  std::vector<int> at_, last_;
};

}  // namespace

std::vector<IssuedInstruction> expand(const Program& program, Rank rank) {
  const auto& binding = program.ranks.at(rank.index());
  if (binding.rank_class < 0) return {};
  const auto& c = program.classes.at(static_cast<std::size_t>(binding.rank_class));
  std::vector<IssuedInstruction> list;
  Positions positions{c.instructions.size(), c.microbatches};
  for (const auto& block : c.blocks)
    for (int i = 0; i < block.repeat; ++i)
      for (const auto& step : block.steps) {
        const auto& instruction = c.instructions.at(static_cast<std::size_t>(step.instruction));
        IssuedInstruction issued{step.instruction, instruction.per_microbatch ? step.microbatch + i : 0, {}};
        if (!instruction.runs_in(issued.microbatch)) continue;
        for (const auto& wait : instruction.waits) {
          const int position = positions.of(wait, issued.microbatch);
          if (position >= 0) issued.waits.push_back(position);
        }
        positions.set(step.instruction, issued.microbatch, static_cast<int>(list.size()));
        list.push_back(std::move(issued));
      }
  return list;
}

std::string to_string(Group::Kind kind) {
  switch (kind) {
    case Group::Kind::tensor: return "tensor-parallel";
    case Group::Kind::data: return "data-parallel";
    case Group::Kind::tied: return "tied-embedding";
    case Group::Kind::pair: return "pair";
    case Group::Kind::world: break;
  }
  return "world";
}

}  // namespace flotilla::program
