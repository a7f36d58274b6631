#pragma once
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstdlib>
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "flotilla/base/error.hpp"
#include "flotilla/gpu/device.hpp"
#include "flotilla/nccl/communicator.hpp"
#include "support/child.hpp"
#include "support/waiting.hpp"

namespace flotilla::nccl::testing {

constexpr Seconds limit = flotilla::tests::hang_bound();

/// A process of a test: its stand-in device, a stream, and memory of the device by name of its use.
struct Member {
  int index, count;
  gpu::DeviceContext device = gpu::DeviceContext::open(0);
  gpu::Stream stream = device.make_stream();
  std::deque<gpu::DeviceBuffer> arenas{};

  /// `values` on the device, there in time for what is enqueued on `stream` afterwards.
  template <class T>
  gpu::DevicePointer upload(const std::vector<T>& values) {
    arenas.push_back(device.make_buffer(Bytes{static_cast<std::int64_t>(values.size() * sizeof(T))}));
    stream.copy_to_device(arenas.back().data(), std::as_bytes(std::span{values}));
    stream.wait(limit);
    return arenas.back().data();
  }
  template <class T>
  std::vector<T> download(gpu::DevicePointer from, std::size_t size) {
    std::vector<T> values(size);
    stream.copy_to_host(std::as_writable_bytes(std::span{values}), from);
    stream.wait(limit);
    return values;
  }
  NcclCommunicator join(const UniqueId& id, const std::string& name = "test group", Seconds patience = limit) const {
    auto c = NcclCommunicator::join(device, id, count, index, name, patience);
    c.await_ready();
    return c;
  }
};

/// Runs `body` in `count` processes of their own; their exit codes, 1 where an expectation failed. `faults` as the stand-in reads them.
inline std::vector<int> run_members(int count, const std::function<void(Member&)>& body, const std::string& faults = "") {
  std::deque<tests::Child> children;
  for (int i = 0; i < count; ++i)
    children.emplace_back([&, i] {
      setenv("FLOTILLA_STANDIN_RANK", std::to_string(i).c_str(), 1);
      setenv("FLOTILLA_STANDIN_NCCL_FAULTS", faults.c_str(), 1);
      Member member{i, count};
      body(member);
      return ::testing::Test::HasFailure() ? 1 : 0;
    });
  std::vector<int> codes;
  for (auto& child : children) codes.push_back(child.wait());
  return codes;
}

inline std::string error_of(const std::function<void()>& work, ErrorKind expected = ErrorKind::communication) {
  try {
    work();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), expected) << error.what();
    return error.what();
  }
  return "";
}

}  // namespace flotilla::nccl::testing
