#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "standin.hpp"

namespace flotilla::standin {
namespace {

constexpr std::size_t window = 64ull << 30, per_device = window / 16, page = 4096, granule = 512;

char* reserve(int protection) {
  return static_cast<char*>(mmap(nullptr, window, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
}

/// As an MPI library does that takes device memory: in ranks that ask for one (tests/standin/mpi).
bool host_may_follow() {
  const auto asked = setting("FLOTILLA_STANDIN_CUDA_AWARE", ""), rank = setting("OMPI_COMM_WORLD_RANK", "0");
  return asked == "all" || ("," + asked + ",").find("," + rank + ",") != std::string::npos;
}

struct Memory {
  const bool readable = host_may_follow();
  char *forbidden = reserve(readable ? PROT_READ | PROT_WRITE : PROT_NONE), *real = readable ? forbidden : reserve(PROT_READ | PROT_WRITE);
  std::mutex mutex;
  std::map<const char*, Allocation> live;
  std::size_t used[16]{}, next[16]{};

  ~Memory() {
    if (!live.empty() && std::getenv("FLOTILLA_STANDIN_LEAKS"))
      std::fprintf(stderr, "stand-in driver: %zu allocations were never freed\n", live.size());
  }
};

Memory& memory() {
  static Memory m;
  return m;
}

std::size_t rounded(std::size_t size, std::size_t to) { return (size + to - 1) / to * to; }

}  // namespace

bool is_device(const void* p) {
  const char* at = static_cast<const char*>(p);
  return at >= memory().forbidden && at < memory().forbidden + window;
}

int device_of(const void* p) {
  return static_cast<int>((static_cast<const char*>(p) - memory().forbidden) / static_cast<std::ptrdiff_t>(per_device));
}

void* host_view(const void* p) {
  char* at = static_cast<char*>(const_cast<void*>(p));
  return is_device(p) ? memory().real + (at - memory().forbidden) : at;
}

bool allocated(const void* p, std::size_t size) {
  Memory& m = memory();
  const char* at = static_cast<const char*>(p);
  const std::lock_guard lock{m.mutex};
  auto found = m.live.upper_bound(at);
  if (found == m.live.begin()) return false;
  --found;
  return at + size <= found->first + found->second.size;
}

std::size_t capacity() {
  static const std::size_t bytes = std::strtoull(setting("FLOTILLA_STANDIN_MEMORY", "1073741824").c_str(), nullptr, 10);
  return bytes;
}

extern "C" __attribute__((visibility("default"))) void flotilla_standin_memory(int device, unsigned long long* used,
                                                                               unsigned long long* total) {
  const std::lock_guard lock{memory().mutex};
  *used = memory().used[device];
  *total = capacity();
}
/// For stand-ins of libraries that work on device memory.
/// Takes so much, for good, of the device on which an address stands: 0 where it is no device's.
extern "C" __attribute__((visibility("default"))) int flotilla_standin_keep(const void* p, std::size_t size) {
  if (!is_device(p)) return 0;
  Memory& m = memory();
  const std::lock_guard lock{m.mutex};
  m.used[device_of(p)] += rounded(size, granule);
  return 1;
}
extern "C" __attribute__((visibility("default"))) int flotilla_standin_is_device(const void* p) { return is_device(p) ? 1 : 0; }
extern "C" __attribute__((visibility("default"))) int flotilla_standin_host_may_follow() { return memory().readable ? 1 : 0; }
extern "C" __attribute__((visibility("default"))) void* flotilla_standin_host_view(const void* p) { return host_view(p); }

}  // namespace flotilla::standin

namespace flotilla::gpu::driver {

using namespace standin;

Result cuDeviceTotalMem_v2(std::size_t* bytes, DeviceOrdinal device) {
  if (device < 0 || device >= device_count()) return invalid_device;
  *bytes = capacity();
  return success;
}

Result cuMemGetInfo_v2(std::size_t* free, std::size_t* total) {
  const int device = current_device();
  if (device < 0) return invalid_context;
  const std::lock_guard lock{memory().mutex};
  *total = capacity();
  *free = capacity() - memory().used[device];
  return success;
}

/// No address is handed out twice, so what is used after it was freed shows; but from the beginning, once half of them were and all are
/// free.
Result cuMemAlloc_v2(Address* address, std::size_t size) {
  const int device = current_device();
  if (device < 0) return invalid_context;
  if (const Result failed = fault(Kind::alloc)) return failed;
  if (size == 0) return invalid_value;
  Memory& m = memory();
  const std::lock_guard lock{m.mutex};
  const std::size_t taken = rounded(size, granule);
  if (m.used[device] == 0 && m.next[device] > per_device / 2) m.next[device] = 0;
  if (m.used[device] + taken > capacity() || m.next[device] + rounded(size, page) + page > per_device) return out_of_memory;
  char* at = m.forbidden + static_cast<std::size_t>(device) * per_device + m.next[device];
  m.next[device] += rounded(size, page) + page;
  m.used[device] += taken;
  m.live[at] = {size, device};
  mprotect(host_view(at), rounded(size, page), PROT_READ | PROT_WRITE);
  std::memset(host_view(at), 0xff, size);  // NaN: a device's memory is not zero
  *address = reinterpret_cast<Address>(at);
  return success;
}

Result cuMemFree_v2(Address address) {
  drain_all();
  Memory& m = memory();
  const std::lock_guard lock{m.mutex};
  const auto found = m.live.find(reinterpret_cast<const char*>(address));
  if (found == m.live.end()) return invalid_value;
  m.used[found->second.device] -= rounded(found->second.size, granule);
  mmap(host_view(found->first), found->second.size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  m.live.erase(found);
  return success;
}

Result cuMemHostAlloc(void** at, std::size_t size, unsigned) {
  *at = std::aligned_alloc(page, rounded(size, page));
  return *at ? success : out_of_memory;
}

/// Waits as cuMemFree does: a copy that runs goes on after an error, too.
Result cuMemFreeHost(void* at) {
  drain_all();
  std::free(at);
  return success;
}

}  // namespace flotilla::gpu::driver
