#pragma once
#include <cstddef>
#include <memory>
#include <span>

#include "flotilla/base/units.hpp"
#include "flotilla/gpu/driver.hpp"

namespace flotilla::gpu {

struct DeviceState;
struct StreamState;
struct EventState;

/// A place in a device's memory. The host must not follow it.
struct DevicePointer {
  std::byte* address = nullptr;
  DevicePointer operator+(std::int64_t bytes) const { return {address + bytes}; }
};

/// A point in a stream's work. Recorded anew as often as wished; a wait means the last record before it.
class Event {
 public:
  Event() = default;
  /// Throws Error{unavailable} as every query does when the device is in error.
  bool done() const;
  /// Asks again and again, with growing pauses. Throws Error{unavailable} after `limit`: a hung device must not hang its host.
  void wait(Seconds limit) const;
  /// Of two timed events that are done.
  static Seconds between(const Event& start, const Event& end);

 private:
  friend class DeviceContext;
  friend class Stream;
  std::shared_ptr<EventState> state_;
};

/// Work in order, beside other streams.
class Stream {
 public:
  Stream() = default;
  /// Whether a device has made it.
  bool valid() const { return state_ != nullptr; }
  void record(Event&);
  /// What is enqueued from now on begins after the event's last record.
  void wait_for(const Event&);
  /// Pinned or not, `from` and `to` on the host stay as they are until an event after the copy is done.
  void copy_to_device(DevicePointer to, std::span<const std::byte> from);
  void copy_to_host(std::span<std::byte> to, DevicePointer from);
  void copy_on_device(DevicePointer to, DevicePointer from, Bytes);
  /// `rows` rows of `width` bytes, which are the pitches apart.
  void copy_rows_on_device(DevicePointer to, Bytes to_pitch, DevicePointer from, Bytes from_pitch, Bytes width, std::int64_t rows);
  void fill(DevicePointer, Bytes, unsigned char value);
  /// Runs on a thread of the driver's, which must not call it.
  void call(void (*function)(void*), void* argument);
  bool idle() const;
  void wait(Seconds limit) const;
  /// The CUstream, for libraries that enqueue their work.
  void* native() const;
  /// For kernels and graphs.
  StreamState& state() const { return *state_; }

 private:
  friend class DeviceContext;
  std::shared_ptr<StreamState> state_;
};

/// One allocation, cut up by who owns it: taken once, given back at the end.
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  DevicePointer data() const;
  Bytes size() const;

 private:
  friend class DeviceContext;
  struct State;
  std::shared_ptr<State> state_;
};

/// Host memory that copies reach without a detour.
class PinnedBuffer {
 public:
  PinnedBuffer() = default;
  std::span<std::byte> bytes() const;

 private:
  friend class DeviceContext;
  struct State;
  std::shared_ptr<State> state_;
};

/// A device's primary context, which libraries share. What is made from it keeps it alive. Calls of one device may come from several
/// threads.
class DeviceContext {
 public:
  /// Throws Error{unavailable} where there is no such device.
  static DeviceContext open(int ordinal);

  const DeviceFacts& facts() const;
  /// For libraries that ask the driver for the calling thread's device.
  void make_current() const;
  Bytes free_memory() const;
  /// `urgent`: before the others where the device must choose.
  Stream make_stream(bool urgent = false) const;
  Event make_event(bool timed = false) const;
  /// Throws Error{unavailable} when the device has not so much.
  DeviceBuffer make_buffer(Bytes) const;
  PinnedBuffer make_pinned(Bytes) const;
  DeviceState& state() const { return *state_; }
  const std::shared_ptr<DeviceState>& shared_state() const { return state_; }

 private:
  std::shared_ptr<DeviceState> state_;
};

}  // namespace flotilla::gpu
