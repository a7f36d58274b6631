#include "schedule.hpp"

#include <algorithm>

namespace flotilla::program {
namespace {

void add(Block& block, const std::vector<int>& phase, int microbatch) {
  for (int site : phase) block.steps.push_back({site, microbatch});
}

}  // namespace

std::vector<Block> loops(plan::ScheduleKind kind, bool training, int stages, int stage, int microbatches, const Phases& phases) {
  std::vector<Block> blocks;
  const auto append = [&](Block block) {
    if (block.repeat > 0 && !block.steps.empty()) blocks.push_back(std::move(block));
  };
  Block opening{1, {}}, closing{1, {}};
  add(opening, phases.opening, 0);
  add(closing, phases.closing, 0);
  append(opening);
  const bool eager = kind == plan::ScheduleKind::one_f_one_b && training;
  const int ahead = eager ? std::min(microbatches, stages - 1 - stage) : microbatches;
  Block warm_up{ahead, {}}, steady{microbatches - ahead, {}}, cool_down{training ? ahead : 0, {}};
  add(warm_up, phases.forward, 0);
  if (!training) add(warm_up, phases.backward, 0);
  add(steady, phases.forward, ahead);
  add(steady, phases.backward, 0);
  add(cool_down, phases.backward, microbatches - ahead);
  append(warm_up);
  append(steady);
  append(cool_down);
  append(closing);
  return blocks;
}

}  // namespace flotilla::program
