#pragma once
#include <cstdint>
#include <memory>

#include "flotilla/base/precision.hpp"
#include "flotilla/base/units.hpp"

namespace flotilla::probe {

class FewBlocks;

/// A training step of a small model on this device, forward, backward and optimizer, whose every bit is decided by the precision, the
/// thread count, the type of processor and the version of the matrix library. One thread; local.
class KnownStep {
 public:
  /// On the host's processors. Throws Error{unavailable} where they cannot multiply in that precision.
  KnownStep(Precision, int threads);
  ~KnownStep();
  KnownStep(const KnownStep&) = delete;
  KnownStep& operator=(const KnownStep&) = delete;

  struct Outcome {
    std::uint64_t digest = 0;  ///< of the gradients and the updated parameters
    Seconds wall{};
    Seconds processor{};  ///< time of the calling thread
  };
  /// One step from the same start.
  Outcome run();

 private:
  std::unique_ptr<FewBlocks> blocks_;
};

}  // namespace flotilla::probe
