#pragma once
#include <array>
#include <optional>

#include "attention.hpp"
#include "cpu/adapter_products.hpp"
#include "cpu/parameters.hpp"
#include "drop_site.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/compute/backend.hpp"
#include "kernel_set.hpp"
#include "library_attention.hpp"
#include "products.hpp"

namespace flotilla::compute::cuda {

using cpu::Parameter;

/// Whether cuDNN may be asked for a setup's attention: 16-bit elements, heads of a multiple of 8, no slopes and no cap, no dropout of probabilities
/// (its numbers are not ours), no cache.
bool may_use_cudnn(const Setup&);
/// Bytes of cuDNN's workspace for microbatches of up to `sequences`, for AttentionKernel::cudnn: a closed form that needs no device and no
/// cuDNN.
Bytes cudnn_workspace(const Setup&, int sequences);

/// Bytes of temporaries of any operation, for microbatches of up to `sequences`: what set_scratch needs.
Bytes scratch_bytes(const Setup&, int sequences);

/// The operations for one element type, in the device's memory. Calls enqueue on one stream.
template <class E>
class CudaOperations {
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
  /// A task's shapes and operands, as cpu::Operations has them.
  struct Frame {
    Frame(CudaOperations&, const Task&);

    template <class T = E>
    T* at(program::Role role) const {
      T* operand = task.operand<T>(role);
      FLOTILLA_ASSERT(operand, model::to_string(task.operation), " lacks operand ", static_cast<int>(role));
      return operand;
    }
    template <class T = E>
    T* saved(const model::Segment& segment) const {
      return reinterpret_cast<T*>(at<std::byte>(segment.again ? program::Role::again : program::Role::saved) + segment.offset.count);
    }
    E* kept(const model::Segment& segment) const { return reinterpret_cast<E*>(at<std::byte>(program::Role::kept) + segment.offset.count); }
    E* own(program::Role role, std::int64_t width) const { return at(role) + first_row * width; }
    bool has(program::Role role) const { return task.operand<std::byte>(role) != nullptr; }
    /// Of documents, by token; null: one document a sequence.
    const std::int32_t* starts() const { return task.operand<std::int32_t>(program::Role::document_starts); }
    const E* weight(Parameter) const;
    const E* weight_if(bool present, Parameter kind) const { return present ? weight(kind) : nullptr; }
    /// Null where the tensor is frozen.
    float* gradient(Parameter) const;
    KernelRowPlace place() const { return {shape.length, static_cast<int>(task.first_sequence), static_cast<int>(first_row)}; }
    /// The next `count` elements of the scratch memory.
    template <class T = E>
    T* take(std::int64_t count) const {
      T* taken = reinterpret_cast<T*>(operations.scratch_.data() + used.count);
      used += align_up(Bytes{static_cast<std::int64_t>(sizeof(T)) * count}, 64);
      FLOTILLA_ASSERT(used.count <= static_cast<std::int64_t>(operations.scratch_.size()), "scratch memory of ", used.count, " bytes");
      return taken;
    }

    CudaOperations& operations;
    const Task& task;
    model::LayerShape shape;
    std::int64_t n, rows, first_row;
    model::BlockLayout block{};
    mutable Bytes used;
  };
  friend struct Frame;
  /// The gradient of a linear layer's output, and of its adapter's low-rank input; null where it has none.
  struct Back {
    const E *gradient, *low;
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
  const E* head_input(const Frame&) const;
  void head_forward(const Frame&);
  void head_loss(const Frame&);
  // backward.cpp
  void back_to_mlp(const Frame&, E* masked);
  void mlp_backward_input(const Frame&);
  void mlp_backward_weights(const Frame&);
  void mlp_backward(const Frame&);
  void back_to_attention(const Frame&, E* masked);
  void back_beside_mlp(const Frame&, E* masked);
  void back_through_output_norm(const Frame&, const OutputNorm&, DropSite, E* branch, Parameter bias, bool has_bias);
  void attention_backward_input(const Frame&);
  void attention_backward_weights(const Frame&);
  void attention_backward(const Frame&);
  void block_begin_backward(const Frame&);
  void qkv_gradient(const Frame&, Back out, E* gradient);
  void norm_heads_backward(const Frame&, E* gradient);
  void attention_weight_gradients(const Frame&, Back out, Back qkv);
  /// Back through the down product and the activation: the gradient of `up`.
  void up_gradient(const Frame&, Back down, E* columns, E* out);
  void mlp_weight_gradients(const Frame&, Back down, Back up);
  const E* output_gradient(const Frame&, E* kept, void (CudaOperations::*back)(const Frame&, E*));
  /// As cpu::Operations::attention_gradient.
  E* attention_gradient(const Frame& f) const {
    return f.at(setup_.model.parallel_residual ? program::Role::partial : program::Role::gradient);
  }
  E* kept_output_gradient(const Frame&) const;
  E* kept_up_gradient(const Frame&) const;
  void logits_gradient(const Frame&);
  void head_backward_weights(const Frame&);
  void head_input_gradient(const Frame&);
  void head_end_backward(const Frame&);
  E* before_embedding(const Frame&, E* words);
  void embedding_norm_backward(const Frame&, E* gradient);
  void embedding_backward(const Frame&);
  void token_embedding_gradient(const Frame&, const E* gradient);

