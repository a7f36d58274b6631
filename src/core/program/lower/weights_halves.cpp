#include "weights_halves.hpp"

#include <functional>
#include <map>
#include <utility>

#include "class_instructions.hpp"

namespace flotilla::program {

using model::Operation;

namespace {

bool trains(const ClassDraft& draft, Operation half, int layer) {
  return model::trains_products(draft.in.plan.model, draft.in.tensors, half, layer);
}

/// Of a block's operation. Where tokens are shared, `gradient` and `rows` hold what was gathered for it.
void add_weights_half(ClassDraft& draft, const ChunkDraft& chunk, Operation operation, int layer, int gradient, int rows) {
  const bool mlp = operation == Operation::mlp_backward_weights;
  const bool reads_input = !mlp && !shares_tokens(draft) && draft.in.plan.model.norm == model::NormPlacement::post;
  add_compute(draft, chunk, operation, layer,
              joined({{Role::saved, saved_of(chunk, layer), Mode::read},
                      {Role::kept, mlp ? kept_of(chunk, layer) : -1, Mode::read},
                      {Role::again, again_of(draft, chunk, layer), Mode::read},
                      {Role::input, reads_input ? activation_into(chunk, layer) : -1, Mode::read},
                      {Role::partial, gradient, Mode::read},
                      {Role::gathered, rows, Mode::read}},
                     {weights_of(draft, chunk, layer, true)}));
}

/// The rows of a gradient and of an input, gathered for a product's weights; returns what the product waits for.
std::vector<Wait> add_weights_begin(ClassDraft& draft, const ChunkDraft& chunk, Operation operation, int layer, int gradient, int rows) {
  const bool reads_input = operation == Operation::attention_begin_weights && draft.in.plan.model.norm == model::NormPlacement::post;
  add_begin(draft, chunk, operation, layer,
            joined({{Role::saved, saved_of(chunk, layer), Mode::read},
                    {Role::kept, operation == Operation::mlp_begin_weights ? kept_of(chunk, layer) : -1, Mode::read},
                    {Role::again, again_of(draft, chunk, layer), Mode::read},
                    {Role::input, reads_input ? activation_into(chunk, layer) : -1, Mode::read},
                    {Role::partial, gradient, Mode::write},
                    {Role::gathered, rows, Mode::write}},
                   {}),
            false, {gradient, rows});
  return std::exchange(draft.next_waits, {});
}

/// While one operation's weights are made, what the next one needs is gathered: in two pairs of buffers, by turns.
void add_shared_weights_halves(ClassDraft& draft, const ChunkDraft& chunk) {
  using enum Operation;
  struct Half {
    Operation begin, weights;
    int layer = 0;
  };
  std::vector<Half> halves;
  for (int layer = last_block(draft, chunk); layer >= first_block_back(draft, chunk); --layer)
    for (const auto& [begin, weights] :
         {std::pair{mlp_begin_weights, mlp_backward_weights}, {attention_begin_weights, attention_backward_weights}})
      if (trains(draft, weights, layer)) halves.push_back({begin, weights, layer});
  const auto gradient = [&](std::size_t i) { return i % 2 == 0 ? draft.buffers.partial : draft.buffers.partial_ahead; };
  const auto rows = [&](std::size_t i) { return i % 2 == 0 ? draft.buffers.gathered_rows : draft.buffers.rows_ahead; };
  const auto begin = [&](std::size_t i) {
    return i < halves.size() ? add_weights_begin(draft, chunk, halves[i].begin, halves[i].layer, gradient(i), rows(i))
                             : std::vector<Wait>{};
  };
  std::vector<Wait> ready = begin(0);
  for (std::size_t i = 0; i < halves.size(); ++i) {
    auto next = begin(i + 1);
    draft.next_waits = std::move(ready);
    add_weights_half(draft, chunk, halves[i].weights, halves[i].layer, gradient(i), rows(i));
    ready = std::move(next);
  }
}

}  // namespace

void add_weights_halves(ClassDraft& draft, ChunkDraft& chunk) {
  const auto& model = draft.in.plan.model;
  const int head = model.layers() - 1;
  if (has_head(draft, chunk) && trains(draft, Operation::head_backward_weights, head))
    add_compute(draft, chunk, Operation::head_backward_weights, head,
                joined({{Role::logits, draft.buffers.logits, Mode::read},
                        {Role::input, activation_into(chunk, head), Mode::read},
                        {Role::gathered, draft.buffers.gathered_rows, Mode::read},
                        {Role::saved, draft.buffers.head_saved, Mode::read}},
                       {weights_of(draft, chunk, head, !model.tied_head), token_embedding_table(draft, true)}));
  if (draft.in.kind.order.deferred > 0) draft.phase = &chunk.weights;
  if (shares_tokens(draft)) return add_shared_weights_halves(draft, chunk);
  for (int layer = last_block(draft, chunk); layer >= first_block_back(draft, chunk); --layer)
    for (const auto half : {Operation::mlp_backward_weights, Operation::attention_backward_weights})
      if (trains(draft, half, layer)) add_weights_half(draft, chunk, half, layer, -1, -1);
}

std::vector<std::vector<int>> weights_by_layer(const ClassDraft& draft) {
  std::map<int, std::vector<int>, std::greater<>> found;
  int layer_of = -1;  // gathers follow the operation whose rows they gather
  for (int instruction : draft.weights) {
    if (const auto* operation = draft.out.instructions[at(instruction)].as<LayerOperation>()) layer_of = operation->layer;
    found[layer_of].push_back(instruction);
  }
  std::vector<std::vector<int>> layers;
  for (auto& [layer, instructions] : found) layers.push_back(std::move(instructions));
  return layers;
}

}  // namespace flotilla::program
