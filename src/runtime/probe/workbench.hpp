#pragma once
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "flotilla/compute/backend.hpp"
#include "flotilla/gpu/device.hpp"

namespace flotilla::probe {

/// Zeroed pages that cost memory only where they are touched; huge ones where the kernel has them, as the trainer's arena is.
class Pages {
 public:
  /// Throws Error{unavailable}.
  explicit Pages(Bytes size);
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  ~Pages();
  std::byte* data() const { return data_; }

 private:
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

/// Memory of a measured device: Pages, or one allocation on a GPU.
class DeviceMemory {
 public:
  /// `gpu`: null where the host computes. Throws Error{unavailable}.
  DeviceMemory(const gpu::DeviceContext* gpu, Bytes size);
  std::byte* data() const;

 private:
  std::optional<Pages> pages_;
  gpu::DeviceBuffer on_gpu_;
};

/// Memory of a GPU that several take in turns: one allocation, as large as the largest of them asked for. It holds what the last one left.
/// An address stays what it is until somebody asks for more.
class TakenInTurns {
 public:
  /// Throws Error{unavailable}.
  std::byte* take(const gpu::DeviceContext&, Bytes size);

 private:
  gpu::DeviceBuffer memory_;
};

/// A clock of this rank: now(), or thread_time().
using Clock = Seconds (*)();

/// A device that is measured, as the trainer has it: the backend, memory on the device, and what work takes. One thread.
class Workbench {
 public:
  /// Throws what compute::make_backend() throws.
  explicit Workbench(const compute::Setup&);

  bool on_gpu() const { return gpu_.has_value(); }
  compute::Backend& backend() { return *backend_; }
  std::unique_ptr<DeviceMemory> take(Bytes size) const { return std::make_unique<DeviceMemory>(gpu_ ? &*gpu_ : nullptr, size); }
  /// The same from `turns` on a GPU; nullptr where the host computes.
  std::byte* take_in_turn(TakenInTurns& turns, Bytes size) const { return gpu_ ? turns.take(*gpu_, size) : nullptr; }
  /// The first `filled` bytes of `total` over and over, on the device.
  void repeat(std::byte* at, std::int64_t filled, std::int64_t total);
  /// Values of the host to a place on the device; they are there when this returns.
  void put(std::byte* to, std::span<const std::byte> values);
  /// Until all that was enqueued is done.
  void wait() const;
  /// What stands on the device once its work is done: where the host computes, the place itself, else a copy that the next call replaces.
  std::span<const std::byte> get(const std::byte* from, std::size_t size);
  /// Of a GPU, its free memory; of the host nothing.
  std::optional<Bytes> free_memory() const;

  /// Around a run of work. Where calls return when the work is done, it takes what `clock` says. On a GPU an event follows each run, and a
  /// run takes the time since the event before it: with what the device waits for the host, as it does in a step.
  void start(Clock clock);
  void stop();
  /// Of the runs since the last call, in order. Waits for the device.
  std::vector<Seconds> times();

 private:
  std::optional<gpu::DeviceContext> gpu_;
  std::unique_ptr<compute::Backend> backend_;
  std::vector<std::byte> copied_;
  Clock clock_ = nullptr;
  Seconds started_{};
  std::vector<Seconds> times_;      ///< where the host computes
  std::vector<gpu::Event> events_;  ///< the first is before all runs
  std::size_t recorded_ = 0;        ///< events since the last times()
};

}  // namespace flotilla::probe
