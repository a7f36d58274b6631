// The backend API: descriptors that hold what was set, one engine for each graph, and plans that compute graphs on the context's stream.
#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>

#include "descriptors.hpp"

namespace flotilla::compute::cuda::cudnn {

#define FLOTILLA_DECLARE(name, result, ...) extern "C" __attribute__((visibility("default"))) result name(__VA_ARGS__);
FLOTILLA_CUDNN_FUNCTIONS(FLOTILLA_DECLARE)
#undef FLOTILLA_DECLARE

namespace {

thread_local std::string last_error;

Status refused(Status status, const char* why) {
  last_error = why;
  return status;
}

/// The driver's side of this stand-in.
template <class Function>
Function of_driver(const char* name) {
  return reinterpret_cast<Function>(dlsym(dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD), name));
}

void* host_view(const void* p) {
  static const auto view = of_driver<void* (*)(const void*)>("flotilla_standin_host_view");
  return view(p);
}

std::size_t size_of(int type) {
  switch (type) {
    case value::boolean:
    case value::character: return 1;
    case value::int64:
    case value::pointer:
    case value::handle:
    case value::descriptor: return 8;
    default: return 4;
  }
}

/// Whether a graph ends in the gradient of queries.
bool is_backward(const OperationGraph& graph) {
  return std::ranges::any_of(graph.operations, [](const GraphOperation& o) { return o.kind == kind::reshape_operation; });
}

/// Faults that change a graph.
OperationGraph damaged(OperationGraph graph) {
  const auto replace = [&](int mode, int by) {
    for (GraphOperation& o : graph.operations)
      if (o.kind == kind::pointwise_operation && o.mode == mode) o.mode = by;
  };
  const bool back = is_backward(graph);
  if (faulty(back ? "back-mask" : "mask")) replace(pointwise::greater_or_equal, greater_or_equal_off_by_one);
  if (faulty(back ? "back-window" : "window")) replace(pointwise::greater, greater_off_by_one);
  if (!back) {
    for (GraphOperation& o : graph.operations)  // of the largest score and the logarithm
      if (faulty("statistics") && o.kind == kind::pointwise_operation && o.mode == pointwise::add && !graph.tensors.at(o.y).is_virtual)
        o.mode = negated_sum;
    return graph;
  }
  std::vector<GraphOperation*> products, multiplications;
  for (GraphOperation& o : graph.operations) {
    if (o.kind == kind::matmul_operation) products.push_back(&o);
    if (o.kind == kind::pointwise_operation && o.mode == pointwise::multiply) multiplications.push_back(&o);
  }
  if (faulty("scale")) multiplications.back()->mode = pointwise::identity;
  if (faulty("key")) products.at(3)->b = products.at(1)->b;
  return graph;
}

struct Work {
  OperationGraph graph;
  std::map<std::int64_t, void*> memory;
  std::map<std::int64_t, float> scalars;
};

/// One bit of the first number of what a graph writes last, each time another.
void add_noise(const Work& work) {
  static std::atomic<std::uint16_t> times{0};
  const std::int64_t last = work.graph.operations.back().y;
  *static_cast<std::uint16_t*>(work.memory.at(last)) ^= static_cast<std::uint16_t>(times++ % 2);
}

}  // namespace

std::size_t cudnnGetVersion() { return faulty("version") ? 90500 : 91900; }

void cudnnGetLastErrorString(char* words, std::size_t most) {
  const std::size_t length = std::min(most - 1, last_error.size());
  std::copy_n(last_error.begin(), length, words);
  words[length] = 0;
}

Status cudnnCreate(Handle* handle) {
  if (faulty("refuses")) return refused(1001, "the stand-in refuses this device");
  *handle = new HandleObject;
  return success;
}
Status cudnnDestroy(Handle handle) {
  delete handle;
  return success;
}
Status cudnnSetStream(Handle handle, void* stream) {
  handle->stream = stream;
  return success;
}

Status cudnnBackendCreateDescriptor(int kind, BackendDescriptor* descriptor) {
  *descriptor = new BackendDescriptorObject{};
  (*descriptor)->kind = kind;
  return success;
}
Status cudnnBackendDestroyDescriptor(BackendDescriptor descriptor) {
  delete descriptor;
  return success;
}

