#include "check.hpp"

namespace flotilla::compute::cuda {
namespace {

template <class E>
void all(hostgpu::Order order) {
  constexpr float scale = 4;  // exact, so that sums are compared to the bit
  // More rows than a block has threads, few tokens: most rows are not the first of theirs, and some belong to other ranks.
  constexpr int sequences = 5, length = 33, rows = sequences * length, vocabulary = 9, first_token = 2, held = 5, width = 40;
  std::mt19937_64 random{1};
  Buffer<std::int32_t> tokens{sequences * (length + 1)};
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const auto token = static_cast<std::int32_t>(random() % vocabulary);
    tokens[i] = i % 3 == 1 ? ~token : token;  // as a target it does not count; as an input it does
  }
  Buffer<E> table{held * width}, gathered{rows * width}, gradient{rows * width};
  Buffer<float> words{held * width}, positions{length * width}, of_documents{length * width};
  Buffer<std::int32_t> starts{rows};
  for (int row = 0; row < rows; ++row)
    starts[static_cast<std::size_t>(row)] = row % length < 7 ? 0 : row % length < 8 + row / length ? 7 : 8 + row / length;
  table.normal(random), gradient.normal(random);
  words.fill(0.25f), positions.fill(0.25f), of_documents.fill(0.25f);
  hostgpu::run({rows}, {row_threads}, 0, order,
               [&] { Kernels<E>::gather_tokens(gathered, table, tokens, length, first_token, held, width, scale); });
  hostgpu::run({rows}, {row_threads}, 0, order,
               [&] { Kernels<E>::scatter_tokens(words, gradient, tokens, rows, length, first_token, held, width, scale); });
  constexpr int first_row = 20, held_rows = 60;  // of a rank that holds part of the tokens
  hostgpu::run({length}, {row_threads}, 0, order,
               [&] { Kernels<E>::scatter_positions(positions, gradient, nullptr, sequences, length, first_row, held_rows, width); });
  hostgpu::run({length}, {row_threads}, 0, order,
               [&] { Kernels<E>::scatter_positions(of_documents, gradient, starts, sequences, length, first_row, held_rows, width); });
  Comparison gather{std::string{"gather_tokens"} + suffix<E>}, scatter{std::string{"scatter_tokens"} + suffix<E>};
  Comparison place{std::string{"scatter_positions"} + suffix<E>}, in_document{std::string{"scatter_positions of documents"} + suffix<E>};
  std::vector<float> sums(held * width, 0.25f), at_positions(length * width, 0.25f), at_starts(length * width, 0.25f);
  for (int row = 0; row < rows; ++row) {
    const int marked = tokens[static_cast<std::size_t>(row / length * (length + 1) + row % length)];
    const int token = (marked < 0 ? ~marked : marked) - first_token;
    const bool mine = token >= 0 && token < held;
    for (int c = 0; c < width; ++c) {
      const auto at = static_cast<std::size_t>(row * width + c);
      gather.add(gathered.at(at), mine ? 4 * table.at(static_cast<std::size_t>(token * width + c)) : 0, 0);
      if (mine) sums[static_cast<std::size_t>(token * width + c)] += scale * static_cast<float>(gradient.at(at));
      const int token_of_rank = row + first_row, position = token_of_rank % length;
      if (row < held_rows)
        at_starts[static_cast<std::size_t>((position - starts[static_cast<std::size_t>(token_of_rank)]) * width + c)] +=
            static_cast<float>(gradient.at(at));
      if (row < held_rows)
        at_positions[static_cast<std::size_t>((row + first_row) % length * width + c)] += static_cast<float>(gradient.at(at));
    }
  }
  // To the bit: the order is that of the rows.
  for (std::size_t i = 0; i < sums.size(); ++i) scatter.add(words.at(i), value(sums[i]), 0);
  for (std::size_t i = 0; i < at_positions.size(); ++i) place.add(positions.at(i), value(at_positions[i]), 0);
  for (std::size_t i = 0; i < at_starts.size(); ++i) in_document.add(of_documents.at(i), value(at_starts[i]), 0);
}

void run_checks(hostgpu::Order order) {
  all<float>(order);
  all<bfloat16>(order);
  all<float16>(order);
}

Checks registered{"tokens", &run_checks};

}  // namespace
}  // namespace flotilla::compute::cuda
