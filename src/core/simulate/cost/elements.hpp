#pragma once
#include <cstdint>
#include <map>
#include <vector>

#include "flotilla/model/tensors.hpp"

namespace flotilla::simulate {

/// Elements that tensor index 0 of a group holds, by layer; the token embedding apart, because two stages may share it.
struct Elements {
  Elements(const model::Config&, int tensor_parallel);
  std::vector<std::int64_t> own;
  std::int64_t token_embedding = 0;
  std::int64_t of_layers(int first, int last) const;
};

/// Elements of one model by tensor-parallel degree, computed once each.
class ElementTables {
 public:
  const Elements& of(const model::Config&, int tensor_parallel);

 private:
  model::Config model_;
  std::map<int, Elements> tables_;
};

}  // namespace flotilla::simulate