Status cudnnBackendSetAttribute(BackendDescriptor d, int attribute, int type, std::int64_t count, const void* values) {
  if (d->finished) return refused(bad_parameter, "the descriptor is finished");
  const auto* bytes = static_cast<const std::byte*>(values);
  d->values[attribute].assign(bytes, bytes + static_cast<std::size_t>(count) * size_of(type));
  return success;
}

Status cudnnBackendFinalize(BackendDescriptor d) {
  const bool parted = d->kind == kind::operation_graph || d->kind == kind::matmul_operation || d->kind == kind::pointwise_operation ||
                      d->kind == kind::reduction_operation || d->kind == kind::reshape_operation;
  if (parted)
    for (const auto& [attribute, bytes] : d->values) {
      if (attribute == attribute::graph_handle) continue;
      for (const auto* part : d->all<BackendDescriptor>(attribute))
        if (!part->finished) return refused(bad_parameter, "a part is not finished");
    }
  if (d->kind == kind::tensor &&
      (d->all<std::int64_t>(attribute::tensor_dimensions).size() != 4 || d->all<std::int64_t>(attribute::tensor_strides).size() != 4))
    return refused(bad_parameter, "a tensor has four extents and strides here");
  if (d->kind == kind::engine && !d->values.contains(attribute::engine_graph)) return refused(bad_parameter, "an engine without a graph");
  if (d->kind == kind::engine) return refused(not_supported, "the stand-in has no engines by number");
  if (d->kind == kind::execution_plan) {
    const auto* config = d->one<BackendDescriptor>(attribute::plan_config);
    if (!config || !config->finished) return refused(bad_parameter, "a plan without settings");
    d->graph = std::make_shared<const OperationGraph>(damaged(graph_of(*config->one<BackendDescriptor>(attribute::config_engine))));
  }
  d->finished = true;
  return success;
}

Status cudnnBackendGetAttribute(BackendDescriptor d, int attribute, int, std::int64_t count, std::int64_t* found, void* values) {
  if (!d->finished) return refused(bad_parameter, "the descriptor is not finished");
  if (attribute == attribute::heuristics_results) {
    *found = count > 0 && !faulty("engines") ? 1 : 0;
    if (*found == 0) return success;
    auto* const config = static_cast<BackendDescriptor*>(values)[0];
    config->values[attribute::config_engine] = d->values.at(attribute::heuristics_graph);  // one engine: the graph itself
    config->finished = true;
    return success;
  }
  if (attribute != attribute::plan_workspace || count < 1) return refused(not_supported, "the stand-in does not know this attribute");
  const std::int64_t workspace = faulty("workspace") ? std::int64_t{1} << 40 : 4096;
  std::memcpy(values, &workspace, sizeof workspace);
  *found = 1;
  return success;
}

Status cudnnBackendExecute(Handle handle, BackendDescriptor plan, BackendDescriptor pack) {
  static const auto enqueue = of_driver<bool (*)(void*, void (*)(void*), void*)>("flotilla_standin_enqueue");
  if (!handle || !plan->finished || !pack->finished) return refused(bad_parameter, "a descriptor is not finished");
  if (faulty("fails")) return refused(execution_failed, "the stand-in's kernel failed");
  auto work = std::make_unique<Work>();
  work->graph = *plan->graph;
  const auto ids = pack->all<std::int64_t>(attribute::pack_ids);
  const auto addresses = pack->all<void*>(attribute::pack_pointers);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (!work->graph.tensors.contains(ids[i])) return refused(bad_parameter, "an operand that the graph does not have");
    if (work->graph.tensors.at(ids[i]).by_value)
      std::memcpy(&work->scalars[ids[i]], addresses[i], sizeof(float));
    else
      work->memory[ids[i]] = host_view(addresses[i]);
  }
  for (auto& [id, scalar] : work->scalars) work->memory[id] = &scalar;
  for (const auto& [id, tensor] : work->graph.tensors)
    if (!tensor.is_virtual && !work->memory.contains(id)) return refused(bad_parameter, "an operand is missing");
  const auto run = [](void* p) {
    const std::unique_ptr<Work> mine{static_cast<Work*>(p)};
    compute(mine->graph, mine->memory);
    if (faulty("noise") && is_backward(mine->graph)) add_noise(*mine);
  };
  return enqueue(handle->stream, run, work.release()) ? success : refused(bad_parameter, "the stream is not the driver's");
}

}  // namespace flotilla::compute::cuda::cudnn
