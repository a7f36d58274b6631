// The halves of a block's backward pass. What the weights' half needs is written over what nobody reads any more (model::KeptLayout).
#include <cstring>

#include "operations.hpp"

namespace flotilla::compute::cpu {

using program::Role;

template <class E>
void Operations<E>::copy(const Frame& f, const E* from, E* to, std::int64_t width) {
  for_shares(setup_.threads, f.n, [&](int, Rows rows) {
    const std::int64_t at = rows.first * width;
    std::memcpy(to + at, from + at, sizeof(E) * static_cast<std::size_t>(rows.count() * width));
  });
}

template <class E>
E* Operations<E>::kept_output_gradient(const Frame& f) const {
  return pre_norm_ ? f.kept(model::kept_layout(setup_.model, f.shape).output_gradient) : f.saved(f.block().end);
}

template <class E>
E* Operations<E>::kept_up_gradient(const Frame& f) const {
  return setup_.model.activation == model::Activation::relu ? f.kept(model::kept_layout(setup_.model, f.shape).up_gradient)
                                                            : f.saved(f.block().up);
}

template <class E>
const E* Operations<E>::output_gradient(const Frame& f, E* kept, void (Operations::*back)(const Frame&, E*)) {
  if (shares_) {
    copy_rows(f, f.own(Role::partial, d_), kept, d_);
    return f.at(Role::partial);
  }
  E* gradient = back == &Operations::back_to_attention ? attention_gradient(f) : f.at(Role::gradient);
  (this->*back)(f, stands_apart(f) ? kept : gradient);
  if (!stands_apart(f)) copy(f, gradient, kept, d_);
  return kept;
}

template <class E>
void Operations<E>::mlp_backward_input(const Frame& f) {
  const model::BlockLayout layout = f.block();
  E* kept_up = kept_up_gradient(f);
  const E* before_drop = output_gradient(f, kept_output_gradient(f), &Operations::back_to_mlp);
  // With relu nothing is in the place of what is kept; else its own input is, until the activation has been gone back through.
  const bool in_place = setup_.model.activation == model::Activation::relu;
  E* columns = in_place ? kept_up : f.workspace.template take<E>(f.n * up_width_);
  activated_gradient(f, back_into(f, model::Linear::down, before_drop), columns);
  activation_backward(f, layout, columns, in_place ? nullptr : kept_up);
  input_gradient(f, model::Linear::up, linear_input_gradient(setup_.precision, f.n, up_width_, d_),
                 back_into(f, model::Linear::up, kept_up), f.at(Role::partial));
}

template <class E>
void Operations<E>::mlp_begin_weights(const Frame& f) {
  copy_rows(f, kept_output_gradient(f), f.own(Role::partial, d_), d_);
  copy_rows(f, f.saved(f.block().ff_input), f.own(Role::gathered, d_), d_);
}

template <class E>
void Operations<E>::mlp_backward_weights(const Frame& f) {
  const model::BlockLayout layout = f.block();
  const E* before_drop = shares_ ? f.at(Role::partial) : kept_output_gradient(f);
  const E* input = shares_ ? f.at(Role::gathered) : f.saved(layout.ff_input);
  add_gradients(f, model::Linear::down, back_into(f, model::Linear::down, before_drop), f.saved(layout.activated));
  add_gradients(f, model::Linear::up, back_into(f, model::Linear::up, kept_up_gradient(f)), input);
}

template <class E>
void Operations<E>::attention_backward_input(const Frame& f) {
  const model::BlockLayout layout = f.block();
  E* to_qkv = f.workspace.template take<E>(f.n * qkv_width_);
  const E* before_drop = output_gradient(f, f.saved(layout.middle), &Operations::back_to_attention);
  qkv_gradient(f, back_into(f, model::Linear::out, before_drop), to_qkv);
  copy(f, to_qkv, f.saved(layout.qkv), qkv_width_);
  input_gradient(f, model::Linear::qkv, linear_input_gradient(setup_.precision, f.n, qkv_width_, d_),
                 back_into(f, model::Linear::qkv, to_qkv), f.at(Role::partial));
}

template <class E>
void Operations<E>::attention_begin_weights(const Frame& f) {
  const model::BlockLayout layout = f.block();
  copy_rows(f, f.saved(layout.middle), f.own(Role::partial, d_), d_);
  copy_rows(f, pre_norm_ ? f.saved(layout.attention_input) : f.at(Role::input), f.own(Role::gathered, d_), d_);
}

template <class E>
void Operations<E>::attention_backward_weights(const Frame& f) {
  const model::BlockLayout layout = f.block();
  const Back out = back_into(f, model::Linear::out, shares_ ? f.at(Role::partial) : f.saved(layout.middle));
  attention_weight_gradients(f, out, back_into(f, model::Linear::qkv, f.saved(layout.qkv)));
}

#define FLOTILLA_INSTANTIATE(E)                                                                                  \
  template void Operations<E>::copy(const Frame&, const E*, E*, std::int64_t);                                   \
  template const E* Operations<E>::output_gradient(const Frame&, E*, void (Operations<E>::*)(const Frame&, E*)); \
  template E* Operations<E>::kept_output_gradient(const Frame&) const;                                           \
  template E* Operations<E>::kept_up_gradient(const Frame&) const;                                               \
  template void Operations<E>::mlp_begin_weights(const Frame&);                                                  \
  template void Operations<E>::attention_begin_weights(const Frame&);                                            \
  template void Operations<E>::mlp_backward_input(const Frame&);                                                 \
  template void Operations<E>::mlp_backward_weights(const Frame&);                                               \
  template void Operations<E>::attention_backward_input(const Frame&);                                           \
  template void Operations<E>::attention_backward_weights(const Frame&);
FLOTILLA_INSTANTIATE(float)
FLOTILLA_INSTANTIATE(bfloat16)
FLOTILLA_INSTANTIATE(float16)
#undef FLOTILLA_INSTANTIATE

}  // namespace flotilla::compute::cpu
