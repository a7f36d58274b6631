#pragma once
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "flotilla/compute/backend.hpp"

/// FLOTILLA_TEST_DEVICE=gpu: suites that were written for the CPU run their operations on a GPU.
namespace flotilla::compute::test {

/// One piece of host memory for all operands of a test, begun anew when nothing of it is in use.
class Pool {
 public:
  /// 64-byte aligned.
  std::span<std::byte> take(std::size_t bytes);
  void give_back();
  /// What was taken since the beginning.
  std::span<std::byte> used() { return {start_, used_}; }

 private:
  static constexpr std::size_t most = 64 << 20;
  std::vector<std::byte> bytes_{most + 64};
  std::byte* start_ = bytes_.data() + (64 - reinterpret_cast<std::uintptr_t>(bytes_.data()) % 64) % 64;
  std::size_t used_ = 0;
  int in_use_ = 0;
};
Pool& pool();

/// Of the device that the environment names. That of a GPU copies the pool there, runs the operation on the copy and copies all of it back.
std::unique_ptr<Backend> make_test_backend(const Setup&, int sequences);

/// Kernels, products and copies that the last run of each operation put on the stand-in's stream; empty on other devices.
const std::map<model::Operation, std::int64_t>& enqueued();

}  // namespace flotilla::compute::test
