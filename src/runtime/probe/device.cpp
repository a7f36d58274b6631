#include "flotilla/probe/device.hpp"

#include <algorithm>
#include <thread>
#include <vector>

#include "few_blocks.hpp"
#include "flotilla/base/clock.hpp"
#include "flotilla/base/error.hpp"

namespace flotilla::probe {
namespace {

constexpr int triad_rounds = 4;  // the first touches the pages
constexpr int least_runs = 3;

/// A block wide enough for a matrix library to reach its best rate, with little around it; a run is half a GFLOP per thread, short enough
/// to find an undisturbed moment on a busy machine.
model::Config wide_block() {
  model::Config config;
  config.name = "peak";
  config.family = "gpt2";
  config.blocks = 1;
  config.hidden = config.embedding_width = 512;
  config.heads = 8;
  config.feed_forward = 2048;
  config.vocabulary = 64;
  config.positions = 64;
  return config;
}

/// Rows of the products grow with the threads, so that each has as much to do.
int sequences_for(int threads) { return 2 * std::max(1, threads); }

void triad(float* a, const float* b, const float* c, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) a[i] = b[i] + 3.0f * c[i];
}

}  // namespace

FlopsPerSecond peak(Precision precision, int threads, Seconds budget) {
  const model::Config config = wide_block();
  const Shape shape{precision, 1, sequences_for(threads), true};
  FewBlocks block{config, config.positions, shape, threads, 1};
  block.prepare();
  constexpr auto operation = model::Operation::mlp_forward;
  block.run(operation);  // makes the primitives
  Seconds best{1e30};
  const Seconds end = now() + budget;
  for (int run = 0; run < least_runs || now() < end; ++run) best = std::min(best, block.run(operation));
  const model::LayerShape layer{shape.sequences, config.positions, 1, 0, precision};
  return {model::flops(config, layer, operation) / best.value};
}

BytesPerSecond memory_bandwidth(int threads, Bytes bytes) {
  const auto count = static_cast<std::size_t>(std::max<std::int64_t>(1, bytes.count / 3 / static_cast<std::int64_t>(sizeof(float))));
  const auto piece = [&](int t) { return count * static_cast<std::size_t>(t) / static_cast<std::size_t>(threads); };
  const Pages pages{{static_cast<std::int64_t>(3 * count * sizeof(float))}};
  auto* a = reinterpret_cast<float*>(pages.data());
  float *b = a + count, *c = b + count;
  Seconds best{1e30};
  for (int round = 0; round < triad_rounds; ++round) {
    const Seconds start = now();
    std::vector<std::jthread> workers;
    for (int t = 0; t < threads; ++t)
      workers.emplace_back([&, t] {
        if (round == 0) {  // each thread touches its own pages first: they lie near it
          std::fill(b + piece(t), b + piece(t + 1), 1.0f);
          std::fill(c + piece(t), c + piece(t + 1), 2.0f);
        }
        triad(a + piece(t), b + piece(t), c + piece(t), piece(t + 1) - piece(t));
      });
    workers.clear();
    if (round > 0) best = std::min(best, now() - start);
  }
  FLOTILLA_ASSERT(a[count - 1] == 7.0f, a[count - 1]);
  return {3.0 * static_cast<double>(count * sizeof(float)) / best.value};
}

Bytes triad_size(Bytes cache, Bytes memory) {
  constexpr Bytes least{24 << 20}, most{std::int64_t{1} << 30};
  return std::min({std::max(least, 4 * cache), most, Bytes{std::max<std::int64_t>(3 << 20, memory.count / 8)}});
}

}  // namespace flotilla::probe
