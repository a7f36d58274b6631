#pragma once
#include <vector>

#include "flotilla/model/tensors.hpp"

/// Private: which tensors are not trained.
namespace flotilla::model {

/// Tensor::trained is false where one of Config::frozen matches the name, and where there are adapters and the tensor is none.
void freeze(const Config&, std::vector<Tensor>&);

}  // namespace flotilla::model
