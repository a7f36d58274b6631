#pragma once
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>

/// Runs CUDA C++ kernels on the host, for tests: g++ compiles the very sources with this header before them.
///
/// Every CUDA thread is a fiber of the calling thread. Fibers of a block take turns and switch only at barriers and warp operations; blocks
/// run one after the other. Orders can be shuffled. Found on the way: barriers that not all threads reach, masks that lie, asynchronous
/// copies that nobody waits for; with TSan races within and between blocks, with ASan accesses out of bounds.
///
/// Not here: wgmma, TMA, clusters, textures, dynamic parallelism, waiting for other blocks. Memory is sequentially consistent in a run.
namespace hostgpu {

struct Triple {
  unsigned x = 1, y = 1, z = 1;
};

/// What a kernel asks of its thread.
struct Place {
  Triple thread, block, block_size, grid;
};
extern thread_local constinit Place place;

struct Order {
  std::uint64_t seed = 0;  ///< 0: threads and blocks in their natural order
};

/// Runs `body` once as each thread of the grid.
void run(Triple grid, Triple block, std::size_t dynamic_shared, Order, void (*body)(void*), void* argument);
template <class Body>
void run(Triple grid, Triple block, std::size_t dynamic_shared, Order order, Body&& body) {
  run(
      grid, block, dynamic_shared, order, [](void* p) { (*static_cast<std::remove_reference_t<Body>*>(p))(); }, &body);
}

/// The block's shared variable of this key: NaN until written.
void* shared_variable(const void* key, std::size_t size);
void* dynamic_shared_memory();

/// Waits for the block; the number of threads with `vote`.
int barrier(bool vote, const char* site);
void order_memory();

/// What the lanes of a warp handed in, and what each gets.
struct Lanes {
  const std::uint64_t* in;
  std::uint64_t* out;
};
/// Every lane of `mask` comes with a value; the last computes all results by `whole`. `fence`: memory is ordered among them.
std::uint64_t collective(unsigned mask, std::uint64_t value, const char* what, bool fence, void (*whole)(Lanes, const void*),
                         const void* argument);

/// Bytes arrive when they are waited for and not before.
void copy_async(void* to, const void* from, unsigned size);
void commit_copies();
void wait_for_copies(unsigned groups_left);

[[noreturn]] void fail(const std::string&);

// What the stand-in itself does is no kernel's access.
#define HOSTGPU_QUIET __attribute__((no_sanitize("thread")))

template <class Value>
std::uint64_t pack(Value v) {
  static_assert(sizeof v <= 8);
  std::uint64_t bits = 0;
  std::memcpy(&bits, &v, sizeof v);
  return bits;
}
template <class Value>
Value unpack(std::uint64_t bits) {
  Value v;
  std::memcpy(&v, &bits, sizeof v);
  return v;
}

/// `source` of lane l; a lane outside the mask gives all ones: on a device it is undefined.
template <class Value, class Source>
Value shuffle(unsigned mask, Value v, const char* what, Source source) {
  struct Argument {
    unsigned mask;
    Source source;
  } argument{mask, source};
  const auto whole = [](Lanes lanes, const void* p) HOSTGPU_QUIET {
    const Argument& a = *static_cast<const Argument*>(p);
    for (int lane = 0; lane < 32; ++lane) {
      if (!(a.mask >> lane & 1)) continue;
      const int from = a.source(lane);
      lanes.out[lane] = a.mask >> from & 1 ? lanes.in[from] : ~std::uint64_t{0};
    }
  };
  return unpack<Value>(collective(mask, pack(v), what, false, whole, &argument));
}

inline unsigned ballot(unsigned mask, bool vote) {
  const auto whole = [](Lanes lanes, const void* p) HOSTGPU_QUIET {
    const unsigned all = *static_cast<const unsigned*>(p);
    std::uint64_t votes = 0;
    for (int lane = 0; lane < 32; ++lane)
      if (all >> lane & 1) votes |= lanes.in[lane] << lane;
    for (int lane = 0; lane < 32; ++lane)
      if (all >> lane & 1) lanes.out[lane] = votes;
  };
  return static_cast<unsigned>(collective(mask, vote, "__ballot_sync", false, whole, &mask));
}

/// ldmatrix.x4: lane i gives row i % 8 of matrix i / 8, and lane 4 g + t gets elements 2 t and 2 t + 1 of row g of each; of column g, where
/// `transposed`.
inline void load_matrices(std::uint32_t (&words)[4], const void* row, bool transposed) {
  if (reinterpret_cast<std::uintptr_t>(row) % 16) fail("ldmatrix: a row that is not aligned to 16 bytes");
  const unsigned lane = place.thread.x % 32;
  const unsigned group = lane / 4, pair = lane % 4 * 2;
  for (unsigned matrix = 0; matrix < 4; ++matrix) {
    const auto element = [&](unsigned r, unsigned c) {
      const auto source = [=](int asking) {
        return static_cast<int>(8 * matrix + (transposed ? static_cast<unsigned>(asking) % 4 * 2 + r : static_cast<unsigned>(asking) / 4));
      };
      return shuffle(~0u, static_cast<const std::uint16_t*>(row), "ldmatrix", source)[c];
    };
    const std::uint32_t first = transposed ? element(0, group) : element(0, pair);
    const std::uint32_t second = transposed ? element(1, group) : element(0, pair + 1);
    words[matrix] = first | second << 16;
  }
}

/// What a lane brings to mma.sync, and what it takes.
struct MmaLane {
  float* c;
  const std::uint32_t* a;
  std::uint32_t b[2];
  float (*widen)(std::uint16_t);

