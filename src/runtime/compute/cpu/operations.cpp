#include "operations.hpp"

namespace flotilla::compute::cpu {
namespace {

using model::Operation;

model::LayerShape shape_of(const Setup& s, int sequences) {
  return {sequences, s.length, s.tensor_parallel, s.tensor_index, s.precision, s.sequence_parallel, s.cache};
}

model::UnitRange rows_of(const model::LayerShape& s) {
  return s.sequence_parallel ? model::share(s.tokens(), s.tensor_parallel, s.tensor_index) : model::UnitRange{0, s.tokens()};
}

}  // namespace

template <class E>
Operations<E>::Frame::Frame(const Operations& o, const Task& t)
    : task{t},
      shape{shape_of(o.setup_, t.sequences)},
      n{shape.tokens()},
      rows{rows_of(shape).count()},
      first_row{rows_of(shape).first},
      workspace{t.operand<std::byte>(program::Role::workspace)},
      model_{o.setup_.model},
      parameters_{o.parameters_},
      tied_{o.setup_.model.tied_head} {}

template <class E>
const E* Operations<E>::Frame::weight(Parameter kind) const {
  const program::Part* part = is_tied(kind) ? task.token_embedding_part : task.part;
  FLOTILLA_ASSERT(part, model::to_string(task.operation), " lacks a part");
  const auto role = is_tied(kind) ? program::Role::token_embedding_weights : program::Role::weights;
  return at(role) + parameters_.offset(*part, is_tied(kind) ? 0 : task.layer, kind);
}

template <class E>
float* Operations<E>::Frame::gradient(Parameter kind) const {
  const program::Part* part = is_tied(kind) ? task.token_embedding_part : task.part;
  FLOTILLA_ASSERT(part, model::to_string(task.operation), " lacks a part");
  const auto role = is_tied(kind) ? program::Role::token_embedding_gradients : program::Role::gradients;
  if (!parameters_.trained(*part, is_tied(kind) ? 0 : task.layer, kind)) return nullptr;
  return at<float>(role) + parameters_.offset(*part, is_tied(kind) ? 0 : task.layer, kind);
}

template <class E>
Operations<E>::Operations(const Setup& setup)
    : setup_{setup},
      d_{setup.model.hidden},
      w_{setup.model.embedding_width},
      heads_{model::local_heads(setup.model, shape_of(setup, 1))},
      groups_{model::local_groups(setup.model, shape_of(setup, 1))},
      attention_width_{heads_ * setup.model.head_size()},
      qkv_width_{model::qkv_width(setup.model, shape_of(setup, 1))},
      columns_{model::local_columns(setup.model, shape_of(setup, 1))},
      up_width_{model::up_width(setup.model, shape_of(setup, 1))},
      vocabulary_{model::local_vocabulary(setup.model, shape_of(setup, 1))},
      pre_norm_{setup.model.norm == model::NormPlacement::pre},
      rms_{setup.model.norm_kind == model::NormKind::rms},
      shares_{setup.sequence_parallel},
      head_token_embedding_{setup.model.tied_head ? Parameter::token_embedding : Parameter::lm_head},
      parameters_{setup.model},
      kernels_{kernels<E>()},
      products_{setup.threads},
      attention_{setup_, products_},
      angles_{rotary_angles(setup.model, std::max(setup.length, setup.cache))},
      window_angles_{rotary_angles(setup.model, std::max(setup.length, setup.cache), true)},
      embedding_scale_{embedding_scale(setup)},
      widths_{{{d_, qkv_width_}, {attention_width_, d_}, {d_, up_width_}, {columns_, d_}}} {
  if (!setup.model.lora.on()) return;
  adapter_scale_ = static_cast<float>(setup.model.lora.scale());
  for (const model::Linear linear : setup.model.lora.targets)
    adapters_[static_cast<std::size_t>(linear)] = model::adapter_shape(setup.model, shape_of(setup, 1), linear);
}

template <class E>
void Operations<E>::run(const Task& task) {
  const ThreadCount threads{setup_.threads};
  const Frame frame{*this, task};
  switch (task.operation) {
    case Operation::embedding_forward: embedding_forward(frame); break;
    case Operation::embedding_end_forward: embedding_end_forward(frame); break;
    case Operation::attention_forward: attention_forward(frame); break;
    case Operation::mlp_forward: mlp_forward(frame); break;
    case Operation::block_end_forward: block_end_forward(frame); break;
    case Operation::head_forward: head_forward(frame); break;
    case Operation::head_loss: head_loss(frame); break;
    case Operation::head_backward: head_backward(frame); break;
    case Operation::head_end_backward: head_end_backward(frame); break;
    case Operation::mlp_backward: mlp_backward(frame); break;
    case Operation::attention_backward: attention_backward(frame); break;
    case Operation::block_begin_backward: block_begin_backward(frame); break;
    case Operation::embedding_backward: embedding_backward(frame); break;
    case Operation::block_again: block_again(frame); break;
    case Operation::attention_begin_forward: attention_begin_forward(frame); break;
    case Operation::mlp_begin_forward: mlp_begin_forward(frame); break;
    case Operation::head_begin_forward: head_begin_forward(frame); break;
    case Operation::mlp_begin_backward: mlp_begin_backward(frame); break;
    case Operation::attention_begin_backward: attention_begin_backward(frame); break;
    case Operation::embedding_begin_backward: embedding_begin_backward(frame); break;
    case Operation::mlp_begin_weights: mlp_begin_weights(frame); break;
    case Operation::attention_begin_weights: attention_begin_weights(frame); break;
    case Operation::mlp_backward_input: mlp_backward_input(frame); break;
    case Operation::mlp_backward_weights: mlp_backward_weights(frame); break;
    case Operation::attention_backward_input: attention_backward_input(frame); break;
    case Operation::attention_backward_weights: attention_backward_weights(frame); break;
    case Operation::head_backward_input: head_backward_input(frame); break;
    case Operation::head_backward_weights: head_backward_weights(frame); break;
  }
  FLOTILLA_ASSERT(frame.workspace.used() == model::workspace(setup_.model, frame.shape, task.operation, setup_.threads),
                  model::to_string(task.operation), " took ", frame.workspace.used().count, " bytes of workspace");
}

template <class E>
NormForward<E> Operations<E>::norm(const Frame& f, const E* x, E* y, float* stats, Parameter weight, Parameter bias) const {
  return {x, f.weight(weight), f.weight_if(!rms_, bias), y, stats, d_, static_cast<float>(setup_.model.norm_epsilon),
          setup_.model.norm_offset ? 1.0f : 0.0f};
}

template <class E>
void Operations<E>::normalize(const Frame& f, const NormForward<E>& norm) {
  for_shares(setup_.threads, f.rows, [&](int, Rows rows) { kernels_.norm_forward(norm, rows); });
}

template <class E>
void Operations<E>::copy_rows(const Frame& f, const E* from, E* to, std::int64_t width) const {
  for_shares(setup_.threads, f.rows,
             [&](int, Rows rows) { std::copy_n(from + rows.first * width, rows.count() * width, to + rows.first * width); });
}

template <class E>
E* Operations<E>::masked(const Frame& f, E* gradient) const {
  E* apart = setup_.model.dropout > 0 || setup_.model.output_norms ? f.workspace.template take<E>(f.n * d_) : nullptr;
  return stands_apart(f) ? apart : gradient;
}

template <class E>
void Operations<E>::rows_backward(const Frame& f, RowsBackward work) {
  const bool has_norm = work.norm.x, has_site = work.drop.gradient;
  const bool has_bias = has_site && work.has_bias;
  Workspace none{nullptr};
  work.norm.rms = rms_;
  work.norm.offset = setup_.model.norm_offset ? 1.0f : 0.0f;
  const ColumnSums norm_sums{has_norm ? f.workspace : none, setup_.threads, rms_ ? d_ : 2 * d_};
  const ColumnSums bias_sums{has_bias ? f.workspace : none, setup_.threads, d_};
  for_shares(setup_.threads, f.rows, [&](int share, Rows rows) {
    NormBackward<E> norm_work = work.norm;
    DropBackward<E> drop_work = work.drop;
    if (has_norm) norm_work.sums = norm_sums.start(share);
    if (has_bias) drop_work.sums = bias_sums.start(share);
    for_pieces(rows, [&](Rows piece) {
      if (has_norm) kernels_.norm_backward(norm_work, piece);
      if (has_site && drop_work.dropout.on) return kernels_.drop_backward(drop_work, piece);
      if (has_bias) kernels_.column_sums(drop_work.gradient, drop_work.sums, d_, piece);
    });
  });
  if (has_norm) norm_sums.add_to(f.gradient(work.norm_weight), 0, d_);
  if (has_norm && !rms_) norm_sums.add_to(f.gradient(work.norm_bias), d_, d_);
  if (has_bias) bias_sums.add_to(f.gradient(work.bias), 0, d_);
}

template <class E>
void Operations<E>::add_weight_gradient(const Frame& f, const ProductSpec& product, const void* gradient, const void* input,
                                        Parameter weight) {
  if (float* sum = f.gradient(weight)) products_.run(product, {.a = gradient, .b = input, .c = sum});
}

template <class E>
void Operations<E>::add_bias_gradient(const Frame& f, const E* gradient, std::int64_t width, Parameter bias) {
  const ColumnSums sums{f.workspace, setup_.threads, width};
  for_shares(setup_.threads, f.n, [&](int share, Rows rows) { kernels_.column_sums(gradient, sums.start(share), width, rows); });
  sums.add_to(f.gradient(bias), 0, width);
}

template class Operations<float>;
template class Operations<bfloat16>;
template class Operations<float16>;

}  // namespace flotilla::compute::cpu
