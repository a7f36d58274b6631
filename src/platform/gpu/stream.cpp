#include <algorithm>
#include <thread>

#include "flotilla/base/clock.hpp"
#include "state.hpp"

namespace flotilla::gpu {
namespace {

driver::Address address(DevicePointer p) { return reinterpret_cast<driver::Address>(p.address); }
std::size_t count(Bytes b) { return static_cast<std::size_t>(b.count); }

/// A query's answer: done, not yet, or thrown.
bool answered(driver::Result result, CallSite site) {
  if (result == driver::not_ready) return false;
  check(result, site);
  return true;
}

}  // namespace

void poll(bool (*done)(const void*), const void* argument, Seconds limit, int device, const char* what) {
  using namespace std::chrono_literals;
  const Seconds start = now();
  for (std::chrono::microseconds pause = 1us; !done(argument); pause = std::min<std::chrono::microseconds>(2 * pause, 200us)) {
    FLOTILLA_REQUIRE(now() - start < limit, ErrorKind::unavailable, what, " of GPU ", device, " is not done after ", limit.value,
                     " s: the device hangs; see nvidia-smi and dmesg");
    std::this_thread::sleep_for(pause);
  }
}

bool Event::done() const { return answered(api().cuEventQuery(state_->raw), {"cuEventQuery", state_->device->ordinal()}); }

void Event::wait(Seconds limit) const {
  poll([](const void* e) { return static_cast<const Event*>(e)->done(); }, this, limit, state_->device->ordinal(), "an event");
}

Seconds Event::between(const Event& start, const Event& end) {
  float milliseconds = 0;
  CUDA_TRY(end.state_->device->ordinal(), cuEventElapsedTime, &milliseconds, start.state_->raw, end.state_->raw);
  return Seconds{static_cast<double>(milliseconds) / 1e3};
}

void Stream::record(Event& event) {
  state_->device->make_current();
  CUDA_TRY(state_->device->ordinal(), cuEventRecord, event.state_->raw, state_->raw);
}

void Stream::wait_for(const Event& event) {
  state_->device->make_current();
  CUDA_TRY(state_->device->ordinal(), cuStreamWaitEvent, state_->raw, event.state_->raw, 0);
}

void Stream::copy_to_device(DevicePointer to, std::span<const std::byte> from) {
  state_->device->make_current();
  CUDA_TRY(state_->device->ordinal(), cuMemcpyHtoDAsync_v2, address(to), from.data(), from.size(), state_->raw);
}

void Stream::copy_to_host(std::span<std::byte> to, DevicePointer from) {
  state_->device->make_current();
  CUDA_TRY(state_->device->ordinal(), cuMemcpyDtoHAsync_v2, to.data(), address(from), to.size(), state_->raw);
}

void Stream::copy_on_device(DevicePointer to, DevicePointer from, Bytes size) {
  state_->device->make_current();
  CUDA_TRY(state_->device->ordinal(), cuMemcpyDtoDAsync_v2, address(to), address(from), count(size), state_->raw);
}

void Stream::copy_rows_on_device(DevicePointer to, Bytes to_pitch, DevicePointer from, Bytes from_pitch, Bytes width, std::int64_t rows) {
  if (rows == 0 || width.count == 0) return;
  if (rows == 1 || (to_pitch == width && from_pitch == width)) return copy_on_device(to, from, rows * width);
  state_->device->make_current();
  driver::RowsCopy c{};
  c.from_type = c.to_type = driver::memory_type_device;
  c.from = address(from);
  c.from_pitch = count(from_pitch);
  c.to = address(to);
  c.to_pitch = count(to_pitch);
  c.width = count(width);
  c.rows = static_cast<std::size_t>(rows);
  CUDA_TRY(state_->device->ordinal(), cuMemcpy2DAsync_v2, &c, state_->raw);
}

void Stream::fill(DevicePointer at, Bytes size, unsigned char value) {
  state_->device->make_current();
  CUDA_TRY(state_->device->ordinal(), cuMemsetD8Async, address(at), value, count(size), state_->raw);
}

void Stream::call(void (*function)(void*), void* argument) {
  state_->device->make_current();
  CUDA_TRY(state_->device->ordinal(), cuLaunchHostFunc, state_->raw, function, argument);
}

void* Stream::native() const {
  state_->device->make_current();
  return state_->raw;
}

bool Stream::idle() const {
  state_->device->make_current();
  return answered(api().cuStreamQuery(state_->raw), {"cuStreamQuery", state_->device->ordinal()});
}

void Stream::wait(Seconds limit) const {
  poll([](const void* s) { return static_cast<const Stream*>(s)->idle(); }, this, limit, state_->device->ordinal(), "a stream");
}

}  // namespace flotilla::gpu
