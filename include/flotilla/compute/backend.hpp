#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "flotilla/base/units.hpp"
#include "flotilla/cluster/device_kind.hpp"
#include "flotilla/compute/token_score.hpp"
#include "flotilla/model/operations.hpp"
#include "flotilla/program/program.hpp"

namespace flotilla::gpu {
class Stream;
struct DeviceFacts;
}  // namespace flotilla::gpu

/// The layers' forward and backward on one device.
namespace flotilla::compute {

/// Whose attention GPUs run. cudnn: cuDNN's, where it agrees with ours on the device at hand; automatic: where it is moreover not slower
/// and needs no memory beside the products' workspace; else, and with flotilla, our own kernel's.
enum class AttentionKernel : std::uint8_t { flotilla, cudnn, automatic };
/// What a rank computes on.
struct ComputeDevice {
  cluster::DeviceKind kind = cluster::DeviceKind::cpu;
  int ordinal = 0;    ///< of a GPU among those that this process sees
  bool tf32 = false;  ///< a GPU rounds fp32 operands of matrix products to TF32: 11 significant bits
  AttentionKernel attention = AttentionKernel::flotilla;
  bool deterministic = true;  ///< cuDNN's attention adds in order: equal operands give equal bits
};

/// What does not change during a run on this rank.
struct Setup {
  model::Config model;
  int length = 0;  ///< tokens in a sequence
  int tensor_parallel = 1, tensor_index = 0;
  Precision precision = Precision::fp32;
  int threads = 1;
  std::uint64_t seed = 0;  ///< of dropout
  /// Between products this rank holds its part of the tokens (model/operations.hpp).
  bool sequence_parallel = false;
  ComputeDevice device{};
  /// Tokens of a sequence whose keys and values blocks keep (Role::cache); 0: none. Not for backward passes.
  int cache = 0;
  /// Attention and positions begin anew with each document (Role::document_starts).
  bool documents = false;
};

/// One run of one operation. Operands by role, nullptr where the operation has none; layouts are those of model/operations.hpp.
struct Task {
  model::Operation operation{};
  int layer = 0;
  int sequences = 1;  ///< in this microbatch
  std::array<std::byte*, program::role_count> operands{};
  const program::Part* part = nullptr;                  ///< slots of `weights` (precision's element type) and `gradients` (fp32)
  const program::Part* token_embedding_part = nullptr;  ///< slots of `token_embedding_weights` and `token_embedding_gradients`
  bool training = true;                                 ///< dropout is on
  std::int64_t step = 0;                                ///< counts in dropout's key
  std::int64_t first_sequence = 0;                      ///< of the step's global batch: dropout's index is global, so no plan changes it
  std::int64_t cached = 0;                              ///< tokens before, of every sequence: the cache holds their keys and values
  float loss_scale = 1;  ///< d loss / d (sum of token losses): 1 / tokens in the global batch, scaled in fp16
  /// By sequence: the source of the data whose losses its own are summed with (program::scalar). Empty: all together.
  std::span<const int> sources{};

  template <class T>
  T* operand(program::Role role) const {
    return reinterpret_cast<T*>(operands[static_cast<std::size_t>(role)]);
  }
};

/// AdamW's numbers for one step (Loshchilov and Hutter 2019, algorithm 2).
struct AdamW {
  float learning_rate = 0, beta1 = 0.9f, beta2 = 0.95f, epsilon = 1e-8f, weight_decay = 0.1f;
  float gradient_factor = 1;  ///< clipping, min(1, limit / norm), over the loss scale
  std::int64_t step = 1;      ///< counts from 1, for bias correction
};

/// Rows of `width` bytes, `from_pitch` and `to_pitch` bytes apart.
struct RowCopy {
  std::int64_t rows = 1, width = 0, from_pitch = 0, to_pitch = 0;
};

/// One device. Operands are in its memory. Calls return when the work is done (CPU) or enqueued (GPU). Not thread-safe: the compute queue's
/// thread alone calls it.
class Backend {
 public:
  virtual ~Backend() = default;
  /// What calls enqueue on; nullptr where they return when the work is done.
  virtual gpu::Stream* stream() { return nullptr; }
  /// Accumulates into gradients. Throws Error{internal} when the library would fall back to its reference code.
  virtual void run(const Task&) = 0;
  /// Scores of the targets of a head_loss that has just run: (sequences, length). On a GPU it waits for it.
  virtual void score_targets(const Task&, std::span<TokenScore>) = 0;
  /// This rank's logits of token `row` of the microbatch, of a head_forward that has just run: (columns of the vocabulary). Waits likewise.
  virtual void read_logits(const Task&, std::int64_t row, std::span<float> to) = 0;
  virtual void fill(std::span<std::byte>, unsigned char value) = 0;
  virtual void copy(std::byte* to, const std::byte* from, const RowCopy&) = 0;
  /// One part, of which frozen slots are left alone. `decays` by slot. Reads gradients, updates parameters and moments, writes the
  /// precision's copy to weights (which may be the parameters themselves).
  virtual void adamw(const AdamW&, const program::Part&, std::span<const std::uint8_t> decays, float* parameters, std::byte* weights,
                     const float* gradients, float* moment1, float* moment2) = 0;
  /// *sum += sum of squares in fp64, in an order that does not depend on the thread count.
  virtual void add_squared_norm(std::span<const float>, double* sum) = 0;
  /// fp32 -> the precision's element type.
  virtual void convert(std::span<const float> from, std::byte* to) = 0;
  /// Bytes handed over as the library's scratchpad; lives in the arena.
  virtual void set_scratch(std::span<std::byte>) = 0;
  /// Chooses whose attention runs for microbatches of this many sequences, and proves cuDNN's against ours; needs the scratchpad, waits for
  /// the device, and says in one line of the log where cuDNN was to run and does not. Nothing on CPUs.
  virtual void prepare(int /*sequences*/) {}
  /// "oneDNN 2.6.3 brgemm:avx512_core ..." – what runs underneath.
  virtual std::string description() const = 0;
};

/// The backend of the setup's device. Throws Error{unavailable} where a GPU, its kernels or cuBLASLt is missing.
std::unique_ptr<Backend> make_backend(const Setup&);
/// Empty, or why this build does not compute on the device: no kernels for it, no cuBLASLt here. One line.
std::string why_no_backend(const gpu::DeviceFacts&);
/// Upper bound of the scratchpad for any operation of this setup and microbatches of up to `sequences`. On CPUs it asks the library and
/// throws Error{unavailable} where this processor cannot multiply in the precision, Error{internal} where only reference code would.
Bytes library_scratch(const Setup&, int sequences);

}  // namespace flotilla::compute
