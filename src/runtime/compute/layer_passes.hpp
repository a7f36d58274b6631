#pragma once
#include "adapter_products.hpp"
#include "layer_frame.hpp"

namespace flotilla::compute {

/// Forward and backward passes as far as they are the same on every device: which step follows which, linear layers with their low-rank
/// adapters (model::Lora), and products whose operands stand where the layouts say.
///
/// `Device` derives from LayerDimensions, has a `Frame` for each task (a LayerFrame<E> with `take<T>(count)` for temporaries), and runs
/// what differs: `multiply(ProductSpec, ProductOperands)`, copies, and the steps that `dispatch` and the passes below name.
template <class Device, class E>
class LayerPasses {
 protected:
  /// The gradient of a linear layer's output, and of its adapter's low-rank input; null where it has none.
  struct Back {
    const E *gradient, *low;
  };

  template <class Frame>
  void dispatch(const Frame&);

  /// y = x W^T, to which the layer's adapter adds. The product is linear_forward's, with bias and activation.
  template <class Frame>
  void run_linear(const Frame&, model::Linear, ProductSpec, const E* x, const E* bias, E* y);
  /// The gradient, and that of the adapter's low-rank input, where the layer has one.
  template <class Frame>
  Back back_into(const Frame&, model::Linear, const E* gradient);
  /// dx = dy W, to which the adapter adds. The product is linear_input_gradient's.
  template <class Frame>
  void input_gradient(const Frame&, model::Linear, const ProductSpec&, Back, E* dx);
  /// Of the weight and of the adapter, of those that are trained.
  template <class Frame>
  void add_gradients(const Frame&, model::Linear, Back, const E* x);
  /// What a product adds to a weight's gradient, unless that is frozen.
  template <class Frame>
  void add_weight_gradient(const Frame&, const ProductSpec&, const void* gradient, const void* input, Parameter weight);

  template <class Frame>
  void mlp_backward(const Frame&);
  template <class Frame>
  void mlp_backward_weights(const Frame&);
  template <class Frame>
  void mlp_weight_gradients(const Frame&, Back down, Back up);
  template <class Frame>
  void attention_backward(const Frame&);
  template <class Frame>
  void attention_backward_input(const Frame&);
  template <class Frame>
  void attention_backward_weights(const Frame&);
  template <class Frame>
  void attention_weight_gradients(const Frame&, Back out, Back qkv);
  /// Of an output product, of all tokens; `kept` gets it, too, or this rank's rows of it. `back` makes it where tokens are not shared.
  template <class Frame>
  const E* output_gradient(const Frame&, E* kept, void (Device::*back)(const Frame&, E*));
  template <class Frame>
  E* kept_output_gradient(const Frame&);
  template <class Frame>
  E* kept_up_gradient(const Frame&);

  template <class Frame>
  bool drops(const Frame& f) const {
    return self().setup_.model.dropout > 0 && f.task.training;
  }
  /// Whether the gradient that an output product gets differs from that of the residual path.
  template <class Frame>
  bool stands_apart(const Frame& f) const {
    return drops(f) || self().setup_.model.output_norms;
  }

  /// What the token embedding is multiplied with.
  template <class Frame>
  const E* head_input(const Frame&) const;
  /// From row to row of the logits' gradient, which stands in their place: the buffer has room for fp32.
  template <class Frame>
  std::int64_t head_pitch(const Frame&) const;
  template <class Frame>
  void head_backward_weights(const Frame&);
  template <class Frame>
  void head_input_gradient(const Frame&);
  /// The two gradients of project_out, of at least one row.
  template <class Frame>
  void project_back(const Frame&, const E* gradient, const E* input, E* input_gradient);
  template <class Frame>
  void embedding_backward(const Frame&);

 private:
  Device& self() { return static_cast<Device&>(*this); }
  const Device& self() const { return static_cast<const Device&>(*this); }

