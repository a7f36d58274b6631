#include "pass_loops.hpp"

namespace flotilla::program {
namespace {

void add(Block& block, const std::vector<int>& phase, int microbatch) {
  for (int instruction : phase) block.steps.push_back({instruction, microbatch});
}

}  // namespace

std::vector<Block> loops(const schedule::PassOrder& order, bool training, const Phases& phases) {
  std::vector<Block> blocks;
  const auto append = [&](Block block) {
    if (block.repeat > 0 && !block.steps.empty()) blocks.push_back(std::move(block));
  };
  Block opening{1, {}}, closing{1, {}};
  add(opening, phases.opening, 0);
  add(closing, phases.closing, 0);
  append(opening);
  for (const schedule::PassLoop& loop : order.loops) {
    if (loop.forward < 0 && loop.backward < 0) {
      // Nobody waits for these but the sums over replicas: layer by layer, so that one layer is summed while the next computes.
      for (const auto& layer : phases.weights_by_layer) {
        Block block{loop.repeat, {}};
        add(block, layer, loop.weights);
        append(std::move(block));
      }
      continue;
    }
    Block block{loop.repeat, {}};
    if (loop.forward >= 0) add(block, phases.forward, loop.forward);
    if (loop.forward >= 0 && !training) add(block, phases.backward, loop.forward);
    if (loop.backward >= 0) add(block, phases.backward, loop.backward);
    if (loop.weights >= 0) add(block, phases.weights, loop.weights);
    append(std::move(block));
  }
  append(closing);
  return blocks;
}

}  // namespace flotilla::program
