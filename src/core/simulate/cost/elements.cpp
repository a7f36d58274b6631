#include "elements.hpp"

#include <numeric>

#include "flotilla/plan/shard_layout.hpp"

namespace flotilla::simulate {

Elements::Elements(const model::Config& model, int tensor_parallel) : own(static_cast<std::size_t>(model.layers()), 0) {
  for (const auto& tensor : model::tensors(model)) {
    const auto elements = plan::shard_elements(tensor, tensor_parallel, 0);
    if (tensor.tied_layer >= 0)
      token_embedding += elements;
    else
      own[static_cast<std::size_t>(tensor.layer)] += elements;
  }
}

std::int64_t Elements::of_layers(int first, int last) const {
  const bool has_token_embedding = first == 0 || last == static_cast<int>(own.size());
  return std::accumulate(own.begin() + first, own.begin() + last, has_token_embedding ? token_embedding : std::int64_t{0});
}

const Elements& ElementTables::of(const model::Config& model, int tensor_parallel) {
  if (model_ != model) {
    tables_.clear();
    model_ = model;
  }
  return tables_.try_emplace(tensor_parallel, model, tensor_parallel).first->second;
}

}  // namespace flotilla::simulate