  // adapters.cpp: as cpu::Operations has them
  void run_linear(const Frame&, model::Linear, ProductSpec, const E* x, const E* bias, E* y);
  Back back_into(const Frame&, model::Linear, const E* gradient);
  void input_gradient(const Frame&, model::Linear, const ProductSpec&, Back, E* dx);
  void add_gradients(const Frame&, model::Linear, Back, const E* x);
  E* low_rank_input(const Frame&, model::Linear, const E* x);
  const std::optional<model::AdapterShape>& adapter(model::Linear linear) const { return adapters_[static_cast<std::size_t>(linear)]; }

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
  void add_column_sums(const Frame&, const E* x, std::int64_t width, Parameter);
  /// Each of `sums` vectors += its parts in `partials` (sums, parts, width), in order. Null: nobody wants it.
  void add_parts(std::array<float*, 3> to, int sums, float* partials, int parts, std::int64_t width);
  /// What a product adds to a weight's gradient, unless that is frozen.
  void add_weight_gradient(const Frame&, const ProductSpec&, const void* gradient, const void* input, Parameter weight);
  void copy(const Frame&, const E* from, E* to, std::int64_t elements);
  void copy_rows(const Frame& f, const E* from, E* to, std::int64_t width) { copy(f, from, to, f.rows * width); }
  KernelDropout dropout(const Frame&, DropSite) const;
  bool drops(const Frame& f) const { return setup_.model.dropout > 0 && f.task.training; }
  /// As cpu::Operations::stands_apart.
  bool stands_apart(const Frame& f) const { return drops(f) || setup_.model.output_norms; }
  float norm_offset() const { return setup_.model.norm_offset ? 1.0f : 0.0f; }
  /// Of SwiGLU and GeGLU: that of the gates.
  PointwiseActivation kernel_activation() const;
  AttentionShape attention_shape(int window) const;
  AttentionShape attention_shape(const Frame&) const;
  HeadBands head_bands() const;
  std::string prove_attention(int sequences);
  KernelHeadRows head_rows(const Frame&) const;
  std::int64_t head_pitch(const Frame&) const;
  void multiply(const ProductSpec& spec, const ProductOperands& operands) { products_.run(spec, operands, stream_); }
  /// Where a gradient before a dropout or a norm goes: apart where there is one, else it is the gradient itself.
  E* masked(const Frame& f, E* gradient) const { return stands_apart(f) ? f.take(f.n * d_) : gradient; }

  Setup setup_;
  std::int64_t d_, w_, heads_, groups_, attention_width_, qkv_width_, columns_, up_width_, vocabulary_;
  bool pre_norm_, rms_, shares_;
  Parameter head_token_embedding_;
  cpu::ParameterIndex parameters_;
  gpu::DeviceContext device_;
  gpu::Stream stream_;
  gpu::Module module_;
  KernelSet<E> kernels_;
  AttentionKernels<E> attention_;
  CublasProducts products_;
  gpu::DeviceBuffer angles_, window_angles_;
  float embedding_scale_;
  struct Widths {
    std::int64_t in, out;
  };
  std::array<Widths, model::linears.size()> widths_;
  std::array<std::optional<model::AdapterShape>, model::linears.size()> adapters_;
  float adapter_scale_ = 1;
  std::span<std::byte> all_scratch_, scratch_;
  std::unique_ptr<LibraryAttention<E>> library_;
  std::string attention_library_;
};

}  // namespace flotilla::compute::cuda
