#pragma once
#include <cstdint>
#include <memory>

#include "flotilla/base/precision.hpp"
#include "flotilla/base/units.hpp"
#include "flotilla/gpu/driver.hpp"

namespace flotilla::probe {

class FewBlocks;

/// A training step of a small model on this device, forward, backward and optimizer, whose every bit is decided by the precision, the
/// thread count, the type of processor or GPU, the version of the matrix library and the load. One thread; local.
class KnownStep {
 public:
  /// On the host's processors. Throws Error{unavailable} where they cannot multiply in that precision.
  KnownStep(Precision, int threads);
  /// What a step on a GPU computes: a small one tells its bits, a large one keeps it at work.
  struct Load {
    int sequences = 2;  ///< of 64 tokens, in a pass
    int passes = 1;     ///< forward and backward, before the optimizer's step
    bool operator==(const Load&) const = default;
  };
  /// On a GPU. Throws Error{unavailable} where it fails, or has no kernels or no matrix library.
  KnownStep(Precision, const gpu::DeviceFacts&, Load);
  ~KnownStep();
  KnownStep(const KnownStep&) = delete;
  KnownStep& operator=(const KnownStep&) = delete;

  struct Outcome {
    std::uint64_t digest = 0;  ///< of the gradients and the updated parameters
    Seconds wall{};            ///< without the preparation
    Seconds processor{};       ///< time of the calling thread
  };
  /// One step from the same start.
  Outcome run();

 private:
  std::unique_ptr<FewBlocks> blocks_;
  int passes_ = 1;
};

}  // namespace flotilla::probe
