#include "arena.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "flotilla/base/error.hpp"

namespace flotilla::train {
namespace {

constexpr std::int64_t page = 4096;

std::size_t mapped(Bytes size) { return static_cast<std::size_t>(align_up({std::max<std::int64_t>(size.count, 1)}, page).count); }

}  // namespace

Arena::Arena(Bytes size) : size_{size} {
  void* memory = mmap(nullptr, mapped(size), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  FLOTILLA_REQUIRE(memory != MAP_FAILED, ErrorKind::unavailable, "cannot take ", size, " of memory for the arena (", std::strerror(errno),
                   "); use more ranks, a smaller microbatch or --plan.recompute full");
  base_ = static_cast<std::byte*>(memory);
  madvise(memory, mapped(size), MADV_HUGEPAGE);  // fewer TLB misses where the kernel has huge pages; no matter where it has none
  for (std::int64_t offset = 0; offset < size.count; offset += page) base_[offset] = std::byte{0};
}

Arena::Arena(const gpu::DeviceContext& device, Bytes size)
    : on_gpu_{device.make_buffer(Bytes{std::max<std::int64_t>(size.count, 1)})}, base_{on_gpu_.data().address}, size_{size} {}

Arena::~Arena() {
  if (on_gpu_.size().count == 0) munmap(base_, mapped(size_));
}

}  // namespace flotilla::train