  HOSTGPU_QUIET float left(unsigned row, unsigned k) const { return widen(static_cast<std::uint16_t>(a[row + k / 8 * 2] >> k % 2 * 16)); }
  HOSTGPU_QUIET float right(unsigned k) const { return widen(static_cast<std::uint16_t>(b[k / 8] >> k % 2 * 16)); }
};

/// mma.sync.m16n8k16 with sums in fp32, one term after the other.
inline void multiply_add(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1, float (*widen)(std::uint16_t)) {
  const MmaLane mine{c, a, {b0, b1}, widen};
  const auto whole = [](Lanes lanes, const void*) HOSTGPU_QUIET {
    const auto lane = [&](unsigned i) HOSTGPU_QUIET { return unpack<const MmaLane*>(lanes.in[i]); };
    for (unsigned i = 0; i < 32; ++i)
      for (unsigned value = 0; value < 4; ++value) {
        const unsigned low = value / 2, column = i % 4 * 2 + value % 2;  // rows i / 4 and 8 below it
        float sum = lane(i)->c[value];
        for (unsigned k = 0; k < 16; ++k) sum += lane(i / 4 * 4 + k % 8 / 2)->left(low, k) * lane(column * 4 + k % 8 / 2)->right(k);
        lane(i)->c[value] = sum;
      }
  };
  collective(~0u, pack(&mine), "mma", false, whole, nullptr);
}

}  // namespace hostgpu

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)

struct alignas(16) float4 {
  float x, y, z, w;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};

#define threadIdx (hostgpu::place.thread)
#define blockIdx (hostgpu::place.block)
#define blockDim (hostgpu::place.block_size)
#define gridDim (hostgpu::place.grid)

#define HOSTGPU_TEXT(x) #x
#define HOSTGPU_LINE(x) HOSTGPU_TEXT(x)
#define HOSTGPU_SITE(what) what " at " __FILE__ ":" HOSTGPU_LINE(__LINE__)
#define __syncthreads() static_cast<void>(hostgpu::barrier(false, HOSTGPU_SITE("__syncthreads")))
#define __syncthreads_or(vote) (hostgpu::barrier((vote) != 0, HOSTGPU_SITE("__syncthreads_or")) != 0)

inline void __syncwarp(unsigned mask = ~0u) {
  hostgpu::collective(
      mask, 0, "__syncwarp", true, [](hostgpu::Lanes, const void*) {}, nullptr);
}
template <class Value>
Value __shfl_xor_sync(unsigned mask, Value v, int with) {
  return hostgpu::shuffle(mask, v, "__shfl_xor_sync", [with](int lane) { return lane ^ with; });
}
inline unsigned __ballot_sync(unsigned mask, int vote) { return hostgpu::ballot(mask, vote != 0); }
inline void __threadfence() { hostgpu::order_memory(); }
inline int __ffs(int bits) { return std::countr_zero(static_cast<unsigned>(bits)) + 1 - (bits == 0 ? 33 : 0); }
inline float rsqrtf(float x) { return 1.0f / std::sqrt(x); }

inline unsigned atomicInc(unsigned* at, unsigned limit) {
  unsigned old = __atomic_load_n(at, __ATOMIC_RELAXED);
  while (!__atomic_compare_exchange_n(at, &old, old >= limit ? 0 : old + 1, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
  return old;
}
