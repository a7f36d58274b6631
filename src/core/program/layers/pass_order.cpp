#include "pass_order.hpp"

#include <initializer_list>

namespace flotilla::program {
namespace {

void add(Block& block, std::initializer_list<const std::vector<int>*> parts, int microbatch) {
  for (const auto* part : parts)
    for (int instruction : *part) block.steps.push_back({instruction, microbatch});
}

/// The steady part: forward pass i and backward pass i - ahead; from the second on the gradient of the pass before goes out behind the
/// next activation's coming in.
std::vector<Block> one_f_one_b_loops(int ahead, int microbatches, const ChunkPasses& instructions) {
  const auto& [f, b] = instructions;
  const bool steady_exists = microbatches > ahead;
  Block warm_up{ahead, {}}, first{steady_exists ? 1 : 0, {}}, steady{microbatches - ahead - 1, {}}, last{first.repeat, {}},
      cool_down{ahead, {}};
  add(warm_up, {&f.receive, &f.work, &f.send}, 0);
  add(first, {&f.receive, &f.work, &f.send}, ahead);
  add(first, {&b.receive, &b.work}, 0);
  add(steady, {&f.receive}, ahead + 1);
  add(steady, {&b.send}, 0);
  add(steady, {&f.work, &f.send}, ahead + 1);
  add(steady, {&b.receive, &b.work}, 1);
  add(last, {&b.send}, microbatches - ahead - 1);
  add(cool_down, {&b.receive, &b.work, &b.send}, microbatches - ahead);
  std::vector<Block> blocks;
  for (auto* block : {&warm_up, &first, &steady, &last, &cool_down})
    if (block->repeat > 0 && !block->steps.empty()) blocks.push_back(std::move(*block));
  return blocks;
}

}  // namespace

std::vector<Block> pass_loops(const schedule::PassOrder& order, int microbatches, const std::vector<ChunkPasses>& chunks) {
  if (chunks.size() == 1) return one_f_one_b_loops(order.warm_up(), microbatches, chunks.front());
  Block all{1, {}};
  for (const schedule::Pass& pass : schedule::passes_of(order)) {
    const auto& instructions = chunks[static_cast<std::size_t>(pass.chunk)];
    const auto& [receive, work, send] = pass.work == schedule::Work::backward ? instructions.backward : instructions.forward;
    add(all, {&receive, &work, &send}, pass.microbatch);
  }
  return {all};
}

}  // namespace flotilla::program
