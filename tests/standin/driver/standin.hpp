#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "driver_api.hpp"
#include "host_kernels.hpp"

/// A libcuda.so.1 for tests, without a GPU: the functions of driver_api.hpp as NVIDIA documents them, and nothing else.
///
///   FLOTILLA_STANDIN_DEVICES   types of its devices: "h100,a100" (t4 a100 a100-mig h100 b200 rtx5090; default h100; empty: none)
///   FLOTILLA_STANDIN_MEMORY    bytes of each device (default 1 GiB)
///   FLOTILLA_STANDIN_KERNELS   the library of kernels that launches run (host_kernels.hpp)
///   FLOTILLA_STANDIN_FAULTS    "alloc@3=2,launch@10=719,copy@4=700": the n-th of its kind ends with this error; from 700 on errors stick.
///                              "hang@2": the second launch never ends. "init@1=35", "lost@40=999": from the 40th operation on, all do.
///                              "forget@7": no stream ever waits for the seventh event
///   FLOTILLA_STANDIN_XID       number that NVML reports, once, of a device in error
///   FLOTILLA_STANDIN_ECC, FLOTILLA_STANDIN_HOT  memory errors and heat that NVML reports (nvml.cpp)
///   FLOTILLA_STANDIN_WRONG     ordinal of a device of which every copy to the host has one bit flipped
///   FLOTILLA_STANDIN_DELAY_US  each operation of a stream sleeps up to so long
///   FLOTILLA_STANDIN_CUDA_AWARE ranks whose host may follow a device's addresses, "all" or "0,2" (tests/standin/mpi); default none
///   FLOTILLA_STANDIN_LEAKS     at the process's end, allocations that were never freed are told on standard error
namespace flotilla::standin {

namespace api = gpu::driver;
using api::Result;

// devices.cpp
struct DeviceType {
  const char *key, *name;
  int major, minor, multiprocessors, shared_per_block, shared_per_multiprocessor, threads_per_multiprocessor;
};
const std::vector<const DeviceType*>& device_types();  ///< of the devices that this process sees
inline int device_count() { return static_cast<int>(device_types().size()); }
/// The context current on this thread, as a device; -1: none.
int current_device();

// faults.cpp
enum class Kind { init, alloc, launch, copy, query, hang, lost, forget };
/// Counts one operation of the kind. Its error, or that which sticks.
Result fault(Kind);
/// Counts one operation of a kind that returns no error, hang or forget: whether it is one of those named.
bool happens(Kind);
void stick(Result);
Result stuck();
std::string setting(const char* name, const char* otherwise);
void delay();

// memory.cpp: device addresses lie in a window that nobody may touch; what stands there lies elsewhere.
struct Allocation {
  std::size_t size;
  int device;
};
bool is_device(const void*);
/// Whose memory a device address is.
int device_of(const void*);
/// Where the host's own code finds it; a host address as it is.
void* host_view(const void*);
/// Whether [at, at + size) is inside one live allocation.
bool allocated(const void* at, std::size_t size);

// streams.cpp. Nothing orders memory but what orders it on a device: a host that enqueues learns nothing of what the stream has done, and a
// query that says "not yet" neither. Else TSan could not tell what events leave unordered. Hence no mutex between host and stream.
struct EventImpl {
  std::atomic<std::uint64_t> recorded{0}, done{0};
  bool forgotten = false;  ///< a planted fault: streams go on without it
  std::chrono::steady_clock::time_point at;
};
/// Whether the count has come so far; then, and only then, what came before it is seen.
bool reached(const std::atomic<std::uint64_t>& count, std::uint64_t goal);

using Work = std::function<void()>;
class StreamImpl {
 public:
  explicit StreamImpl(int device);
  ~StreamImpl();
  StreamImpl(const StreamImpl&) = delete;
  StreamImpl& operator=(const StreamImpl&) = delete;
  /// Returns at once; the thread ends when its work is done.
  static void retire(std::shared_ptr<StreamImpl>);
  void add(Work);
  bool idle();
  void drain();
  bool begin_capture();
  std::optional<std::vector<Work>> end_capture();
  bool capturing();
  const int device;

 private:
  struct Node {
    Work work;  ///< none: the end
    std::atomic<Node*> next{nullptr};
  };
  static void run(std::shared_ptr<StreamImpl>);
  void push(Work);
  friend std::shared_ptr<StreamImpl> make_stream(int device);
  std::mutex host_mutex_;  // among threads of the host
  Node *last_, *first_;
  int wake_;  // an eventfd: a write is seen by the read after it, not the other way round
  std::atomic<std::uint64_t> done_{0};
  std::uint64_t pushed_ = 0;
  std::optional<std::vector<Work>> capture_;
};
std::shared_ptr<StreamImpl> make_stream(int device);
/// Of the handle that make_stream's caller published; null: none such. The legacy stream is none: the product must not use it.
std::shared_ptr<StreamImpl> find_stream(api::Stream);
void drain_all();

// kernels.cpp
struct KernelImpl {
  const HostKernel* host = nullptr;
  std::string name;
  int dynamic_shared = 48 << 10;
};

}  // namespace flotilla::standin

/// Every function of the table is defined in these sources, with the types of the table.
#define FLOTILLA_DECLARE(name, ...) extern "C" __attribute__((visibility("default"))) flotilla::gpu::driver::Result name(__VA_ARGS__);
namespace flotilla::gpu::driver {
FLOTILLA_DRIVER_FUNCTIONS(FLOTILLA_DECLARE)
}
#undef FLOTILLA_DECLARE
