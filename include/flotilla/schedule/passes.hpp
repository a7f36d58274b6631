#pragma once
#include <compare>
#include <cstdint>
#include <vector>

/// What one device of a pipeline does in one iteration: values, in the order in which it does it.
namespace flotilla::schedule {

/// `backward` is a whole backward pass, or the input half of one that is split; `weights` is its weight-gradient half.
enum class Work : std::uint8_t { forward, backward, weights };

/// One microbatch through one of a device's stages ("chunk").
struct Pass {
  Work work = Work::forward;
  int chunk = 0, microbatch = 0;
  auto operator<=>(const Pass&) const = default;
};

/// A pass as the list scheduler placed it; in ticks.
struct TimedPass : Pass {
  std::int64_t start = 0, end = 0;
};

/// `repeat` times: the forward pass of microbatch forward + i, then the backward pass of backward + i, then the weight-gradient half of
/// weights + i; -1: none. With weights alone, layer after layer through all `repeat` microbatches.
struct PassLoop {
  int repeat = 0, forward = -1, backward = -1, weights = -1;
  int chunk = 0;
  auto operator<=>(const PassLoop&) const = default;
};

/// The passes of a device, and how many microbatches it holds.
struct PassOrder {
  std::vector<PassLoop> loops;
  int in_flight = 1;  ///< microbatches between their forward and their backward pass, at most
  /// Microbatches whose weight-gradient halves wait behind the input half of one: with 0 they end their own backward pass. -1: backward
  /// passes are not split.
  int deferred = -1;

  bool splits() const { return deferred >= 0; }
  int warm_up() const {
    return loops.empty() || loops.front().backward >= 0 ? 0 : loops.front().repeat;
  }  ///< forward passes before the first backward pass
  auto operator<=>(const PassOrder&) const = default;
};

/// The loops unrolled.
std::vector<Pass> passes_of(const PassOrder&);

/// Forward passes and nothing else.
PassOrder forward_only(int microbatches);

/// The same order with whole passes split: the weight-gradient half of microbatch m - deferred follows the input half of m, the last ones
/// stand at the end. `deferred` is cut to what the microbatches allow.
PassOrder with_weights(PassOrder, int deferred);

}  // namespace flotilla::schedule
