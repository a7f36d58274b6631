#include "cudnn_graph.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <optional>

#include "flotilla/base/error.hpp"

namespace flotilla::compute::cuda::cudnn {
namespace {

/// From 9.6 on it clears the sums of its own that it adds to.
constexpr std::size_t oldest = 90600;

std::string name_of(std::size_t v) { return text("cuDNN ", v / 10000, '.', v / 100 % 100, '.', v % 100); }

CudnnFunctions load() {
  void* library = dlopen("libcudnn.so.9", RTLD_NOW | RTLD_LOCAL);
  FLOTILLA_REQUIRE(library, ErrorKind::unavailable, "cuDNN 9 is not here (", dlerror(), "): put libcudnn.so.9 on LD_LIBRARY_PATH");
  CudnnFunctions table;
#define FLOTILLA_RESOLVE(name, result, ...)                                      \
  table.name = reinterpret_cast<result (*)(__VA_ARGS__)>(dlsym(library, #name)); \
  FLOTILLA_REQUIRE(table.name, ErrorKind::unavailable, "the cuDNN here lacks " #name ": install one of version 9");
  FLOTILLA_CUDNN_FUNCTIONS(FLOTILLA_RESOLVE)
#undef FLOTILLA_RESOLVE
  FLOTILLA_REQUIRE(table.cudnnGetVersion() >= oldest, ErrorKind::unavailable, name_of(table.cudnnGetVersion()),
                   " is here, and 9.6 or later is needed");
  return table;
}

const CudnnFunctions& api() {
  static const CudnnFunctions table = load();
  return table;
}

std::string words_of_cudnn() {
  std::array<char, 512> words{};
  api().cudnnGetLastErrorString(words.data(), words.size() - 1);
  std::string line{words.data()};
  std::ranges::replace(line, '\n', ' ');
  return line.empty() ? "" : text(": ", line);
}

void check(Status status, const std::string& call, const char* name) {
  FLOTILLA_REQUIRE(status == success, ErrorKind::unavailable, call, " failed with status ", status, " for ", name, words_of_cudnn());
}

}  // namespace

std::string library_version() { return name_of(api().cudnnGetVersion()); }

std::string why_none() {
  try {
    static_cast<void>(api());
    return {};
  } catch (const Error& error) {
    return error.what();
  }
}

Context::Context(const gpu::DeviceContext& device, const gpu::Stream& stream) {
  device.make_current();
  Handle handle = nullptr;
  check(api().cudnnCreate(&handle), "cudnnCreate", "this device");
  handle_.reset(handle);
  check(api().cudnnSetStream(handle, stream.native()), "cudnnSetStream", "this device");
}

void Context::Destroy::operator()(Handle handle) const { api().cudnnDestroy(handle); }

Descriptor::Descriptor(int kind, const char* name) : name_{name} {
  BackendDescriptor made = nullptr;
  check(api().cudnnBackendCreateDescriptor(kind, &made), "cudnnBackendCreateDescriptor", name);
  object_.reset(made);
}

void Descriptor::Destroy::operator()(BackendDescriptor descriptor) const { api().cudnnBackendDestroyDescriptor(descriptor); }

Descriptor& Descriptor::set(int attribute, int type, std::int64_t count, const void* values) {
  check(api().cudnnBackendSetAttribute(native(), attribute, type, count, values), text("cudnnBackendSetAttribute(", attribute, ')'), name_);
  return *this;
}

Descriptor& Descriptor::part(int attribute, const Descriptor& other) {
  const BackendDescriptor native = other.native();
  return set(attribute, value::descriptor, 1, &native);
}

Descriptor& Descriptor::finish() {
  check(api().cudnnBackendFinalize(native()), "cudnnBackendFinalize", name_);
  return *this;
}

std::int64_t Descriptor::get(int attribute, int type, std::int64_t count, void* values) const {
  std::int64_t found = 0;
  check(api().cudnnBackendGetAttribute(native(), attribute, type, count, &found, values), text("cudnnBackendGetAttribute(", attribute, ')'),
        name_);
  return found;
}

TensorLayout packed(std::int64_t batch, std::int64_t heads, std::int64_t rows, std::int64_t columns) {
  return {{batch, heads, rows, columns}, {heads * rows * columns, rows * columns, columns, 1}};
}

void ExecutionPlan::run(const Context& context, std::span<const std::pair<std::int64_t, void*>> operands, void* workspace) {
  std::vector<std::int64_t> ids;
  std::vector<void*> addresses;
  for (const auto& [id, address] : operands) ids.push_back(id), addresses.push_back(address);
  for (auto& [id, scalar] : scalars_) ids.push_back(id), addresses.push_back(&scalar);
  const auto count = static_cast<std::int64_t>(ids.size());
  Descriptor pack{kind::variant_pack, "operands"};
  pack.set(attribute::pack_ids, value::int64, count, ids.data());
  pack.set(attribute::pack_pointers, value::pointer, count, addresses.data());
  pack.set(attribute::pack_workspace, value::pointer, 1, &workspace).finish();
  check(api().cudnnBackendExecute(context.handle(), plan_.native(), pack.native()), "cudnnBackendExecute", "attention");
}

CudnnGraph::Tensor CudnnGraph::add(const TensorLayout& layout, int type, bool is_virtual) {
  const auto id = static_cast<Tensor>(tensors_.size());
  Descriptor tensor{kind::tensor, "a tensor"};
  tensor.choice(attribute::tensor_type, value::data_type, type);
  tensor.set(attribute::tensor_dimensions, value::int64, 4, layout.extents.data());
  tensor.set(attribute::tensor_strides, value::int64, 4, layout.strides.data());
  tensor.integer(attribute::tensor_id, id).integer(attribute::tensor_alignment, 16).flag(attribute::tensor_virtual, is_virtual);
  tensors_.push_back(std::move(tensor.finish()));
  return id;
}

CudnnGraph::Tensor CudnnGraph::scalar(float v) {
  const auto id = static_cast<Tensor>(tensors_.size());
  const TensorLayout one = packed(1, 1, 1, 1);
  Descriptor tensor{kind::tensor, "a scalar"};
  tensor.choice(attribute::tensor_type, value::data_type, type_fp32);
  tensor.set(attribute::tensor_dimensions, value::int64, 4, one.extents.data());
  tensor.set(attribute::tensor_strides, value::int64, 4, one.strides.data());
  tensor.integer(attribute::tensor_id, id).integer(attribute::tensor_alignment, 16).flag(attribute::tensor_by_value, true);
  tensors_.push_back(std::move(tensor.finish()));
  scalars_.emplace_back(id, v);
  return id;
}

namespace {

Descriptor pointwise_of(int mode, int precision, std::optional<std::int64_t> axis = {}) {
  Descriptor d{kind::pointwise, "an element-wise operation"};
  d.choice(attribute::pointwise_mode, value::pointwise_mode, mode).choice(attribute::pointwise_precision, value::data_type, precision);
  if (axis) d.integer(attribute::pointwise_axis, *axis);
  return std::move(d.finish());
}

}  // namespace

void CudnnGraph::pointwise(int mode, Tensor x, Tensor b, Tensor y, int precision) {
  Descriptor operation{kind::pointwise_operation, "an element-wise operation"};
  operation.part(attribute::operation_pointwise, keep(pointwise_of(mode, precision))).part(attribute::operation_pointwise_x, of(x));
  if (b >= 0) operation.part(attribute::operation_pointwise_b, of(b));
  operation.part(attribute::operation_pointwise_y, of(y));
  add(std::move(operation));
}

void CudnnGraph::positions(int axis, Tensor x, Tensor y) {
  Descriptor operation{kind::pointwise_operation, "positions"};
  operation.part(attribute::operation_pointwise, keep(pointwise_of(pointwise::index, type_fp32, axis)));
  operation.part(attribute::operation_pointwise_x, of(x)).part(attribute::operation_pointwise_y, of(y));
  add(std::move(operation));
}

void CudnnGraph::select(Tensor x, Tensor b, Tensor where, Tensor y) {
  Descriptor operation{kind::pointwise_operation, "a mask"};
  operation.part(attribute::operation_pointwise, keep(pointwise_of(pointwise::select, type_fp32)))
      .part(attribute::operation_pointwise_x, of(x));
  operation.part(attribute::operation_pointwise_b, of(b)).part(attribute::operation_pointwise_t, of(where));
  operation.part(attribute::operation_pointwise_y, of(y));
  add(std::move(operation));
}

void CudnnGraph::multiply(Tensor a, Tensor b, Tensor c) {
  Descriptor product{kind::matmul, "a product"}, operation{kind::matmul_operation, "a product"};
  product.choice(attribute::matmul_precision, value::data_type, type_fp32).finish();
  operation.part(attribute::operation_matmul_a, of(a)).part(attribute::operation_matmul_b, of(b));
  operation.part(attribute::operation_matmul_c, of(c)).part(attribute::operation_matmul, keep(std::move(product)));
  add(std::move(operation));
}

void CudnnGraph::reduce(int which, Tensor x, Tensor y) {
  Descriptor reduction{kind::reduction, "a reduction"}, operation{kind::reduction_operation, "a reduction"};
  reduction.choice(attribute::reduction_operator, value::reduction_operator, which);
  reduction.choice(attribute::reduction_precision, value::data_type, type_fp32).finish();
  operation.part(attribute::operation_reduction_x, of(x)).part(attribute::operation_reduction_y, of(y));
  operation.part(attribute::operation_reduction, keep(std::move(reduction)));
  add(std::move(operation));
}

void CudnnGraph::reshape(Tensor x, Tensor y) {
  Descriptor operation{kind::reshape_operation, "a reshape"};
  operation.part(attribute::operation_reshape_x, of(x)).part(attribute::operation_reshape_y, of(y));
  add(std::move(operation));
}

ExecutionPlan CudnnGraph::compiled(const Descriptor& config, const Descriptor* device, const GraphTarget& target) const {
  Descriptor plan{kind::execution_plan, "attention"};
  if (target.handle) plan.set(attribute::plan_handle, value::handle, 1, &target.handle);
  if (device) plan.part(attribute::plan_device, *device);
  plan.part(attribute::plan_config, config).finish();
  ExecutionPlan made{std::move(plan)};
  made.plan_.get(attribute::plan_workspace, value::int64, 1, &made.workspace_.count);
  made.scalars_ = scalars_;
  return made;
}

std::vector<Descriptor> CudnnGraph::configurations(const Descriptor& graph, const Descriptor* device) const {
  Descriptor heuristics{kind::heuristics, "attention's graph"};
  heuristics.part(attribute::heuristics_graph, graph).choice(attribute::heuristics_mode, value::heuristics_mode, heuristics_a);
  if (device) heuristics.part(attribute::heuristics_device, *device);
  heuristics.finish();
  constexpr int most = 8;
  std::vector<Descriptor> configs;
  std::vector<BackendDescriptor> natives;
  for (int i = 0; i < most; ++i) natives.push_back(configs.emplace_back(kind::engine_config, "an engine's settings").native());
  const auto found = heuristics.get(attribute::heuristics_results, value::descriptor, most, natives.data());
  configs.erase(configs.begin() + std::min<std::ptrdiff_t>(found, most), configs.end());
  return configs;
}

namespace {

Descriptor configuration(const Engine& engine, const Descriptor& graph, const Descriptor* device) {
  Descriptor chosen{kind::engine, "an engine"};
  chosen.part(attribute::engine_graph, graph).integer(attribute::engine_index, engine.index);
  if (device) chosen.part(attribute::engine_device, *device);
  chosen.finish();
  std::vector<Descriptor> knobs;
  std::vector<BackendDescriptor> natives;
  for (const auto& [type, v] : engine.knobs) {
    Descriptor& knob = knobs.emplace_back(kind::knob_choice, "an engine's settings");
    knob.choice(attribute::knob_type, value::knob_type, type).integer(attribute::knob_value, v).finish();
    natives.push_back(knob.native());
  }
  Descriptor config{kind::engine_config, "an engine's settings"};
  config.part(attribute::config_engine, chosen);
  config.set(attribute::config_knobs, value::descriptor, static_cast<std::int64_t>(natives.size()), natives.data()).finish();
  return config;
}

}  // namespace

ExecutionPlan CudnnGraph::compile(const GraphTarget& target, const Engine* engine) {
  std::optional<Descriptor> properties;
  if (!target.handle) {
    properties.emplace(kind::device_properties, "a device's properties");
    const auto length = static_cast<std::int64_t>(target.properties.size());
    properties->set(attribute::device_json, value::character, length, target.properties.data()).finish();
  }
  const Descriptor* device = properties ? &*properties : nullptr;
  Descriptor graph{kind::operation_graph, "attention's graph"};
  std::vector<BackendDescriptor> operations;
  for (const Descriptor& operation : operations_) operations.push_back(operation.native());
  if (target.handle) graph.set(attribute::graph_handle, value::handle, 1, &target.handle);
  graph.set(attribute::graph_operations, value::descriptor, static_cast<std::int64_t>(operations.size()), operations.data()).finish();
  std::vector<Descriptor> configs;
  if (engine)
    configs.push_back(configuration(*engine, graph, device));
  else
    configs = configurations(graph, device);
  std::string why = "it proposes no engine";
  for (Descriptor& config : configs) try {
      ExecutionPlan plan = compiled(config, device, target);
      for (auto* list : {&tensors_, &parts_, &operations_})
        for (Descriptor& each : *list) plan.made_from_.push_back(std::move(each));
      for (Descriptor* each : {&graph, &config}) plan.made_from_.push_back(std::move(*each));
      return plan;
    } catch (const Error& error) {
      why = error.what();
    }
  throw Error{ErrorKind::unavailable, text("no plan for this attention: ", why)};
}

}  // namespace flotilla::compute::cuda::cudnn
