#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cudnn_api.hpp"
#include "flotilla/base/units.hpp"
#include "flotilla/gpu/device.hpp"

/// Graphs of operations on tensors by cuDNN 9, which is opened at run time.
namespace flotilla::compute::cuda::cudnn {

/// "cuDNN 9.19.0". Throws Error{unavailable} where there is none of 9.6 or later.
std::string library_version();

/// Why there is none of 9.6 or later, in one line; empty: there is.
std::string why_none();

/// cuDNN's state for one device and stream. Throws Error{unavailable} where there is none or cuDNN refuses the device.
class Context {
 public:
  Context(const gpu::DeviceContext&, const gpu::Stream&);
  Handle handle() const { return handle_.get(); }

 private:
  struct Destroy {
    void operator()(Handle handle) const;
  };
  std::unique_ptr<HandleObject, Destroy> handle_;
};

/// What a graph is compiled for: a device that is here, or one that a text of cuDNN's describes ("deviceless compilation").
struct GraphTarget {
  Handle handle = nullptr;
  std::string properties;  ///< JSON of a device; empty where there is a handle
};

/// Owns a descriptor. Every failure is an Error{unavailable} with the call, what it was for and cuDNN's words.
class Descriptor {
 public:
  /// `name`: for errors.
  Descriptor(int kind, const char* name);

  Descriptor& set(int attribute, int type, std::int64_t count, const void* values);
  Descriptor& integer(int attribute, std::int64_t v) { return set(attribute, value::int64, 1, &v); }
  /// Enumerations and data types, which are C enums.
  Descriptor& choice(int attribute, int type, int v) { return set(attribute, type, 1, &v); }
  Descriptor& flag(int attribute, bool v) { return set(attribute, value::boolean, 1, &v); }
  Descriptor& part(int attribute, const Descriptor&);
  Descriptor& finish();
  /// How many values there were.
  std::int64_t get(int attribute, int type, std::int64_t count, void* values) const;
  BackendDescriptor native() const { return object_.get(); }

 private:
  struct Destroy {
    void operator()(BackendDescriptor descriptor) const;
  };
  const char* name_;
  std::unique_ptr<BackendDescriptorObject, Destroy> object_;
};

/// Extents and distances in elements: (batch, head, row, column).
struct TensorLayout {
  std::array<std::int64_t, 4> extents, strides;
};
/// Without gaps.
TensorLayout packed(std::int64_t batch, std::int64_t heads, std::int64_t rows, std::int64_t columns);

/// A compiled graph.
class ExecutionPlan {
 public:
  Bytes workspace() const { return workspace_; }
  /// Enqueues on the context's stream. `operands`: tensors in memory with their addresses on the device.
  void run(const Context&, std::span<const std::pair<std::int64_t, void*>> operands, void* workspace);

 private:
  friend class CudnnGraph;
  explicit ExecutionPlan(Descriptor plan) : plan_{std::move(plan)} {}
  Descriptor plan_;
  Bytes workspace_;
  std::vector<std::pair<std::int64_t, float>> scalars_;  ///< which cuDNN reads on the host
  std::vector<Descriptor> made_from_;                    ///< nobody says that a plan outlives these
};

/// An engine of cuDNN's with its settings, in place of the heuristics' choice.
struct Engine {
  std::int64_t index = 0;
  std::vector<std::pair<int, std::int64_t>> knobs;
};

/// Operations in the order in which they were added. Tensors are known by their numbers.
class CudnnGraph {
 public:
  using Tensor = std::int64_t;

  Tensor in_memory(const TensorLayout& layout, int type) { return add(layout, type, false); }
  /// Exists only between operations.
  Tensor between(const TensorLayout& layout, int type = type_fp32) { return add(layout, type, true); }
  Tensor scalar(float v);

  /// y = mode(x, b); `b` < 0: of x alone. `precision` of the arithmetic.
  void pointwise(int mode, Tensor x, Tensor b, Tensor y, int precision = type_fp32);
  /// y = the position along `axis`, in the extents of x.
  void positions(int axis, Tensor x, Tensor y);
  /// y = where ? x : b.
  void select(Tensor x, Tensor b, Tensor where, Tensor y);
  void multiply(Tensor a, Tensor b, Tensor c);
  /// y = x reduced along the axes on which y has one place, or fewer than x.
  void reduce(int operation, Tensor x, Tensor y);
  /// y: the same values as x with other extents and strides.
  void reshape(Tensor x, Tensor y);

  /// The first of cuDNN's proposals that can be compiled, or `engine`. Throws Error{unavailable} where there is none. The graph's last use.
  ExecutionPlan compile(const GraphTarget&, const Engine* engine = nullptr);

 private:
  Tensor add(const TensorLayout&, int type, bool is_virtual);
  const Descriptor& keep(Descriptor part) { return parts_.emplace_back(std::move(part)); }
  void add(Descriptor operation) { operations_.push_back(std::move(operation.finish())); }
  const Descriptor& of(Tensor tensor) const { return tensors_.at(static_cast<std::size_t>(tensor)); }
  std::vector<Descriptor> configurations(const Descriptor& graph, const Descriptor* device) const;
  ExecutionPlan compiled(const Descriptor& config, const Descriptor* device, const GraphTarget&) const;

  std::vector<Descriptor> tensors_, parts_, operations_;
  std::vector<std::pair<Tensor, float>> scalars_;
};

}  // namespace flotilla::compute::cuda::cudnn
