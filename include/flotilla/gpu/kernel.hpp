#pragma once
#include <array>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <type_traits>

#include "flotilla/gpu/device.hpp"

namespace flotilla::gpu {

/// How many blocks, of how many threads, with how much shared memory beside the kernel's own.
struct LaunchShape {
  std::int64_t blocks_x = 1, blocks_y = 1, blocks_z = 1;
  int threads = 1;
  Bytes shared{};
};

/// A kernel of a module, by its name there, on one device.
class Kernel {
 public:
  Kernel() = default;
  /// Each argument must have the very type of the kernel's parameter. A grid of no block is no work. Throws Error{unavailable} when the
  /// driver refuses, Error{internal} when the shape is none that devices have.
  template <class... Arguments>
  void launch(const Stream& stream, const LaunchShape& shape, Arguments... arguments) const {
    static_assert((std::is_trivially_copyable_v<Arguments> && ...));
    std::array<void*, sizeof...(Arguments)> places{&arguments...};
    launch_with(stream, shape, places);
  }
  /// The same, with the arguments' places.
  void launch_with(const Stream&, const LaunchShape&, std::span<void*> arguments) const;

 private:
  friend class Module;
  struct State;
  std::shared_ptr<State> state_;
};

/// As much dynamic shared memory as a block of the device has beside the kernel's own variables.
inline constexpr Bytes all_shared{std::numeric_limits<std::int64_t>::max()};

/// A fatbin or cubin, loaded for a device.
class Module {
 public:
  Module() = default;
  /// `image` stays where it is as long as the module. Throws Error{unavailable} when it holds no code for the device.
  Module(const DeviceContext&, std::span<const std::byte> image);
  /// `most_shared`: of dynamic shared memory that a launch will ask for. Throws Error{unavailable} where there is no such kernel, or where
  /// a block of the device has not so much beside the kernel's own variables.
  Kernel kernel(const std::string& name, Bytes most_shared = {}) const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

/// Work of a stream, recorded once and enqueued as one.
class Graph {
 public:
  Graph() = default;
  /// What `work` enqueues on `stream`, which runs none of it.
  template <class Work>
  static Graph record(Stream& stream, Work&& work) {
    begin(stream);
    try {
      work();
    } catch (...) {
      abandon(stream);
      throw;
    }
    return end(stream);
  }
  void launch(Stream&) const;

 private:
  static void begin(Stream&);
  static Graph end(Stream&);
  static void abandon(Stream&) noexcept;
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace flotilla::gpu
