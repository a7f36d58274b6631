#include "flotilla/gpu/device.hpp"

#include "state.hpp"
#include "xid.hpp"

namespace flotilla::gpu {
namespace {

template <class State, class Raw>
std::shared_ptr<State> own(const std::shared_ptr<DeviceState>& device, Raw raw) {
  return std::make_shared<State>(device, raw);
}

}  // namespace

DeviceContext DeviceContext::open(int ordinal) {
  const Presence p = presence();
  FLOTILLA_REQUIRE(p.any(), ErrorKind::unavailable, "no GPU here: ", p.why_none);
  FLOTILLA_REQUIRE(ordinal >= 0 && ordinal < std::ssize(p.devices), ErrorKind::unavailable, "there is no GPU ", ordinal,
                   ": this process sees ", p.devices.size(), "; look at CUDA_VISIBLE_DEVICES and the job's --gpus");
  DeviceContext d;
  d.state_ = std::make_shared<DeviceState>();
  d.state_->facts = p.devices[static_cast<std::size_t>(ordinal)];
  CUDA_TRY(ordinal, cuDevicePrimaryCtxRetain, &d.state_->context, ordinal);
  d.state_->retained = UniqueHandle<PrimaryContextTraits>{ordinal};
  d.state_->make_current();
  listen_for_xids(ordinal, d.state_->facts.pci_bus_id);
  return d;
}

const DeviceFacts& DeviceContext::facts() const { return state_->facts; }

void DeviceContext::make_current() const { state_->make_current(); }

Bytes DeviceContext::free_memory() const {
  state_->make_current();
  std::size_t free = 0, total = 0;
  CUDA_TRY(state_->ordinal(), cuMemGetInfo_v2, &free, &total);
  return Bytes{static_cast<std::int64_t>(free)};
}

Stream DeviceContext::make_stream(bool urgent) const {
  state_->make_current();
  driver::Stream raw = nullptr;
  CUDA_TRY(state_->ordinal(), cuStreamCreateWithPriority, &raw, driver::stream_non_blocking, urgent ? -1 : 0);
  Stream s;
  s.state_ = own<StreamState>(state_, raw);
  return s;
}

Event DeviceContext::make_event(bool timed) const {
  state_->make_current();
  driver::Event raw = nullptr;
  CUDA_TRY(state_->ordinal(), cuEventCreate, &raw, timed ? 0u : driver::event_disable_timing);
  Event e;
  e.state_ = own<EventState>(state_, raw);
  return e;
}

DeviceBuffer DeviceContext::make_buffer(Bytes size) const {
  state_->make_current();
  driver::Address raw = 0;
  const driver::Result result = api().cuMemAlloc_v2(&raw, static_cast<std::size_t>(size.count));
  FLOTILLA_REQUIRE(result != driver::out_of_memory, ErrorKind::unavailable, "GPU ", state_->ordinal(), " (", state_->facts.name,
                   ") has not the ", size.count, " bytes of the plan: ", free_memory().count, " of ", state_->facts.memory.count,
                   " are free; look with nvidia-smi who uses them, or plan with less memory");
  check(result, {"cuMemAlloc_v2", state_->ordinal()});
  DeviceBuffer a;
  a.state_ = own<DeviceBuffer::State>(state_, raw);
  a.state_->size = size;
  return a;
}

PinnedBuffer DeviceContext::make_pinned(Bytes size) const {
  state_->make_current();
  void* raw = nullptr;
  CUDA_TRY(state_->ordinal(), cuMemHostAlloc, &raw, static_cast<std::size_t>(size.count), driver::host_alloc_portable);
  PinnedBuffer b;
  b.state_ = own<PinnedBuffer::State>(state_, raw);
  b.state_->size = size;
  return b;
}

DevicePointer DeviceBuffer::data() const { return {reinterpret_cast<std::byte*>(state_->raw)}; }
Bytes DeviceBuffer::size() const { return state_ ? state_->size : Bytes{}; }
std::span<std::byte> PinnedBuffer::bytes() const {
  return {static_cast<std::byte*>(state_->raw), static_cast<std::size_t>(state_->size.count)};
}

}  // namespace flotilla::gpu
