#pragma once
#include <string>
#include <vector>

#include "flotilla/model/tensors.hpp"

/// Private: which tensors are not trained.
namespace flotilla::model {

/// Tensor::trained is false where one of the patterns matches the name.
void freeze(const std::vector<std::string>& patterns, std::vector<Tensor>&);

}  // namespace flotilla::model
