#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cudnn_attention.hpp"
#include "flotilla/gpu/device.hpp"
#include "kernels/values.hpp"

/// Attention by cuDNN, where it agrees with our own kernel on the device at hand.
namespace flotilla::compute::cuda {

/// A microbatch's attention, in the layouts of attention's kernels.
template <class E>
struct AttentionBatch {
  const E* qkv = nullptr;
  E* output = nullptr;
  float* log_sum_exp = nullptr;
  const E* output_gradient = nullptr;  ///< backward only, as the following
  E* qkv_gradient = nullptr;
  float* dots = nullptr;                 ///< scratch, as log_sum_exp
  const std::int32_t* starts = nullptr;  ///< of documents, by sequence and token; our own kernels' alone. null: one document a sequence
};

/// Our own kernels for the shape that is to be proved.
template <class E>
struct AttentionKernelRuns {
  std::function<void(const AttentionBatch<E>&)> forward, backward;
};

template <class E>
class LibraryAttention {
 public:
  /// Throws Error{unavailable} where cuDNN is missing or refuses the device.
  LibraryAttention(const gpu::DeviceContext&, const gpu::Stream&, bool deterministic);

  void set_workspace(std::span<std::byte> workspace) { workspace_ = workspace; }
  /// Compiles plans for a shape, runs them and our kernels on known data in `memory`, and compares. From then on the shape is cuDNN's,
  /// unless it refuses, wants more workspace than there is, disagrees, or has other bits the second time where they must be the same: then
  /// this is one line that says why. `timed`: also unless it takes clearly longer. A time must not decide over bits that are to be the same
  /// at every start: where these are deterministic, a warning names both times. Waits for the stream.
  std::string prove(const AttentionShape&, int sequences, const AttentionKernelRuns<E>& ours, std::span<std::byte> memory, bool timed);
  /// Bytes of `memory` for it.
  static Bytes proof_memory(const AttentionShape&, int sequences);

  /// Enqueues and is true where the shape is cuDNN's.
  bool forward(const AttentionShape&, int sequences, const AttentionBatch<E>&);
  bool backward(const AttentionShape&, int sequences, const AttentionBatch<E>&);

 private:
  struct Proved {
    cudnn::AttentionProblem problem;
    cudnn::AttentionPlans plans;
  };
  Proved* find(const AttentionShape&, int sequences);
  void run(Proved&, const AttentionShape&, int sequences, const AttentionBatch<E>&, bool is_forward);
  struct Verdict {
    std::string against;  ///< why it must not run; empty: it may
    std::string slower;   ///< both times where it is clearly slower
  };
  Verdict judged(Proved&, const AttentionShape&, int sequences, const AttentionKernelRuns<E>&, std::span<std::byte> memory, bool timed);

  gpu::DeviceContext device_;
  gpu::Stream stream_;
  bool deterministic_;
  cudnn::Context context_;
  std::vector<std::unique_ptr<Proved>> proved_;
  std::span<std::byte> workspace_;
};

}  // namespace flotilla::compute::cuda
