#include "pass_order.hpp"

#include <algorithm>
#include <initializer_list>

namespace flotilla::program {
namespace {

int passes_ahead(int depth, int position, int microbatches) { return std::min(microbatches, depth - 1 - position); }

std::vector<Pass> one_f_one_b(int depth, int position, int microbatches) {
  const int ahead = passes_ahead(depth, position, microbatches);
  std::vector<Pass> order;
  for (int m = 0; m < ahead; ++m) order.push_back({0, m, false});
  for (int m = ahead; m < microbatches; ++m) {
    order.push_back({0, m, false});
    order.push_back({0, m - ahead, true});
  }
  for (int m = microbatches - ahead; m < microbatches; ++m) order.push_back({0, m, true});
  return order;
}

/// The k-th forward (or backward) pass of a device: groups of `depth` microbatches go through one chunk after the other.
Pass interleaved_pass(int k, int depth, int chunks, bool backward) {
  const int round = k / (depth * chunks), within = k % (depth * chunks);
  const int chunk = within / depth;
  return {backward ? chunks - 1 - chunk : chunk, round * depth + within % depth, backward};
}

std::vector<Pass> interleaved(int depth, int position, int chunks, int microbatches) {
  const int all = microbatches * chunks;
  const int ahead = microbatches == depth ? all : std::min(all, (depth - position - 1) * 2 + (chunks - 1) * depth);
  std::vector<Pass> order;
  for (int k = 0; k < ahead; ++k) order.push_back(interleaved_pass(k, depth, chunks, false));
  for (int k = ahead; k < all; ++k) {
    order.push_back(interleaved_pass(k, depth, chunks, false));
    order.push_back(interleaved_pass(k - ahead, depth, chunks, true));
  }
  for (int k = all - ahead; k < all; ++k) order.push_back(interleaved_pass(k, depth, chunks, true));
  return order;
}

void add(Block& block, std::initializer_list<const std::vector<int>*> parts, int microbatch) {
  for (const auto* part : parts)
    for (int site : *part) block.steps.push_back({site, microbatch});
}

/// The steady part: forward pass i and backward pass i - ahead; from the second on the gradient of the pass before goes out behind the
/// next activation's coming in.
std::vector<Block> one_f_one_b_loops(int ahead, int microbatches, const ChunkSites& sites) {
  const auto& [f, b] = sites;
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

std::vector<Pass> pass_order(plan::ScheduleKind schedule, int depth, int position, int chunks, int microbatches) {
  if (schedule == plan::ScheduleKind::interleaved) return interleaved(depth, position, chunks, microbatches);
  return one_f_one_b(depth, position, microbatches);
}

std::vector<Block> pass_loops(plan::ScheduleKind schedule, int depth, int position, int microbatches,
                              const std::vector<ChunkSites>& chunks) {
  if (schedule != plan::ScheduleKind::interleaved)
    return one_f_one_b_loops(passes_ahead(depth, position, microbatches), microbatches, chunks.front());
  Block all{1, {}};
  for (const Pass& pass : pass_order(schedule, depth, position, static_cast<int>(chunks.size()), microbatches)) {
    const auto& sites = chunks[static_cast<std::size_t>(pass.chunk)];
    const auto& [receive, work, send] = pass.backward ? sites.backward : sites.forward;
    add(all, {&receive, &work, &send}, pass.microbatch);
  }
  return {all};
}

}  // namespace flotilla::program
