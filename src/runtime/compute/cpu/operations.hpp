#pragma once
#include <array>
#include <optional>

#include "adapter_products.hpp"
#include "attention.hpp"
#include "dropout.hpp"
#include "embedding_scale.hpp"
#include "kernels.hpp"
#include "parallel.hpp"
#include "parameters.hpp"
#include "products.hpp"
#include "rotary.hpp"

namespace flotilla::compute::cpu {

/// The operations for one element type. What differs between models is data: a kind of norm, an activation, a bias that is there.
template <class E>
class Operations {
 public:
  explicit Operations(const Setup&);

  void run(const Task&);
  void score_targets(const Task&, std::span<TokenScore>);
  void set_scratch(std::span<std::byte> scratch) { products_.set_scratch(scratch); }

 private:
  /// A task's shapes and operands.
  class Frame {
   public:
    Frame(const Operations&, const Task&);

    template <class T = E>
    T* at(program::Role role) const {
      T* operand = task.operand<T>(role);
      FLOTILLA_ASSERT(operand, model::to_string(task.operation), " lacks operand ", static_cast<int>(role));
      return operand;
    }
    /// Of what the layer keeps, or drops and computes again.
    template <class T = E>
    T* saved(const model::Segment& segment) const {
      return reinterpret_cast<T*>(at<std::byte>(segment.again ? program::Role::again : program::Role::saved) + segment.offset.count);
    }
    /// A block drops where it is handed a place for what it drops.
    model::BlockLayout block() const {
      return model::block_layout(model_, shape, task.operand<std::byte>(program::Role::again) != nullptr);
    }
    E* kept(const model::Segment& segment) const { return reinterpret_cast<E*>(at<std::byte>(program::Role::kept) + segment.offset.count); }
    /// Whether the inputs of a product are gathered beside the gradient; where passes are split, the weights' half does it.
    bool gathers() const { return task.operand<std::byte>(program::Role::gathered) != nullptr; }
    /// Where this rank's rows begin in a buffer of all tokens, `width` elements each.
    E* own(program::Role role, std::int64_t width) const { return at(role) + first_row * width; }
    RowPlace place() const { return {shape.length, task.first_sequence, first_row}; }
    /// Of documents, by token; null: one document a sequence.
    const std::int32_t* starts() const { return task.operand<std::int32_t>(program::Role::document_starts); }
    const E* weight(Parameter) const;
    const E* weight_if(bool present, Parameter kind) const { return present ? weight(kind) : nullptr; }
    /// Null where the tensor is frozen.
    float* gradient(Parameter) const;

    const Task& task;
    model::LayerShape shape;
    std::int64_t n;     ///< tokens
    std::int64_t rows;  ///< of them, those that this rank holds between products: [first_row, first_row + rows)
    std::int64_t first_row;
    mutable Workspace workspace;

   private:
    /// A token embedding that two layers use is in a part of its own; it belongs to layer 0 even where the head uses it.
    bool is_tied(Parameter kind) const { return kind == Parameter::token_embedding && tied_; }

    const model::Config& model_;
    const ParameterIndex& parameters_;
    bool tied_;
  };

  /// The gradient of a linear layer's output, and of its adapter's low-rank input; null where it has none.
  struct Back {
    const E *gradient, *low;
  };