  template <class Frame>
  E* low_rank_input(const Frame&, model::Linear, const E* x);
  template <class Frame>
  const E* qkv_input(const Frame& f) const {
    return self().pre_norm_ ? f.saved(f.block.attention_input) : f.at(program::Role::input);
  }
  /// This rank's rows, of `width` elements, to their place in a buffer that is gathered.
  template <class Frame>
  void put_rows(const Frame& f, const E* rows, program::Role role, std::int64_t width) {
    self().copy_rows(f, rows, f.own(role, width), width);
  }
  template <class Frame>
  void mlp_begin_backward(const Frame&);
  template <class Frame>
  void attention_begin_backward(const Frame&);
  template <class Frame>
  void begin_weights(const Frame&, const E* gradient, const E* input);
  template <class Frame>
  void embedding_begin_backward(const Frame&);
};

template <class Device, class E>
template <class Frame>
void LayerPasses<Device, E>::dispatch(const Frame& f) {
  using model::Operation;
  using program::Role;
  Device& d = self();
  switch (f.task.operation) {
    case Operation::embedding_forward: return d.embedding_forward(f);
    case Operation::embedding_end_forward: return d.embedding_end_forward(f);
    case Operation::attention_forward: return d.attention_forward(f);
    case Operation::mlp_forward: return d.mlp_forward(f);
    case Operation::block_end_forward: return d.block_end_forward(f);
    case Operation::head_forward: return d.head_forward(f);
    case Operation::head_loss: return d.head_loss(f);
    case Operation::head_backward:
      d.logits_gradient(f);
      head_backward_weights(f);
      return head_input_gradient(f);
    case Operation::head_end_backward: return d.head_end_backward(f);
    case Operation::mlp_backward: return mlp_backward(f);
    case Operation::attention_backward: return attention_backward(f);
    case Operation::block_begin_backward: return d.block_begin_backward(f);
    case Operation::embedding_backward: return embedding_backward(f);
    case Operation::block_again: return d.block_again(f);
    case Operation::attention_begin_forward: return put_rows(f, d.attention_input(f), Role::partial, d.d_);
    case Operation::mlp_begin_forward: return put_rows(f, d.mlp_input(f), Role::partial, d.d_);
    case Operation::head_begin_forward: return put_rows(f, d.head_rows_forward(f), Role::gathered, d.w_);
    case Operation::mlp_begin_backward: return mlp_begin_backward(f);
    case Operation::attention_begin_backward: return attention_begin_backward(f);
    case Operation::embedding_begin_backward: return embedding_begin_backward(f);
    case Operation::mlp_begin_weights: return begin_weights(f, kept_output_gradient(f), f.saved(f.block.ff_input));
    case Operation::attention_begin_weights: return begin_weights(f, f.saved(f.block.middle), qkv_input(f));
    case Operation::mlp_backward_input: return d.mlp_backward_input(f);
    case Operation::mlp_backward_weights: return mlp_backward_weights(f);
    case Operation::attention_backward_input: return attention_backward_input(f);
    case Operation::attention_backward_weights: return attention_backward_weights(f);
    case Operation::head_backward_input: d.logits_gradient(f); return head_input_gradient(f);
    case Operation::head_backward_weights: return head_backward_weights(f);
  }
}

template <class Device, class E>
template <class Frame>
void LayerPasses<Device, E>::mlp_begin_backward(const Frame& f) {
  const std::int64_t d = self().d_;
  self().back_to_mlp(f, f.own(program::Role::partial, d));
  if (f.gathers()) put_rows(f, f.saved(f.block.ff_input), program::Role::gathered, d);
}

template <class Device, class E>
template <class Frame>
void LayerPasses<Device, E>::attention_begin_backward(const Frame& f) {
  const std::int64_t d = self().d_;
  self().back_to_attention(f, f.own(program::Role::partial, d));
  if (f.gathers()) put_rows(f, qkv_input(f), program::Role::gathered, d);
}

template <class Device, class E>
template <class Frame>
void LayerPasses<Device, E>::begin_weights(const Frame& f, const E* gradient, const E* input) {
  put_rows(f, gradient, program::Role::partial, self().d_);
  put_rows(f, input, program::Role::gathered, self().d_);
}

// Linear layers. The low-rank input is as narrow as the rank: backward passes make it again.

template <class Device, class E>
template <class Frame>
E* LayerPasses<Device, E>::low_rank_input(const Frame& f, model::Linear linear, const E* x) {
  Device& d = self();
  const auto& a = *d.adapter(linear);
  E* low = f.take(f.n * a.width());
  d.multiply(adapter_low(d.setup_.precision, f.n, a, d.adapter_scale_), {.a = x, .b = f.weight(lora_a(linear)), .c = low});
  return low;
}

/// The adapter's product comes first: bias and ReLU ride on the layer's own.
template <class Device, class E>
template <class Frame>
void LayerPasses<Device, E>::run_linear(const Frame& f, model::Linear linear, ProductSpec product, const E* x, const E* bias, E* y) {
  Device& d = self();
  if (const auto& a = d.adapter(linear)) {
    const E *low = low_rank_input(f, linear, x), *b = f.weight(lora_b(linear));
    for (const auto& piece : a->pieces)
      d.multiply(adapter_output(d.setup_.precision, f.n, *a, piece),
                 {.a = low + piece.part * a->rank, .b = b + piece.first * a->rank, .c = y + piece.first});
    product.accumulate = true;
  }
  d.multiply(product, {.a = x, .b = f.weight(weight_of(linear)), .bias = bias, .c = y});
}

template <class Device, class E>
template <class Frame>
auto LayerPasses<Device, E>::back_into(const Frame& f, model::Linear linear, const E* gradient) -> Back {
  Device& d = self();
  const auto& a = d.adapter(linear);
  if (!a) return {gradient, nullptr};
  E* low = f.take(f.n * a->width());
  const E* b = f.weight(lora_b(linear));
  for (std::size_t i = 0; i < a->pieces.size(); ++i) {
    const auto& piece = a->pieces[i];
    d.multiply(adapter_low_gradient(d.setup_.precision, f.n, *a, i, d.adapter_scale_),
               {.a = gradient + piece.first, .b = b + piece.first * a->rank, .c = low + piece.part * a->rank});
  }
  return {gradient, low};
}

template <class Device, class E>
template <class Frame>
void LayerPasses<Device, E>::input_gradient(const Frame& f, model::Linear linear, const ProductSpec& product, Back back, E* dx) {
  Device& d = self();
  d.multiply(product, {.a = back.gradient, .b = f.weight(weight_of(linear)), .c = dx});
  if (back.low == nullptr) return;
  d.multiply(adapter_input_gradient(d.setup_.precision, f.n, *d.adapter(linear), product.c_row),
             {.a = back.low, .b = f.weight(lora_a(linear)), .c = dx});
}

template <class Device, class E>
template <class Frame>
void LayerPasses<Device, E>::add_gradients(const Frame& f, model::Linear linear, Back back, const E* x) {
  Device& d = self();
  const auto& widths = d.widths_[static_cast<std::size_t>(linear)];
  add_weight_gradient(f, linear_weight_gradient(d.setup_.precision, f.n, widths.out, widths.in), back.gradient, x, weight_of(linear));
  const auto& a = d.adapter(linear);
  if (!a) return;
  add_weight_gradient(f, linear_weight_gradient(d.setup_.precision, f.n, a->width(), a->in), back.low, x, lora_a(linear));
  const E* low = low_rank_input(f, linear, x);
  float* sum = f.gradient(lora_b(linear));
  if (sum == nullptr) return;
  for (const auto& piece : a->pieces)
    d.multiply(adapter_b_gradient(d.setup_.precision, f.n, *a, piece),
               {.a = back.gradient + piece.first, .b = low + piece.part * a->rank, .c = sum + piece.first * a->rank});
}

template <class Device, class E>
template <class Frame>
void LayerPasses<Device, E>::add_weight_gradient(const Frame& f, const ProductSpec& product, const void* gradient, const void* input,
                                                 Parameter weight) {
  if (float* sum = f.gradient(weight)) self().multiply(product, {.a = gradient, .b = input, .c = sum});
}

// A block's passes. What the weights' half of a split pass needs is written over what nobody reads any more (model::KeptLayout).

template <class Device, class E>
template <class Frame>
E* LayerPasses<Device, E>::kept_output_gradient(const Frame& f) {
  const Device& d = self();
  return d.pre_norm_ ? f.kept(model::kept_layout(d.setup_.model, f.shape).output_gradient) : f.saved(f.block.end);
}

template <class Device, class E>
template <class Frame>
E* LayerPasses<Device, E>::kept_up_gradient(const Frame& f) {
  const model::Config& c = self().setup_.model;
  return c.activation == model::Activation::relu ? f.kept(model::kept_layout(c, f.shape).up_gradient) : f.saved(f.block.up);
}

template <class Device, class E>
template <class Frame>
const E* LayerPasses<Device, E>::output_gradient(const Frame& f, E* kept, void (Device::*back)(const Frame&, E*)) {
  using program::Role;
  Device& d = self();
  if (d.shares_) {
    d.copy_rows(f, f.own(Role::partial, d.d_), kept, d.d_);
    return f.at(Role::partial);
  }
  // back_to_attention leaves the gradient that its dropout site gets in `partial` where the residual is parallel.
  const bool in_partial = back == &Device::back_to_attention && d.setup_.model.parallel_residual;
  E* gradient = f.at(in_partial ? Role::partial : Role::gradient);
  (d.*back)(f, stands_apart(f) ? kept : gradient);
  if (!stands_apart(f)) d.copy(f, gradient, kept, d.d_);
  return kept;
}

template <class Device, class E>
template <class Frame>
void LayerPasses<Device, E>::mlp_backward(const Frame& f) {
  using program::Role;
  Device& d = self();
  E* before_drop = d.shares_ ? f.at(Role::partial) : d.masked(f, f.at(Role::gradient));
  E* columns = f.take(f.n * d.up_width_);  // gradient of `activated`, then of `up`
  if (!d.shares_) d.back_to_mlp(f, before_drop);
  const Back down = back_into(f, model::Linear::down, before_drop);
  d.up_gradient(f, down, columns, columns);
  const Back up = back_into(f, model::Linear::up, columns);
  mlp_weight_gradients(f, down, up);
  input_gradient(f, model::Linear::up, linear_input_gradient(d.setup_.precision, f.n, d.up_width_, d.d_), up, f.at(Role::partial));
}

template <class Device, class E>
template <class Frame>
void LayerPasses<Device, E>::mlp_backward_weights(const Frame& f) {
  const E* before_drop = self().shares_ ? f.at(program::Role::partial) : kept_output_gradient(f);
  const Back down = back_into(f, model::Linear::down, before_drop);
  mlp_weight_gradients(f, down, back_into(f, model::Linear::up, kept_up_gradient(f)));
}

template <class Device, class E>
template <class Frame>
void LayerPasses<Device, E>::mlp_weight_gradients(const Frame& f, Back down, Back up) {
  add_gradients(f, model::Linear::down, down, f.saved(f.block.activated));
  add_gradients(f, model::Linear::up, up, self().shares_ ? f.at(program::Role::gathered) : f.saved(f.block.ff_input));
}

template <class Device, class E>
template <class Frame>
void LayerPasses<Device, E>::attention_backward(const Frame& f) {
  using program::Role;
  Device& d = self();
  const bool in_partial = d.shares_ || d.setup_.model.parallel_residual;
  E* before_drop = in_partial ? f.at(Role::partial) : d.masked(f, f.at(Role::gradient));
  E* to_qkv = f.take(f.n * d.qkv_width_);
  if (!d.shares_) d.back_to_attention(f, before_drop);
  const Back out = back_into(f, model::Linear::out, before_drop);
  d.qkv_gradient(f, out, to_qkv);
  const Back qkv = back_into(f, model::Linear::qkv, to_qkv);
  attention_weight_gradients(f, out, qkv);
  input_gradient(f, model::Linear::qkv, linear_input_gradient(d.setup_.precision, f.n, d.qkv_width_, d.d_), qkv, f.at(Role::partial));
}

template <class Device, class E>
template <class Frame>
void LayerPasses<Device, E>::attention_backward_input(const Frame& f) {
  Device& d = self();
  E* to_qkv = f.take(f.n * d.qkv_width_);
  const E* before_drop = output_gradient(f, f.saved(f.block.middle), &Device::back_to_attention);
  d.qkv_gradient(f, back_into(f, model::Linear::out, before_drop), to_qkv);
  d.copy(f, to_qkv, f.saved(f.block.qkv), d.qkv_width_);
  input_gradient(f, model::Linear::qkv, linear_input_gradient(d.setup_.precision, f.n, d.qkv_width_, d.d_),
                 back_into(f, model::Linear::qkv, to_qkv), f.at(program::Role::partial));
}

template <class Device, class E>
template <class Frame>
void LayerPasses<Device, E>::attention_backward_weights(const Frame& f) {
  const Back out = back_into(f, model::Linear::out, self().shares_ ? f.at(program::Role::partial) : f.saved(f.block.middle));
  attention_weight_gradients(f, out, back_into(f, model::Linear::qkv, f.saved(f.block.qkv)));
}

template <class Device, class E>
template <class Frame>
void LayerPasses<Device, E>::attention_weight_gradients(const Frame& f, Back out, Back qkv) {
  Device& d = self();
  add_gradients(f, model::Linear::out, out, f.saved(f.block.attention_output));
  if (d.setup_.model.qkv_bias) d.add_bias_gradient(f, qkv.gradient, d.qkv_width_, Parameter::qkv_bias);
  add_gradients(f, model::Linear::qkv, qkv, d.shares_ ? f.at(program::Role::gathered) : qkv_input(f));
}

// The head and the embedding.

template <class Device, class E>
template <class Frame>
const E* LayerPasses<Device, E>::head_input(const Frame& f) const {
  const model::Config& c = self().setup_.model;
  const model::HeadLayout layout = model::head_layout(c, f.shape);
  if (self().shares_) return f.at(program::Role::gathered);
  if (c.projects()) return f.saved(layout.projected);
  return c.final_norm ? f.saved(layout.normed) : f.at(program::Role::input);
}

template <class Device, class E>
template <class Frame>
std::int64_t LayerPasses<Device, E>::head_pitch(const Frame& f) const {
  return model::logits_pitch(self().setup_.model, f.shape) * static_cast<std::int64_t>(sizeof(float) / sizeof(E));
}

template <class Device, class E>
template <class Frame>
void LayerPasses<Device, E>::head_backward_weights(const Frame& f) {
  const Device& d = self();
  ProductSpec to_token_embedding = linear_weight_gradient(d.setup_.precision, f.n, d.vocabulary_, d.w_);
  to_token_embedding.a_column = head_pitch(f);
  add_weight_gradient(f, to_token_embedding, f.at(program::Role::logits), head_input(f), d.head_token_embedding_);
}

template <class Device, class E>
template <class Frame>
void LayerPasses<Device, E>::head_input_gradient(const Frame& f) {
  Device& d = self();
  ProductSpec to_input = linear_input_gradient(d.setup_.precision, f.n, d.vocabulary_, d.w_);
  to_input.a_row = head_pitch(f);
  d.multiply(to_input, {.a = f.at(program::Role::logits), .b = f.weight(d.head_token_embedding_), .c = f.at(program::Role::partial)});
}

template <class Device, class E>
template <class Frame>
void LayerPasses<Device, E>::project_back(const Frame& f, const E* gradient, const E* input, E* input_gradient) {
  Device& d = self();
  add_weight_gradient(f, linear_weight_gradient(d.setup_.precision, f.rows, d.w_, d.d_), gradient, input, Parameter::project_out);
  d.multiply(linear_input_gradient(d.setup_.precision, f.rows, d.w_, d.d_),
             {.a = gradient, .b = f.weight(Parameter::project_out), .c = input_gradient});
}

template <class Device, class E>
template <class Frame>
void LayerPasses<Device, E>::embedding_begin_backward(const Frame& f) {
  Device& d = self();
  E* place = f.own(program::Role::partial, d.w_);
  const E* words = d.before_embedding(f, place);
  if (words != place) d.copy_rows(f, words, place, d.w_);
}

template <class Device, class E>
template <class Frame>
void LayerPasses<Device, E>::embedding_backward(const Frame& f) {
  Device& d = self();
  if (d.shares_) return d.token_embedding_gradient(f, f.at(program::Role::partial));
  d.token_embedding_gradient(f, d.before_embedding(f, d.setup_.model.projects() ? f.take(f.n * d.w_) : nullptr));
}

}  // namespace flotilla::compute
