#pragma once
#include "attention.hpp"
#include "dropout.hpp"
#include "embedding_scale.hpp"
#include "kernels.hpp"
#include "layer_passes.hpp"
#include "parallel.hpp"
#include "products.hpp"
#include "rotary.hpp"

namespace flotilla::compute::cpu {

/// The operations for one element type. What differs between models is data: a kind of norm, an activation, a bias that is there.
template <class E>
class Operations : LayerDimensions, LayerPasses<Operations<E>, E> {
 public:
  explicit Operations(const Setup&);

  void run(const Task&);
  void score_targets(const Task&, std::span<TokenScore>);
  void set_scratch(std::span<std::byte> scratch) { products_.set_scratch(scratch); }

 private:
  using Passes = LayerPasses<Operations<E>, E>;
  friend Passes;
  using Passes::add_gradients, Passes::add_weight_gradient, Passes::back_into, Passes::dispatch, Passes::input_gradient, Passes::run_linear;
  using Passes::drops, Passes::head_input, Passes::head_pitch, Passes::kept_output_gradient, Passes::kept_up_gradient;
  using Passes::output_gradient, Passes::project_back, Passes::stands_apart;
  using typename Passes::Back;

  class Frame : public LayerFrame<E> {
   public:
    Frame(const Operations& o, const Task& t)
        : LayerFrame<E>{o.setup_, o.parameters_, t}, workspace{t.operand<std::byte>(program::Role::workspace)} {}

    RowPlace place() const { return {this->shape.length, this->task.first_sequence, this->first_row}; }
    template <class T = E>
    T* take(std::int64_t count) const {
      return workspace.template take<T>(count);
    }

    mutable Workspace workspace;
  };

  // embedding.cpp
  void embedding_forward(const Frame&);
  void embedding_end_forward(const Frame&);
  E* before_embedding(const Frame&, E* words);
  void embedding_norm_backward(const Frame&, E* gradient);
  void position_gradient(const Frame&, const E* gradient);
  void document_position_gradient(const Frame&, const E* gradient, float* positions);
  void token_embedding_gradient(const Frame&, const E* gradient);
  // block_forward.cpp
  const E* attention_input(const Frame&);
  void attention_forward(const Frame&);
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
  void back_to_mlp(const Frame&, E* masked);
  void back_to_attention(const Frame&, E* masked);
  void back_beside_mlp(const Frame&, E* masked);
  /// `gradient` is of a sum; `branch` gets that of what the sub-layer's product put out, whose bias follows.
  void back_through_output_norm(const Frame&, const OutputNorm&, DropSite, E* branch, Parameter bias, bool has_bias);
  void block_begin_backward(const Frame&);
  /// Back through the down product, into `columns`, and the activation: the gradient of `up`, there and at `out`.
  void up_gradient(const Frame&, Back down, E* columns, E* out);
  /// `kept`: the result goes there as well, which may be where the activation's input stands; may be null.
  void activation_backward(const Frame&, E* gradient, E* kept);
  void qkv_gradient(const Frame&, Back out, E* gradient);
  void norm_heads_backward(const Frame&, E* gradient);
  void mlp_backward_input(const Frame&);
  void copy(const Frame&, const E* from, E* to, std::int64_t width);
  // head.cpp
  const E* head_rows_forward(const Frame&);
  void logits_gradient(const Frame&);
  void head_forward(const Frame&);
  void add_loss(const Frame&, Rows, double& loss, double& counted);
  void head_loss(const Frame&);
  void head_end_backward(const Frame&);
  HeadRows head_rows(const Frame&) const;

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
  /// Adds the sums over rows of a bias's gradient.
  void add_bias_gradient(const Frame&, const E* gradient, std::int64_t width, Parameter bias);
  /// Where the gradient before a dropout site or a norm goes: workspace where there is one, else the gradient itself.
  E* masked(const Frame&, E* gradient) const;

  void multiply(const ProductSpec& spec, const ProductOperands& operands) { products_.run(spec, operands); }

  const Kernels<E>& kernels_;
  Products products_;
  Attention<E> attention_;
  std::vector<float> angles_, window_angles_;
  float embedding_scale_;
};

}  // namespace flotilla::compute::cpu
