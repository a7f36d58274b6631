#pragma once
#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cuda/cudnn_api.hpp"

/// A libcudnn.so.9 for tests: the backend API as its documentation says, for graphs of element-wise operations, products, reductions and
/// reshapes. A graph is computed operation by operation: its meaning is that of the operations, and nothing here knows attention.
///
/// FLOTILLA_STANDIN_CUDNN is one fault: `version` (9.5), `refuses` (the device), `engines` (none for a graph), `workspace` (1 TiB), `fails`
/// (an execution); in forward graphs `mask` and `window` (off by one) and `statistics` (their sign); in backward graphs `back-mask`,
/// `back-window`, `scale` (left out), `key` (the gradient of keys from the wrong rows), `noise` (other bits each time); `slow`.
namespace flotilla::compute::cuda::cudnn {

struct HandleObject {
  void* stream = nullptr;
};

/// What was set, byte by byte.
struct BackendDescriptorObject {
  int kind = 0;
  bool finished = false;
  std::map<int, std::vector<std::byte>> values;
  std::shared_ptr<const struct OperationGraph> graph;  ///< of a plan

  template <class T>
  std::vector<T> all(int attribute) const {
    const auto found = values.find(attribute);
    if (found == values.end()) return {};
    std::vector<T> list(found->second.size() / sizeof(T));
    std::memcpy(list.data(), found->second.data(), list.size() * sizeof(T));
    return list;
  }
  template <class T>
  T one(int attribute, T otherwise = {}) const {
    const auto list = all<T>(attribute);
    return list.empty() ? otherwise : list.front();
  }
};

inline bool faulty(const char* fault) {
  const char* named = std::getenv("FLOTILLA_STANDIN_CUDNN");
  return named != nullptr && std::string{named} == fault;
}

/// A tensor of a graph; strides in elements.
struct GraphTensor {
  std::int64_t id = 0;
  int type = 0;
  std::array<std::int64_t, 4> extents{}, strides{};
  bool is_virtual = false, by_value = false;
};
/// One operation; ids of tensors, -1: none.
struct GraphOperation {
  int kind = 0, mode = 0;
  std::int64_t axis = -1, x = -1, b = -1, t = -1, y = -1;
};
/// Modes of the faults.
inline constexpr int greater_off_by_one = 1302, greater_or_equal_off_by_one = 1303, negated_sum = 1000;

struct OperationGraph {
  std::map<std::int64_t, GraphTensor> tensors;
  std::vector<GraphOperation> operations;
};

/// Copies a graph's descriptors; an empty graph where one is not as documented.
OperationGraph graph_of(const BackendDescriptorObject& operation_graph);
/// `memory`: of tensors that are not virtual, by id, as the host sees it.
void compute(const OperationGraph&, const std::map<std::int64_t, void*>& memory);

}  // namespace flotilla::compute::cuda::cudnn
