#pragma once
#include <array>
#include <memory>
#include <string>

#include "attention.hpp"
#include "drop_site.hpp"
#include "flotilla/compute/backend.hpp"
#include "kernel_set.hpp"
#include "layer_passes.hpp"
#include "library_attention.hpp"
#include "products.hpp"

namespace flotilla::compute::cuda {

/// Whether cuDNN may be asked for a setup's attention: 16-bit elements, heads of a multiple of 8, no slopes and no cap, no dropout of
/// probabilities (its numbers are not ours), no cache.
bool may_use_cudnn(const Setup&);
/// Bytes of cuDNN's workspace for microbatches of up to `sequences`, for AttentionKernel::cudnn: a closed form that needs no device and no
/// cuDNN.
Bytes cudnn_workspace(const Setup&, int sequences);

/// Bytes of temporaries of any operation, for microbatches of up to `sequences`: what set_scratch needs.
Bytes scratch_bytes(const Setup&, int sequences);

/// The operations for one element type, in the device's memory. Calls enqueue on one stream.
template <class E>
class CudaOperations : LayerDimensions, LayerPasses<CudaOperations<E>, E> {
 public:
  /// `image`: of the kernels; stays where it is.
  CudaOperations(const Setup&, const gpu::DeviceContext&, std::span<const std::byte> image);

  void run(const Task&);
  void set_scratch(std::span<std::byte>);
  /// As Backend::prepare.
  void prepare(int sequences);
  /// "cuDNN 9.19.0"; empty where attention is all ours.
  const std::string& attention_library() const { return attention_library_; }
  gpu::Stream& stream() { return stream_; }
  const KernelSet<E>& kernels() const { return kernels_; }
  const CublasProducts& products() const { return products_; }

 private:
  using Passes = LayerPasses<CudaOperations<E>, E>;
  friend Passes;
  using Passes::add_weight_gradient, Passes::back_into, Passes::dispatch, Passes::input_gradient, Passes::run_linear;
  using Passes::drops, Passes::head_input, Passes::head_pitch, Passes::kept_output_gradient, Passes::kept_up_gradient;
  using Passes::output_gradient, Passes::project_back, Passes::stands_apart;
  using typename Passes::Back;

  struct Frame : LayerFrame<E> {
    Frame(CudaOperations& o, const Task& t) : LayerFrame<E>{o.setup_, o.parameters_, t}, scratch{o.scratch_} {}

    KernelRowPlace place() const {
      return {this->shape.length, static_cast<int>(this->task.first_sequence), static_cast<int>(this->first_row)};
    }
    /// The next `count` elements of the scratch memory.
    template <class T = E>
    T* take(std::int64_t count) const {
      T* taken = reinterpret_cast<T*>(scratch.data() + used.count);
      used += align_up(Bytes{static_cast<std::int64_t>(sizeof(T)) * count}, 64);
      FLOTILLA_ASSERT(used.count <= static_cast<std::int64_t>(scratch.size()), "scratch memory of ", used.count, " bytes");
      return taken;
    }

    std::span<std::byte> scratch;
    mutable Bytes used;
  };

