#pragma once
#include <memory>

#include "flotilla/base/unique_handle.hpp"
#include "flotilla/gpu/device.hpp"
#include "library.hpp"

namespace flotilla::gpu {

struct PrimaryContextTraits {
  using Raw = int;
  static Raw null() noexcept { return -1; }
  static void destroy(Raw device) noexcept { open_driver().table.cuDevicePrimaryCtxRelease_v2(device); }
};

/// Children hold it. Every call makes the context current first: threads come and go, and the driver's notion is of a thread.
struct DeviceState {
  DeviceFacts facts;
  UniqueHandle<PrimaryContextTraits> retained;
  driver::Context context = nullptr;

  int ordinal() const { return facts.ordinal; }
  void make_current() const { CUDA_TRY(facts.ordinal, cuCtxSetCurrent, context); }
};

/// A handle of the driver's whose destruction needs its device's context.
template <class Raw_, driver::Result (*driver::DriverFunctions::*function)(Raw_)>
struct Owned {
  std::shared_ptr<DeviceState> device;
  Raw_ raw{};

  Owned() = default;
  Owned(std::shared_ptr<DeviceState> d, Raw_ r) : device{std::move(d)}, raw{r} {}
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  ~Owned() {
    const driver::DriverFunctions& table = open_driver().table;
    if (raw && table.cuCtxSetCurrent(device->context) == driver::success) (table.*function)(raw);
  }
};

struct StreamState : Owned<driver::Stream, &driver::DriverFunctions::cuStreamDestroy_v2> {
  using Owned::Owned;
};
struct EventState : Owned<driver::Event, &driver::DriverFunctions::cuEventDestroy_v2> {
  using Owned::Owned;
};
struct DeviceBuffer::State : Owned<driver::Address, &driver::DriverFunctions::cuMemFree_v2> {
  using Owned::Owned;
  Bytes size;
};
struct PinnedBuffer::State : Owned<void*, &driver::DriverFunctions::cuMemFreeHost> {
  using Owned::Owned;
  Bytes size;
};

/// Asks `done` with growing pauses. Throws Error{unavailable} after `limit`.
void poll(bool (*done)(const void*), const void* argument, Seconds limit, int device, const char* what);

}  // namespace flotilla::gpu
