#include <algorithm>
#include <cstring>

#include "loss_runs.hpp"
#include "operations.hpp"

namespace flotilla::compute::cpu {

using program::Role;

namespace {

/// Rows whose losses one sum takes; sums are then added in order, so threads change nothing.
constexpr std::int64_t loss_parts = 64;

}  // namespace

template <class E>
HeadRows Operations<E>::head_rows(const Frame& f) const {
  const model::UnitRange mine = model::share(setup_.model.vocabulary, setup_.tensor_parallel, setup_.tensor_index);
  const Task& t = f.task;
  const float* gathered = t.operand<float>(Role::gathered_stats);
  return {t.operand<float>(Role::logits),
          model::logits_pitch(setup_.model, f.shape),
          vocabulary_,
          f.template at<std::int32_t>(Role::tokens),
          setup_.length,
          mine.first,
          t.operand<float>(Role::stats),
          gathered,
          setup_.tensor_parallel,
          f.n,
          t.loss_scale,
          static_cast<float>(setup_.model.logit_cap)};
}

/// This rank's rows of what the token embedding is multiplied with.
template <class E>
const E* Operations<E>::head_rows_forward(const Frame& f) {
  const model::HeadLayout layout = model::head_layout(setup_.model, f.shape);
  const E* input = f.at(Role::input);
  if (setup_.model.final_norm) {
    E* normed = f.saved(layout.normed);
    normalize(f,
              norm(f, input, normed, f.template saved<float>(layout.norm_stats), Parameter::head_norm_weight, Parameter::head_norm_bias));
    input = normed;
  }
  if (!setup_.model.projects()) return input;
  E* projected = f.saved(layout.projected);
  if (f.rows > 0)
    multiply(linear_forward(setup_.precision, f.rows, w_, d_), {.a = input, .b = f.weight(Parameter::project_out), .c = projected});
  return projected;
}

template <class E>
void Operations<E>::head_forward(const Frame& f) {
  if (!shares_) head_rows_forward(f);
  const HeadRows rows = head_rows(f);
  ProductSpec to_logits = linear_forward(setup_.precision, f.n, vocabulary_, w_);
  to_logits.c_fp32 = true;
  to_logits.c_row = rows.pitch;
  multiply(to_logits, {.a = head_input(f), .b = f.weight(head_token_embedding_), .c = f.template at<float>(Role::logits)});
  for_shares(setup_.threads, f.n, [&](int, Rows share) { kernels_.head_stats(rows, share); });
}

/// Adds what these rows give.
template <class E>
void Operations<E>::add_loss(const Frame& f, Rows of, double& loss, double& counted) {
  const HeadRows rows = head_rows(f);
  std::array<RowLossSum, loss_parts> sums{};
  for_shares(setup_.threads, loss_parts, [&](int, Rows parts) {
    for (std::int64_t p = parts.first; p < parts.last; ++p) {
      const model::UnitRange range = model::share(of.last - of.first, loss_parts, static_cast<int>(p));
      sums[static_cast<std::size_t>(p)] = kernels_.head_loss(rows, {of.first + range.first, of.first + range.last});
    }
  });
  for (const RowLossSum& sum : sums) {
    loss += sum.loss;
    counted += static_cast<double>(sum.counted);
  }
}

template <class E>
void Operations<E>::head_loss(const Frame& f) {
  double* scalars = f.template at<double>(Role::scalars);
  for_loss_runs(f.task, [&](const LossRun& run) {
    add_loss(f, {std::int64_t{run.first} * setup_.length, std::int64_t{run.last} * setup_.length}, scalars[run.loss], scalars[run.counted]);
  });
}

template <class E>
void Operations<E>::score_targets(const Task& task, std::span<TokenScore> scores) {
  const Frame f{*this, task};
  FLOTILLA_ASSERT(static_cast<std::int64_t>(scores.size()) == f.n, scores.size(), " scores for ", f.n, " tokens");
  const HeadRows rows = head_rows(f);
  for_shares(setup_.threads, f.n, [&](int, Rows share) { kernels_.head_scores(rows, scores.data(), share); });
}

template <class E>
void Operations<E>::logits_gradient(const Frame& f) {
  const HeadRows rows = head_rows(f);
  for_shares(setup_.threads, f.n, [&](int, Rows share) { kernels_.head_gradient(rows, share); });
}

template <class E>
void Operations<E>::head_end_backward(const Frame& f) {
  const model::HeadLayout layout = model::head_layout(setup_.model, f.shape);
  const model::Config& c = setup_.model;
  const E *input = f.at(Role::input), *normed_gradient = f.own(Role::partial, w_);
  E* gradient = f.at(Role::gradient);
  if (c.projects()) {
    E* before = c.final_norm ? f.take(f.shape.rows() * d_) : gradient;
    if (f.rows > 0) project_back(f, normed_gradient, c.final_norm ? f.saved(layout.normed) : input, before);
    normed_gradient = before;
  }
  if (!c.final_norm) {
    if (normed_gradient != gradient) std::memcpy(gradient, normed_gradient, sizeof(E) * static_cast<std::size_t>(f.rows * d_));
    return;
  }
  RowsBackward rows;
  rows.norm = {normed_gradient, nullptr, input, f.weight(Parameter::head_norm_weight), nullptr, f.template saved<float>(layout.norm_stats),
               gradient,        nullptr, d_};
  rows.norm_weight = Parameter::head_norm_weight;
  rows.norm_bias = Parameter::head_norm_bias;
  rows_backward(f, rows);
}

#define FLOTILLA_INSTANTIATE(E)                                                   \
  template HeadRows Operations<E>::head_rows(const Frame&) const;                 \
  template const E* Operations<E>::head_rows_forward(const Frame&);               \
  template void Operations<E>::head_forward(const Frame&);                        \
  template void Operations<E>::add_loss(const Frame&, Rows, double&, double&);    \
  template void Operations<E>::head_loss(const Frame&);                           \
  template void Operations<E>::score_targets(const Task&, std::span<TokenScore>); \
  template void Operations<E>::logits_gradient(const Frame&);                     \
  template void Operations<E>::head_end_backward(const Frame&);
FLOTILLA_INSTANTIATE(float)
FLOTILLA_INSTANTIATE(bfloat16)
FLOTILLA_INSTANTIATE(float16)
#undef FLOTILLA_INSTANTIATE

}  // namespace flotilla::compute::cpu
