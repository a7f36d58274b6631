#include "flotilla/gpu/kernel.hpp"

#include "state.hpp"

namespace flotilla::gpu {

struct Module::State : Owned<driver::Library, &driver::DriverFunctions::cuLibraryUnload> {
  using Owned::Owned;
};

struct Kernel::State {
  std::shared_ptr<void> module;  // keeps the code loaded
  std::shared_ptr<DeviceState> device;
  driver::Function function = nullptr;
  std::string name;
  Bytes most_shared;
};

struct Graph::State : Owned<driver::GraphExec, &driver::DriverFunctions::cuGraphExecDestroy> {
  using Owned::Owned;
};

namespace {

constexpr std::int64_t most_blocks_x = 0x7fffffff, most_blocks_yz = 65535;
constexpr int most_threads = 1024;
constexpr Bytes shared_without_asking{48 << 10};

}  // namespace

Module::Module(const DeviceContext& device, std::span<const std::byte> image) {
  FLOTILLA_REQUIRE(!image.empty(), ErrorKind::unavailable, "this build has no kernels for GPUs: configure it where nvcc is found");
  auto& state = device.state();
  state.make_current();
  driver::Library raw = nullptr;
  CUDA_TRY(state.ordinal(), cuLibraryLoadData, &raw, image.data(), nullptr, nullptr, 0, nullptr, nullptr, 0);
  state_ = std::make_shared<State>(device.shared_state(), raw);
}

Kernel Module::kernel(const std::string& name, Bytes most_shared) const {
  const DeviceState& device = *state_->device;
  device.make_current();
  driver::Kernel raw = nullptr;
  const driver::Result found = api().cuLibraryGetKernel(&raw, state_->raw, name.c_str());
  if (found != driver::success) fail(found, {text("cuLibraryGetKernel of ", name).c_str(), device.ordinal()});
  int fixed = 0;  // bytes that the kernel's own variables take of the same memory
  CUDA_TRY(device.ordinal(), cuKernelGetAttribute, &fixed, driver::kernel_static_shared, raw, device.ordinal());
  if (most_shared == all_shared) most_shared = device.facts.shared_memory - Bytes{fixed};
  FLOTILLA_REQUIRE(most_shared <= device.facts.shared_memory - Bytes{fixed}, ErrorKind::unavailable, name, " needs ", most_shared.count,
                   " bytes of shared memory; a block of GPU ", device.ordinal(), " (", device.facts.name, ") has ",
                   device.facts.shared_memory.count - fixed, ": take a smaller model, or another device");
  if (most_shared > shared_without_asking)
    CUDA_TRY(device.ordinal(), cuKernelSetAttribute, driver::kernel_max_dynamic_shared, static_cast<int>(most_shared.count), raw,
             device.ordinal());
  Kernel k;
  k.state_ = std::make_shared<Kernel::State>();
  CUDA_TRY(device.ordinal(), cuKernelGetFunction, &k.state_->function, raw);
  k.state_->module = state_;
  k.state_->device = state_->device;
  k.state_->name = name;
  k.state_->most_shared = std::max(most_shared, shared_without_asking);
  return k;
}

void Kernel::launch_with(const Stream& stream, const LaunchShape& shape, std::span<void*> arguments) const {
  if (shape.blocks_x == 0 || shape.blocks_y == 0 || shape.blocks_z == 0) return;
  const bool possible = shape.blocks_x > 0 && shape.blocks_x <= most_blocks_x && shape.blocks_y > 0 && shape.blocks_y <= most_blocks_yz &&
                        shape.blocks_z > 0 && shape.blocks_z <= most_blocks_yz && shape.threads > 0 && shape.threads <= most_threads &&
                        shape.shared <= state_->most_shared;
  FLOTILLA_REQUIRE(possible, ErrorKind::internal, state_->name, " with ", shape.blocks_x, " x ", shape.blocks_y, " x ", shape.blocks_z,
                   " blocks of ", shape.threads, " threads and ", shape.shared.count, " bytes of shared memory is no launch");
  state_->device->make_current();
  const driver::Result result = api().cuLaunchKernel(
      state_->function, static_cast<unsigned>(shape.blocks_x), static_cast<unsigned>(shape.blocks_y), static_cast<unsigned>(shape.blocks_z),
      static_cast<unsigned>(shape.threads), 1, 1, static_cast<unsigned>(shape.shared.count), stream.state().raw, arguments.data(), nullptr);
  if (result != driver::success) fail(result, {text("cuLaunchKernel of ", state_->name).c_str(), state_->device->ordinal()});
}

void Graph::begin(Stream& stream) {
  StreamState& s = stream.state();
  s.device->make_current();
  CUDA_TRY(s.device->ordinal(), cuStreamBeginCapture_v2, s.raw, driver::capture_thread_local);
}

Graph Graph::end(Stream& stream) {
  StreamState& s = stream.state();
  driver::Graph raw = nullptr;
  CUDA_TRY(s.device->ordinal(), cuStreamEndCapture, s.raw, &raw);
  const Owned<driver::Graph, &driver::DriverFunctions::cuGraphDestroy> recorded{s.device, raw};
  driver::GraphExec executable = nullptr;
  CUDA_TRY(s.device->ordinal(), cuGraphInstantiateWithFlags, &executable, raw, 0);
  Graph g;
  g.state_ = std::make_shared<State>(s.device, executable);
  return g;
}

void Graph::abandon(Stream& stream) noexcept {
  driver::Graph raw = nullptr;
  const driver::DriverFunctions& table = open_driver().table;
  if (table.cuStreamEndCapture(stream.state().raw, &raw) == driver::success && raw) table.cuGraphDestroy(raw);
}

void Graph::launch(Stream& stream) const {
  state_->device->make_current();
  CUDA_TRY(state_->device->ordinal(), cuGraphLaunch, state_->raw, stream.state().raw);
}

}  // namespace flotilla::gpu
