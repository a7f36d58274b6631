#include "flotilla/probe/known_step.hpp"

#include "few_blocks.hpp"
#include "flotilla/base/clock.hpp"
#include "throttling.hpp"

namespace flotilla::probe {
namespace {

constexpr int step_length = 64, step_sequences = 2, step_blocks = 2;

/// Every kind of operation that training has, in a few milliseconds on one core.
model::Config small_model() {
  model::Config config;
  config.name = "known step";
  config.family = "gpt2";
  config.blocks = step_blocks;
  config.hidden = config.embedding_width = 256;
  config.heads = 8;
  config.feed_forward = 1024;
  config.vocabulary = 512;
  config.positions = step_length;
  return config;
}

}  // namespace

KnownStep::KnownStep(Precision precision, int threads)
    : blocks_{std::make_unique<FewBlocks>(small_model(), step_length, MeasuredShape{precision, 1, step_sequences, true}, threads,
                                          step_blocks)} {}
KnownStep::KnownStep(Precision precision, const gpu::DeviceFacts& gpu, Load load)
    : blocks_{std::make_unique<FewBlocks>(small_model(), step_length, MeasuredShape{precision, 1, load.sequences, true}, 1, step_blocks,
                                          compute::ComputeDevice{cluster::DeviceKind::gpu, gpu.ordinal})},
      passes_{load.passes} {}
KnownStep::~KnownStep() = default;

KnownStep::Outcome KnownStep::run() {
  blocks_->prepare();
  std::vector<std::vector<double>> times;
  const Seconds start = now(), busy = thread_time();
  for (int pass = 0; pass < passes_; ++pass) blocks_->pass(times);
  blocks_->update();
  return {blocks_->digest(), now() - start, thread_time() - busy};
}

}  // namespace flotilla::probe