  // embedding.cpp
  void embedding_forward(const Frame&);
  void embedding_end_forward(const Frame&);
  void embedding_begin_backward(const Frame&);
  void embedding_backward(const Frame&);
  E* before_embedding(const Frame&, E* words);
  void embedding_norm_backward(const Frame&, E* gradient);
  void position_gradient(const Frame&, const E* gradient);
  void document_position_gradient(const Frame&, const E* gradient, float* positions);
  void token_embedding_gradient(const Frame&, const E* gradient);
  // block_forward.cpp
  void attention_begin_forward(const Frame&);
  const E* attention_input(const Frame&);
  void attention_forward(const Frame&);
  void mlp_begin_forward(const Frame&);
  const E* mlp_input(const Frame&);
  void mlp_forward(const Frame&);
  void block_end_forward(const Frame&);
  void activate(const Frame&, const model::BlockLayout&, const E* input);
  void activation(const Frame&, const E* up, E* activated);
  void norm_heads(const Frame&, E* qkv);
  HeadNorms<E> head_norms(const Frame&, E* qkv) const;
  void rotate(const Frame&, E* qkv, bool back);
  /// The norm of what a sub-layer puts out: its input is kept, and its output stands in `partial`.
  struct OutputNorm {
    E* raw;
    float* stats;
    Parameter weight, bias;
  };
  OutputNorm attention_norm(const Frame&) const;
  OutputNorm feed_forward_norm(const Frame&) const;
  /// `partial` = the norm of partial + bias, of this rank's rows.
  void norm_output(const Frame&, const OutputNorm&, const E* bias);
  NormForward<E> norm_of_middle(const Frame&, const model::BlockLayout&) const;
  void block_again(const Frame&);
  // block_backward.cpp
  void mlp_begin_backward(const Frame&);
  void back_to_mlp(const Frame&, E* masked);
  void mlp_backward(const Frame&);
  void attention_begin_backward(const Frame&);
  void back_to_attention(const Frame&, E* masked);
  void back_beside_mlp(const Frame&, E* masked);
  /// `gradient` is of a sum; `branch` gets that of what the sub-layer's product put out, whose bias follows.
  void back_through_output_norm(const Frame&, const OutputNorm&, DropSite, E* branch, Parameter bias, bool has_bias);
  void attention_backward(const Frame&);
  void block_begin_backward(const Frame&);
  void activated_gradient(const Frame&, Back down, E* columns);
  void attention_weight_gradients(const Frame&, Back out, Back qkv);
  /// `kept`: the result goes there as well, which may be where the activation's input stands; may be null.
  void activation_backward(const Frame&, const model::BlockLayout&, E* gradient, E* kept = nullptr);
  void qkv_gradient(const Frame&, Back out, E* gradient);
  void norm_heads_backward(const Frame&, E* gradient);
  // split_backward.cpp
  void mlp_begin_weights(const Frame&);
  void attention_begin_weights(const Frame&);
  void mlp_backward_input(const Frame&);
  void mlp_backward_weights(const Frame&);
  void attention_backward_input(const Frame&);
  void attention_backward_weights(const Frame&);
  /// Of an output product, of all tokens; `kept` gets it, too, or this rank's rows of it. `back` makes it where tokens are not shared.
  const E* output_gradient(const Frame&, E* kept, void (Operations::*back)(const Frame&, E*));
  /// Where back_to_attention leaves the gradient that its dropout site gets, where there is no dropout.
  E* attention_gradient(const Frame& f) const {
    return f.at(setup_.model.parallel_residual ? program::Role::partial : program::Role::gradient);
  }
  E* kept_output_gradient(const Frame&) const;
  E* kept_up_gradient(const Frame&) const;
  bool drops(const Frame& f) const { return setup_.model.dropout > 0 && f.task.training; }
  /// Whether the gradient that an output product gets differs from that of the residual path.
  bool stands_apart(const Frame& f) const { return drops(f) || setup_.model.output_norms; }
  void copy(const Frame&, const E* from, E* to, std::int64_t width);
  // adapters.cpp
  /// y = x W^T, to which the layer's adapter adds. The product is linear_forward's, with bias and activation.
  void run_linear(const Frame&, model::Linear, ProductSpec, const E* x, const E* bias, E* y);
  /// The gradient, and that of the adapter's low-rank input, where the layer has one.
  Back back_into(const Frame&, model::Linear, const E* gradient);
  /// dx = dy W, to which the adapter adds. The product is linear_input_gradient's.
  void input_gradient(const Frame&, model::Linear, const ProductSpec&, Back, E* dx);
  /// Of the weight and of the adapter, of those that are trained.
  void add_gradients(const Frame&, model::Linear, Back, const E* x);
  E* low_rank_input(const Frame&, model::Linear, const E* x);
  const std::optional<model::AdapterShape>& adapter(model::Linear linear) const { return adapters_[static_cast<std::size_t>(linear)]; }
  // head.cpp
  void head_begin_forward(const Frame&);
  const E* head_rows_forward(const Frame&);
  void head_backward_input(const Frame&);
  void head_backward_weights(const Frame&);
  void head_input_gradient(const Frame&);
  void logits_gradient(const Frame&);
  std::int64_t head_pitch(const Frame&) const;
  void head_forward(const Frame&);
  void add_loss(const Frame&, Rows, double& loss, double& counted);
  void head_loss(const Frame&);
  void head_backward(const Frame&);
  void head_end_backward(const Frame&);
  void project_back(const Frame&, const E* gradient, const E* input, E* input_gradient);
  HeadRows head_rows(const Frame&) const;
  const E* head_input(const Frame&) const;

  NormForward<E> norm(const Frame&, const E* x, E* y, float* stats, Parameter weight, Parameter bias) const;
  void normalize(const Frame&, const NormForward<E>&);
  /// This rank's rows of width `width`.
  void copy_rows(const Frame&, const E* from, E* to, std::int64_t width) const;
  /// out = (residual +) the norm's backward of gradient (+ added), and below it the backward of a dropout site with its bias, one pass over
  /// the rows.
  struct RowsBackward {
    NormBackward<E> norm{};  ///< norm.x null: no norm
    DropBackward<E> drop{};  ///< drop.gradient null: no site
    Parameter norm_weight{}, norm_bias{}, bias{};
    bool has_bias = false;  ///< the site has one
  };
  void rows_backward(const Frame&, RowsBackward);
  /// What a product adds to a weight's gradient, unless that is frozen.
  void add_weight_gradient(const Frame&, const ProductSpec&, const void* gradient, const void* input, Parameter weight);
  /// Adds the sums over rows of a bias's gradient.
  void add_bias_gradient(const Frame&, const E* gradient, std::int64_t width, Parameter bias);
  /// Where the gradient before a dropout site or a norm goes: workspace where there is one, else the gradient itself.
  E* masked(const Frame&, E* gradient) const;

  Setup setup_;
  std::int64_t d_, w_, heads_, groups_, attention_width_, qkv_width_, columns_, up_width_, vocabulary_;
  bool pre_norm_, rms_, shares_;  // shares_: tokens between products
  Parameter head_token_embedding_;
  ParameterIndex parameters_;
  const Kernels<E>& kernels_;
  Products products_;
  Attention<E> attention_;
  std::vector<float> angles_, window_angles_;
  float embedding_scale_;
  struct Widths {
    std::int64_t in, out;
  };
  std::array<Widths, model::linears.size()> widths_;
  std::array<std::optional<model::AdapterShape>, model::linears.size()> adapters_;
  float adapter_scale_ = 1;
};

}  // namespace flotilla::compute::cpu