  // forward.cpp
  void embedding_forward(const Frame&);
  void embedding_end_forward(const Frame&);
  const E* attention_input(const Frame&);
  void attention_forward(const Frame&);
  void run_attention(const AttentionShape&, int sequences, const AttentionBatch<E>&, const E* keys_and_values, const KernelDropout&);
  void run_attention_backward(const AttentionShape&, int sequences, const AttentionBatch<E>&, const KernelDropout&);
  void run_own_attention(const AttentionShape&, int sequences, const AttentionBatch<E>&, const E* keys_and_values, const KernelDropout&);
  void run_own_attention_backward(const AttentionShape&, int sequences, const AttentionBatch<E>&, const KernelDropout&);
  void append_keys(const Frame&, const E* qkv);
  void in_cache(const Frame&, AttentionShape&) const;
  const E* mlp_input(const Frame&);
  void mlp_forward(const Frame&);
  void block_end_forward(const Frame&);
  void block_again(const Frame&);
  void activation(const Frame&);
  /// As cpu::Operations has them.
  struct OutputNorm {
    const model::Segment &raw, &stats;
    Parameter weight, bias;
  };
  OutputNorm attention_norm(const Frame&) const;
  OutputNorm feed_forward_norm(const Frame&) const;
  void norm_output(const Frame&, const OutputNorm&, const E* bias);
  void rotate(const Frame&, E* qkv, bool back);
  const E* head_rows_forward(const Frame&);
  void head_forward(const Frame&);
  void head_loss(const Frame&);
  // backward.cpp
  void back_to_mlp(const Frame&, E* masked);
  void mlp_backward_input(const Frame&);
  void back_to_attention(const Frame&, E* masked);
  void back_beside_mlp(const Frame&, E* masked);
  void back_through_output_norm(const Frame&, const OutputNorm&, DropSite, E* branch, Parameter bias, bool has_bias);
  void block_begin_backward(const Frame&);
  void qkv_gradient(const Frame&, Back out, E* gradient);
  void norm_heads_backward(const Frame&, E* gradient);
  /// Back through the down product and the activation: the gradient of `up`.
  void up_gradient(const Frame&, Back down, E* columns, E* out);
  void logits_gradient(const Frame&);
  void head_end_backward(const Frame&);
  E* before_embedding(const Frame&, E* words);
  void embedding_norm_backward(const Frame&, E* gradient);
  void token_embedding_gradient(const Frame&, const E* gradient);

  /// One pass over rows, as rows_forward's parameters.
  struct RowsForward {
    E* sum = nullptr;
    E* y = nullptr;
    float* stats = nullptr;
    const E *residual = nullptr, *partial = nullptr, *bias = nullptr;
    int bias_stride = 0;
    const E *weight = nullptr, *norm_bias = nullptr;
    KernelDropout drop{};
    const std::int32_t* starts = nullptr;
  };
  void rows_forward(const Frame&, const RowsForward&);
  RowsForward norm(const Frame&, const E* x, E* y, const model::Segment& stats, Parameter weight, Parameter bias) const;
  /// One pass back, as rows_backward's parameters; where dropout is off nothing is written to `masked`.
  struct RowsBackward {
    E* out = nullptr;
    E* masked = nullptr;
    const E *gradient = nullptr, *added = nullptr, *x = nullptr, *residual = nullptr;
    const float* stats = nullptr;
    bool norms = false, has_bias = false;
    Parameter norm_weight{}, norm_bias{}, bias{};
    KernelDropout drop{};
  };
  void rows_backward(const Frame&, const RowsBackward&);
  void add_bias_gradient(const Frame&, const E* x, std::int64_t width, Parameter);
  /// Each of `sums` vectors += its parts in `partials` (sums, parts, width), in order. Null: nobody wants it.
  void add_parts(std::array<float*, 3> to, int sums, float* partials, int parts, std::int64_t width);
  void copy_elements(const E* from, E* to, std::int64_t elements);
  void copy(const Frame& f, const E* from, E* to, std::int64_t width) { copy_elements(from, to, f.n * width); }
  /// This rank's rows of width `width`.
  void copy_rows(const Frame& f, const E* from, E* to, std::int64_t width) { copy_elements(from, to, f.rows * width); }
  KernelDropout dropout(const Frame&, DropSite) const;
  /// Of SwiGLU and GeGLU: that of the gates.
  PointwiseActivation kernel_activation() const;
  AttentionShape attention_shape(int window) const;
  AttentionShape attention_shape(const Frame&) const;
  HeadBands head_bands() const;
  std::string prove_attention(int sequences);
  KernelHeadRows head_rows(const Frame&) const;
  void multiply(const ProductSpec& spec, const ProductOperands& operands) { products_.run(spec, operands, stream_); }
  /// Where a gradient before a dropout or a norm goes: apart where there is one, else it is the gradient itself.
  E* masked(const Frame& f, E* gradient) const { return stands_apart(f) ? f.take(f.n * d_) : gradient; }

  gpu::DeviceContext device_;
  gpu::Stream stream_;
  gpu::Module module_;
  KernelSet<E> kernels_;
  AttentionKernels<E> attention_;
  CublasProducts products_;
  gpu::DeviceBuffer angles_, window_angles_;
  float embedding_scale_;
  std::span<std::byte> all_scratch_, scratch_;
  std::unique_ptr<LibraryAttention<E>> library_;
  std::string attention_library_;
};

}  // namespace flotilla::compute::cuda
