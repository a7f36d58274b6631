#include "schedule.hpp"

namespace flotilla::program {
namespace {

void add(Block& block, const std::vector<int>& phase, int microbatch) {
  for (int site : phase) block.steps.push_back({site, microbatch});
}

}  // namespace

std::vector<Block> loops(const PassOrder& order, bool training, const Phases& phases) {
  std::vector<Block> blocks;
  const auto append = [&](Block block) {
    if (block.repeat > 0 && !block.steps.empty()) blocks.push_back(std::move(block));
  };
  Block opening{1, {}}, closing{1, {}};
  add(opening, phases.opening, 0);
  add(closing, phases.closing, 0);
  append(opening);
  for (const Turns& turns : order.turns) {
    if (turns.forward < 0 && turns.backward < 0) {
      // Nobody waits for these but the sums over replicas: layer by layer, so that one layer is summed while the next computes.
      for (const auto& layer : phases.weights_by_layer) {
        Block block{turns.repeat, {}};
        add(block, layer, turns.weights);
        append(std::move(block));
      }
      continue;
    }
    Block block{turns.repeat, {}};
    if (turns.forward >= 0) add(block, phases.forward, turns.forward);
    if (turns.forward >= 0 && !training) add(block, phases.backward, turns.forward);
    if (turns.backward >= 0) add(block, phases.backward, turns.backward);
    if (turns.weights >= 0) add(block, phases.weights, turns.weights);
    append(std::move(block));
  }
  append(closing);
  return blocks;
}

}  // namespace flotilla::program
