// The weights' halves of split backward passes (zero_bubble.hpp).
#include <functional>
#include <map>
#include <utility>

#include "class_builder.hpp"

namespace flotilla::program {

using model::Operation;

/// The head's at once, since deferred ones would need logits each; the blocks' in a phase of their own where they are deferred.
void ClassBuilder::add_weights_halves() {
  const auto& model = in_.plan.model;
  if (has_head()) {
    const int head = model.layers() - 1;
    add_compute(Operation::head_backward_weights, head,
                joined({{Role::logits, logits_, Mode::read},
                        {Role::input, activation(head), Mode::read},
                        {Role::gathered, gathered_rows_, Mode::read},
                        {Role::saved, head_saved_, Mode::read}},
                       {weights(head, !model.tied_head), word(true)}));
  }
  if (in_.kind.order.deferred > 0) phase_ = &weights_;
  if (shares()) return add_shared_weights_halves();
  for (int layer = last_block(); layer >= first_block(); --layer) {
    add_weights_half(Operation::mlp_backward_weights, layer, -1, -1);
    add_weights_half(Operation::attention_backward_weights, layer, -1, -1);
  }
}

/// Of a block's operation. Where tokens are shared, `gradient` and `rows` hold what was gathered for it.
void ClassBuilder::add_weights_half(Operation operation, int layer, int gradient, int rows) {
  const bool mlp = operation == Operation::mlp_backward_weights;
  const bool reads_input = !mlp && !shares() && in_.plan.model.norm == model::NormPlacement::post;
  add_compute(operation, layer,
              joined({{Role::saved, saved(layer), Mode::read},
                      {Role::kept, mlp ? kept(layer) : -1, Mode::read},
                      {Role::again, again(layer), Mode::read},
                      {Role::input, reads_input ? activation(layer) : -1, Mode::read},
                      {Role::partial, gradient, Mode::read},
                      {Role::gathered, rows, Mode::read}},
                     {weights(layer, true)}));
}

/// The rows of a gradient and of an input, gathered for a product's weights; returns what the product waits for.
std::vector<Wait> ClassBuilder::add_weights_begin(Operation operation, int layer, int gradient, int rows) {
  const bool reads_input = operation == Operation::attention_begin_weights && in_.plan.model.norm == model::NormPlacement::post;
  add_begin(operation, layer,
            joined({{Role::saved, saved(layer), Mode::read},
                    {Role::kept, operation == Operation::mlp_begin_weights ? kept(layer) : -1, Mode::read},
                    {Role::again, again(layer), Mode::read},
                    {Role::input, reads_input ? activation(layer) : -1, Mode::read},
                    {Role::partial, gradient, Mode::write},
                    {Role::gathered, rows, Mode::write}},
                   {}),
            false, {gradient, rows});
  return std::exchange(next_waits_, {});
}

/// While one operation's weights are made, what the next one needs is gathered: in two pairs of buffers, by turns.
void ClassBuilder::add_shared_weights_halves() {
  using enum Operation;
  struct Half {
    Operation begin, weights;
    int layer = 0;
  };
  std::vector<Half> halves;
  for (int layer = last_block(); layer >= first_block(); --layer) {
    halves.push_back({mlp_begin_weights, mlp_backward_weights, layer});
    halves.push_back({attention_begin_weights, attention_backward_weights, layer});
  }
  const auto gradient = [&](std::size_t i) { return i % 2 == 0 ? partial_ : partial_ahead_; };
  const auto rows = [&](std::size_t i) { return i % 2 == 0 ? gathered_rows_ : rows_ahead_; };
  const auto begin = [&](std::size_t i) {
    return i < halves.size() ? add_weights_begin(halves[i].begin, halves[i].layer, gradient(i), rows(i)) : std::vector<Wait>{};
  };
  std::vector<Wait> ready = begin(0);
  for (std::size_t i = 0; i < halves.size(); ++i) {
    auto next = begin(i + 1);
    next_waits_ = std::move(ready);
    add_weights_half(halves[i].weights, halves[i].layer, gradient(i), rows(i));
    ready = std::move(next);
  }
}

/// In the order in which backward passes go through the layers.
std::vector<std::vector<int>> ClassBuilder::weights_by_layer() const {
  std::map<int, std::vector<int>, std::greater<>> found;
  for (int site : weights_) found[out_.sites[static_cast<std::size_t>(site)].layer].push_back(site);
  std::vector<std::vector<int>> layers;
  for (auto& [layer, sites] : found) layers.push_back(std::move(sites));
  return layers;
}

}  // namespace flotilla::program
