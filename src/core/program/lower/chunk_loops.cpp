#include "chunk_loops.hpp"

#include <utility>

namespace flotilla::program {
namespace {

constexpr std::size_t longest_loop = 12;  // steps: a forward and a backward pass, with what is received before them

/// The same step of the microbatch that comes `later` after.
bool follows(const ChunkStep& step, const ChunkStep& first, int later) {
  return step.what == first.what && step.chunk == first.chunk && step.boundary_message == first.boundary_message &&
         step.microbatch == first.microbatch + later;
}

/// How often `length` steps from `first` on are repeated, each time with the next microbatch.
int repeats(const std::vector<ChunkStep>& steps, std::size_t first, std::size_t length) {
  int count = 1;
  for (std::size_t next = first + length; next + length <= steps.size(); next += length, ++count)
    for (std::size_t i = 0; i < length; ++i)
      if (!follows(steps[next + i], steps[first + i], count)) return count;
  return count;
}

class ChunkLoops {
 public:
  ChunkLoops(const std::vector<ChunkStep>& steps, const std::vector<ChunkInstructions>& chunks) : steps_{steps}, chunks_{chunks} {}

  std::vector<Block> run() {
    Block straight;
    for (std::size_t i = 0; i < steps_.size();) {
      const auto [length, count] = best(i);
      if (count == 1) {
        add(straight, steps_[i++]);
        continue;
      }
      append(std::exchange(straight, {}));
      Block loop{count, {}};
      for (std::size_t s = i; s < i + length; ++s) add(loop, steps_[s]);
      append(std::move(loop));
      i += length * static_cast<std::size_t>(count);
    }
    append(std::move(straight));
    return std::move(blocks_);
  }

 private:
  struct ChunkLoop {
    std::size_t length = 1;
    int count = 1;
    std::size_t saved() const { return static_cast<std::size_t>(count - 1) * length; }
  };

  ChunkLoop best(std::size_t first) const {
    ChunkLoop best;
    for (std::size_t length = 1; length <= longest_loop && first + 2 * length <= steps_.size(); ++length) {
      const ChunkLoop loop{length, repeats(steps_, first, length)};
      if (loop.saved() > best.saved()) best = loop;
    }
    return best;
  }

  void add(Block& block, const ChunkStep& step) const {
    const ChunkInstructions& chunk = chunks_[static_cast<std::size_t>(step.chunk)];
    const auto all = [&](const std::vector<int>& instructions) {
      for (int instruction : instructions) block.steps.push_back({instruction, step.microbatch});
    };
    switch (step.what) {
      case ChunkStep::What::forward: return all(chunk.forward);
      case ChunkStep::What::backward: return all(chunk.backward);
      case ChunkStep::What::receive_activation: return all({chunk.receive_activation[static_cast<std::size_t>(step.boundary_message)]});
      case ChunkStep::What::receive_gradient: return all({chunk.receive_gradient[static_cast<std::size_t>(step.boundary_message)]});
    }
  }

  void append(Block block) {
    if (!block.steps.empty()) blocks_.push_back(std::move(block));
  }

  const std::vector<ChunkStep>& steps_;
  const std::vector<ChunkInstructions>& chunks_;
  std::vector<Block> blocks_;
};

}  // namespace

std::vector<Block> chunk_loops(const std::vector<ChunkStep>& steps, const std::vector<ChunkInstructions>& chunks,
                               const std::vector<int>& opening, const std::vector<int>& closing) {
  auto blocks = ChunkLoops{steps, chunks}.run();
  const auto once = [](const std::vector<int>& instructions) {
    Block block;
    for (int instruction : instructions) block.steps.push_back({instruction, 0});
    return block;
  };
  blocks.insert(blocks.begin(), once(opening));
  blocks.push_back(once(closing));
  return blocks;
}

}  // namespace flotilla::program
