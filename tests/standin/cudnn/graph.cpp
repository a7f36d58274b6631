// Graphs: from descriptors, and their values in fp32 as tensors without gaps.
#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <thread>

#include "descriptors.hpp"
#include "flotilla/base/half.hpp"

namespace flotilla::compute::cuda::cudnn {
namespace {

using Extents = std::array<std::int64_t, 4>;
using Place = std::array<std::int64_t, 4>;

float read(const void* at, int type, std::int64_t i) {
  if (type == type_fp32) return static_cast<const float*>(at)[i];
  const std::uint16_t bits = static_cast<const std::uint16_t*>(at)[i];
  return type == type_fp16 ? half_to_float(bits) : std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

std::uint16_t halved(float v, int type) {
  if (type == type_fp16) return half_from_float(v);
  const auto bits = std::bit_cast<std::uint32_t>(v);
  return static_cast<std::uint16_t>(v != v ? 0x7fc0u : (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

/// As a tensor of this type holds it.
float held(float v, int type) {
  if (type != type_fp16 && type != type_bf16) return v;
  const std::uint16_t bits = halved(v, type);
  return read(&bits, type, 0);
}

std::int64_t count(const Extents& e) { return e[0] * e[1] * e[2] * e[3]; }

/// Values of a tensor in the order of its places.
struct Values {
  Extents extents{};
  std::vector<float> at;

  std::int64_t index(const Place& p) const { return ((p[0] * extents[1] + p[1]) * extents[2] + p[2]) * extents[3] + p[3]; }
  /// Axes of one place are the same everywhere; fewer heads than asked for are shared by groups of them.
  float seen(Place p, const Extents& by) const {
    for (std::size_t a = 0; a < 4; ++a) p[a] = p[a] * extents[a] / by[a];
    return at[static_cast<std::size_t>(index(p))];
  }
};

template <class Visit>
void each(const Extents& e, Visit visit) {
  for (std::int64_t i = 0; i < e[0]; ++i)
    for (std::int64_t j = 0; j < e[1]; ++j)
      for (std::int64_t k = 0; k < e[2]; ++k)
        for (std::int64_t l = 0; l < e[3]; ++l) visit(Place{i, j, k, l});
}

std::int64_t offset(const GraphTensor& t, const Place& p) {
  return p[0] * t.strides[0] + p[1] * t.strides[1] + p[2] * t.strides[2] + p[3] * t.strides[3];
}

class Computation {
 public:
  Computation(const OperationGraph& graph, const std::map<std::int64_t, void*>& memory) : graph_{graph}, memory_{memory} {}

  void run() {
    for (const GraphOperation& operation : graph_.operations) {
      const GraphTensor& to = graph_.tensors.at(operation.y);
      Values y{to.extents, std::vector<float>(static_cast<std::size_t>(count(to.extents)))};
      fill(operation, y);
      for (float& v : y.at) v = held(v, to.type);
      if (!to.is_virtual) store(to, y);
      values_[operation.y] = std::move(y);
    }
  }

 private:
  const Values& value(std::int64_t id) {
    const auto found = values_.find(id);
    if (found != values_.end()) return found->second;
    const GraphTensor& t = graph_.tensors.at(id);
    Values v{t.extents, {}};
    v.at.reserve(static_cast<std::size_t>(count(t.extents)));
    each(t.extents, [&](const Place& p) { v.at.push_back(read(memory_.at(id), t.type, offset(t, p))); });
    return values_[id] = std::move(v);
  }

  void store(const GraphTensor& t, const Values& v) {
    each(t.extents, [&](const Place& p) {
      const float one = v.at[static_cast<std::size_t>(v.index(p))];
      if (t.type == type_fp32)
        static_cast<float*>(memory_.at(t.id))[offset(t, p)] = one;
      else
        static_cast<std::uint16_t*>(memory_.at(t.id))[offset(t, p)] = halved(one, t.type);
    });
  }

  void fill(const GraphOperation& o, Values& y) {
    switch (o.kind) {
      case kind::pointwise_operation: return element_wise(o, y);
      case kind::matmul_operation: return multiply(value(o.x), value(o.b), y);
      case kind::reduction_operation: return reduce(o.mode, value(o.x), y);
      default: return reshape(o, y);
    }
  }

  void element_wise(const GraphOperation& o, Values& y) {
    const Values& x = value(o.x);
    const Values* const b = o.b >= 0 ? &value(o.b) : nullptr;
    const Values* const t = o.t >= 0 ? &value(o.t) : nullptr;
    std::size_t i = 0;
    each(y.extents, [&](const Place& p) {
      const float first = x.seen(p, y.extents), second = b ? b->seen(p, y.extents) : 0;
      y.at[i++] = o.mode == pointwise::index    ? static_cast<float>(p[static_cast<std::size_t>(o.axis)])
                  : o.mode == pointwise::select ? (t->seen(p, y.extents) != 0 ? first : second)
                                                : element(o.mode, first, second);
    });
  }

  static float element(int mode, float x, float b) {
    switch (mode) {
      case pointwise::add: return x + b;
      case pointwise::subtract: return x - b;
      case pointwise::multiply: return x * b;
      case pointwise::divide: return x / b;
      case pointwise::exponential: return std::exp(x);
      case pointwise::logarithm: return std::log(x);
      case pointwise::greater: return x > b;
      case pointwise::greater_or_equal: return x >= b;
      case greater_off_by_one: return x >= b;
      case greater_or_equal_off_by_one: return x + 1 >= b;
      case negated_sum: return -(x + b);
      default: return x;
    }
  }

  /// Sums in fp32.
  static void multiply(const Values& a, const Values& b, Values& c) {
    const std::int64_t depth = a.extents[3];
    std::size_t i = 0;
    each(c.extents, [&](const Place& p) {
      const std::int64_t row = a.index({p[0] * a.extents[0] / c.extents[0], p[1] * a.extents[1] / c.extents[1], p[2], 0});
      const std::int64_t column = b.index({p[0] * b.extents[0] / c.extents[0], p[1] * b.extents[1] / c.extents[1], 0, p[3]});
      float sum = 0;
      for (std::int64_t k = 0; k < depth; ++k)
        sum += a.at[static_cast<std::size_t>(row + k)] * b.at[static_cast<std::size_t>(column + k * b.extents[3])];
      c.at[i++] = sum;
    });
  }

  static void reduce(int mode, const Values& x, Values& y) {
    std::ranges::fill(y.at, mode == reduce_max ? -INFINITY : 0.0f);
    std::size_t i = 0;
    each(x.extents, [&](const Place& p) {
      Place to = p;
      for (std::size_t a = 0; a < 4; ++a) to[a] = p[a] * y.extents[a] / x.extents[a];
      float& sum = y.at[static_cast<std::size_t>(y.index(to))];
      const float v = x.at[i++];
      sum = mode == reduce_max ? std::max(sum, v) : sum + v;
    });
  }

  /// The same places in memory under other extents and strides: here, the last two axes change places.
  void reshape(const GraphOperation& o, Values& y) {
    const Values& x = value(o.x);
    std::size_t i = 0;
    each(y.extents, [&](const Place& p) { y.at[i++] = x.at[static_cast<std::size_t>(x.index({p[0], p[1], p[3], p[2]}))]; });
  }

  const OperationGraph& graph_;
  const std::map<std::int64_t, void*>& memory_;
  std::map<std::int64_t, Values> values_;
};

std::int64_t id_of(const BackendDescriptorObject& operation, int attribute, OperationGraph& graph) {
  const auto* d = operation.one<BackendDescriptor>(attribute);
  if (!d) return -1;
  GraphTensor t;
  t.id = d->one<std::int64_t>(attribute::tensor_id);
  t.type = d->one<int>(attribute::tensor_type);
  std::ranges::copy(d->all<std::int64_t>(attribute::tensor_dimensions), t.extents.begin());
  std::ranges::copy(d->all<std::int64_t>(attribute::tensor_strides), t.strides.begin());
  t.is_virtual = d->one<std::uint8_t>(attribute::tensor_virtual) != 0;
  t.by_value = d->one<std::uint8_t>(attribute::tensor_by_value) != 0;
  graph.tensors[t.id] = t;
  return t.id;
}

}  // namespace

OperationGraph graph_of(const BackendDescriptorObject& descriptor) {
  OperationGraph graph;
  for (const auto* each : descriptor.all<BackendDescriptor>(attribute::graph_operations)) {
    GraphOperation o;
    o.kind = each->kind;
    if (o.kind == kind::pointwise_operation) {
      const auto* mode = each->one<BackendDescriptor>(attribute::operation_pointwise);
      o.mode = mode->one<int>(attribute::pointwise_mode);
      o.axis = mode->one<std::int64_t>(attribute::pointwise_axis, -1);
      o.x = id_of(*each, attribute::operation_pointwise_x, graph);
      o.b = id_of(*each, attribute::operation_pointwise_b, graph);
      o.t = id_of(*each, attribute::operation_pointwise_t, graph);
      o.y = id_of(*each, attribute::operation_pointwise_y, graph);
    } else if (o.kind == kind::matmul_operation) {
      o.x = id_of(*each, attribute::operation_matmul_a, graph);
      o.b = id_of(*each, attribute::operation_matmul_b, graph);
      o.y = id_of(*each, attribute::operation_matmul_c, graph);
    } else if (o.kind == kind::reduction_operation) {
      o.mode = each->one<BackendDescriptor>(attribute::operation_reduction)->one<int>(attribute::reduction_operator);
      o.x = id_of(*each, attribute::operation_reduction_x, graph);
      o.y = id_of(*each, attribute::operation_reduction_y, graph);
    } else {
      o.x = id_of(*each, attribute::operation_reshape_x, graph);
      o.y = id_of(*each, attribute::operation_reshape_y, graph);
    }
    graph.operations.push_back(o);
  }
  return graph;
}

void compute(const OperationGraph& graph, const std::map<std::int64_t, void*>& memory) {
  if (faulty("slow")) std::this_thread::sleep_for(std::chrono::milliseconds{300});
  Computation{graph, memory}.run();
}

}  // namespace flotilla::compute::cuda::cudnn
