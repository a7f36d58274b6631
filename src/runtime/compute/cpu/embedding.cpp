#include <cstring>

#include "operations.hpp"

namespace flotilla::compute::cpu {

using program::Role;

namespace {

/// The input token of row n: tokens are (sequences, length + 1), the last of each sequence is a target only. As an input, ~token is the
/// token.
std::int64_t input_token(const std::int32_t* tokens, std::int64_t length, std::int64_t row) {
  const std::int32_t token = tokens[row / length * (length + 1) + row % length];
  return token < 0 ? ~token : token;
}

/// Calls f(first column, columns) of `width`, by whole cache lines, on all threads. Threads take columns, not tokens: each row's sum runs
/// over the tokens in order, whatever the number of threads.
template <class F>
void for_columns(int threads, std::int64_t width, const F& f) {
  constexpr std::int64_t line = 32;
  for_shares(threads, (width + line - 1) / line, [&](int, Rows lines) {
    const std::int64_t first = lines.first * line, count = std::min(lines.last * line, width) - first;
    if (count > 0) f(first, count);
  });
}

}  // namespace

template <class E>
void Operations<E>::embedding_forward(const Frame& f) {
  const std::int32_t* tokens = f.template at<std::int32_t>(Role::tokens);
  const E* token_embedding = f.weight(Parameter::token_embedding);
  E* partial = f.at(Role::partial);
  const model::UnitRange mine = model::share(setup_.model.vocabulary, setup_.tensor_parallel, setup_.tensor_index);
  const std::size_t row_bytes = sizeof(E) * static_cast<std::size_t>(w_);
  const bool scaled = setup_.model.scaled_embedding;
  for_shares(setup_.threads, f.n, [&](int, Rows rows) {
    for (std::int64_t row = rows.first; row < rows.last; ++row) {
      const std::int64_t token = input_token(tokens, setup_.length, row) - mine.first;
      if (token >= 0 && token < mine.count() && scaled) {
        kernels_.multiply(token_embedding + token * w_, embedding_scale_, partial + row * w_, w_);
      } else if (token >= 0 && token < mine.count()) {
        std::memcpy(partial + row * w_, token_embedding + token * w_, row_bytes);
      } else {
        std::memset(static_cast<void*>(partial + row * w_), 0, row_bytes);
      }
    }
  });
}

template <class E>
void Operations<E>::embedding_end_forward(const Frame& f) {
  const E* words = f.own(Role::partial, w_);
  E* output = f.at(Role::output);
  if (f.rows == 0) return;
  const model::EmbeddingLayout layout = model::embedding_layout(setup_.model, f.shape);
  if (setup_.model.projects()) {
    E* kept = f.saved(layout.words);
    std::memcpy(kept, words, sizeof(E) * static_cast<std::size_t>(f.rows * w_));
    multiply(linear_forward(setup_.precision, f.rows, d_, w_), {.a = kept, .b = f.weight(Parameter::project_in), .c = output});
    words = output;
  }
  if (setup_.model.embedding_norm) {
    E* kept = f.saved(layout.words);
    copy_rows(f, words, kept, d_);
    normalize(f, norm(f, kept, output, f.template saved<float>(layout.norm_stats), Parameter::embedding_norm_weight,
                      Parameter::embedding_norm_bias));
    words = output;
  }
  const E* positions =
      !setup_.model.has_position_table() ? nullptr : f.weight(Parameter::position) + (setup_.model.position_offset + f.task.cached) * d_;
  const AddResidual<E> add{nullptr, words, positions, d_, output, d_, dropout(setup_, f.task, DropSite::embedding), f.place(), f.starts()};
  for_shares(setup_.threads, f.rows, [&](int, Rows rows) { kernels_.add_residual(add, rows); });
}

/// Back through dropout, positions, norm and projection to the gradient of the words: at `words` where it projects, else in place.
template <class E>
E* Operations<E>::before_embedding(const Frame& f, E* words) {
  E* gradient = f.at(Role::gradient);
  const DropBackward<E> drop{gradient, gradient, nullptr, d_, dropout(setup_, f.task, DropSite::embedding), f.place()};
  if (drop.dropout.on) for_shares(setup_.threads, f.rows, [&](int, Rows rows) { kernels_.drop_backward(drop, rows); });
  if (setup_.model.has_position_table()) position_gradient(f, gradient);
  if (setup_.model.embedding_norm) embedding_norm_backward(f, gradient);
  if (!setup_.model.projects()) return gradient;
  if (f.rows == 0) return words;
  add_weight_gradient(f, linear_weight_gradient(setup_.precision, f.rows, d_, w_), gradient, f.at(Role::saved), Parameter::project_in);
  multiply(linear_input_gradient(setup_.precision, f.rows, d_, w_), {.a = gradient, .b = f.weight(Parameter::project_in), .c = words});
  return words;
}

template <class E>
void Operations<E>::embedding_norm_backward(const Frame& f, E* gradient) {
  const model::EmbeddingLayout layout = model::embedding_layout(setup_.model, f.shape);
  RowsBackward rows;
  rows.norm = {gradient,
               nullptr,
               f.saved(layout.words),
               f.weight(Parameter::embedding_norm_weight),
               nullptr,
               f.template saved<float>(layout.norm_stats),
               gradient,
               nullptr,
               d_};
  rows.norm_weight = Parameter::embedding_norm_weight;
  rows.norm_bias = Parameter::embedding_norm_bias;
  rows_backward(f, rows);
}

template <class E>
void Operations<E>::position_gradient(const Frame& f, const E* gradient) {
  float* table = f.gradient(Parameter::position);
  if (table == nullptr) return;
  float* positions = table + setup_.model.position_offset * d_;
  if (f.starts() != nullptr) return document_position_gradient(f, gradient, positions);
  for_shares(setup_.threads, setup_.length, [&](int, Rows rows) {
    for (std::int64_t position = rows.first; position < rows.last; ++position)
      for (std::int64_t sequence = 0; sequence < f.task.sequences; ++sequence) {
        const std::int64_t row = sequence * setup_.length + position - f.first_row;
        if (row >= 0 && row < f.rows) kernels_.add_to_floats(gradient + row * d_, 1, positions + position * d_, d_);
      }
  });
}

template <class E>
void Operations<E>::document_position_gradient(const Frame& f, const E* gradient, float* positions) {
  for_columns(setup_.threads, d_, [&](std::int64_t first, std::int64_t count) {
    for (std::int64_t row = 0; row < f.rows; ++row) {
      const std::int64_t token = f.first_row + row, position = token % setup_.length - f.starts()[token];
      kernels_.add_to_floats(gradient + row * d_ + first, 1, positions + position * d_ + first, count);
    }
  });
}

template <class E>
void Operations<E>::token_embedding_gradient(const Frame& f, const E* gradient) {
  const std::int32_t* tokens = f.template at<std::int32_t>(Role::tokens);
  float* token_embedding = f.gradient(Parameter::token_embedding);
  if (token_embedding == nullptr) return;
  const model::UnitRange mine = model::share(setup_.model.vocabulary, setup_.tensor_parallel, setup_.tensor_index);
  for_columns(setup_.threads, w_, [&](std::int64_t first, std::int64_t count) {
    for (std::int64_t row = 0; row < f.n; ++row) {
      const std::int64_t token = input_token(tokens, setup_.length, row) - mine.first;
      if (token >= 0 && token < mine.count())
        kernels_.add_to_floats(gradient + row * w_ + first, embedding_scale_, token_embedding + token * w_ + first, count);
    }
  });
}

#define FLOTILLA_INSTANTIATE(E)                                                            \
  template void Operations<E>::embedding_forward(const Frame&);                            \
  template void Operations<E>::embedding_end_forward(const Frame&);                        \
  template E* Operations<E>::before_embedding(const Frame&, E*);                           \
  template void Operations<E>::embedding_norm_backward(const Frame&, E*);                  \
  template void Operations<E>::position_gradient(const Frame&, const E*);                  \
  template void Operations<E>::document_position_gradient(const Frame&, const E*, float*); \
  template void Operations<E>::token_embedding_gradient(const Frame&, const E*);
FLOTILLA_INSTANTIATE(float)
FLOTILLA_INSTANTIATE(bfloat16)
FLOTILLA_INSTANTIATE(float16)
#undef FLOTILLA_INSTANTIATE

}  // namespace flotilla::compute::cpu
