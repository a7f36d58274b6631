// Compiled without sanitizers' instrumentation: it tells them of fibers and barriers itself.
#include <sys/mman.h>

#include <boost/context/detail/fcontext.hpp>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "host_gpu.hpp"
#undef threadIdx
#undef blockIdx
#undef blockDim
#undef gridDim

extern "C" {  // there when the program is built with that sanitizer
[[gnu::weak]] void* __tsan_get_current_fiber();
[[gnu::weak]] void* __tsan_create_fiber(unsigned);
[[gnu::weak]] void __tsan_switch_to_fiber(void*, unsigned);
[[gnu::weak]] void __tsan_destroy_fiber(void*);
[[gnu::weak]] void __tsan_acquire(void*);
[[gnu::weak]] void __tsan_release(void*);
[[gnu::weak]] void __tsan_read_range(void*, unsigned long);
[[gnu::weak]] void __tsan_write_range(void*, unsigned long);
[[gnu::weak]] void __asan_poison_memory_region(const volatile void*, std::size_t);
[[gnu::weak]] void __asan_unpoison_memory_region(const volatile void*, std::size_t);
[[gnu::weak]] void __sanitizer_start_switch_fiber(void**, const void*, std::size_t);
[[gnu::weak]] void __sanitizer_finish_switch_fiber(void*, const void**, std::size_t*);
}

namespace hostgpu {
namespace {

namespace context = boost::context::detail;

constexpr std::size_t stack_bytes = 32 << 10, shared_bytes = 256 << 10, red_zone = 128;
constexpr unsigned most_threads = 1024, most_copies = 256, most_groups = 16, most_variables = 64, warp_size = 32;
/// TSan's fibers are dear, so launches use them again: launches are ordered anyway. Within a launch each block has its own as long as there
/// are some, and later blocks take those of earlier ones, which hides races between these blocks.
constexpr unsigned most_tsan_fibers = 2048;
constexpr unsigned no_order = 1;  // a switch of fibers orders nothing

// Loops, not memset or memcpy: TSan's interceptors would take them for the kernel's.
void fill_with_nan(void* at, std::size_t size) {
  for (volatile char *p = static_cast<char*>(at), *end = p + size; p != end; ++p) *p = static_cast<char>(0xff);
}
void copy_quietly(void* to, const void* from, std::size_t size) {
  for (std::size_t i = 0; i < size; ++i) static_cast<volatile char*>(to)[i] = static_cast<const volatile char*>(from)[i];
}
void acquire(void* p) {
  if (__tsan_acquire) __tsan_acquire(p);
}
void release(void* p) {
  if (__tsan_release) __tsan_release(p);
}
void tell_read(const void* p, std::size_t size) {
  if (__tsan_read_range) __tsan_read_range(const_cast<void*>(p), size);
}
void tell_write(void* p, std::size_t size) {
  if (__tsan_write_range) __tsan_write_range(p, size);
}
char* map(void* at, std::size_t size) {
  const int fixed = at ? MAP_FIXED : 0;
  return static_cast<char*>(mmap(at, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | fixed, -1, 0));
}

/// Of what fibers handle: a std::vector's allocations and moves would be TSan's to see.
template <class Value, unsigned most>
struct Few {
  Value values[most];
  unsigned count = 0;
  void push(const Value& v, const char* what) {
    if (count == most) fail(std::string{"too many "} + what);
    copy_quietly(&values[count++], &v, sizeof v);
  }
  void drop_front(unsigned n) {
    for (unsigned i = n; i < count; ++i) copy_quietly(&values[i - n], &values[i], sizeof(Value));
    count -= n;
  }
};

struct Copy {
  void* to;
  unsigned size;
  unsigned char bytes[16];
};

struct Fiber {
  Place place;
  unsigned number = 0;  ///< in the block
  bool ended = false;
  const char* waits_at = nullptr;
  context::fcontext_t at = nullptr;
  char* stack = nullptr;
  void *tsan = nullptr, *fake_stack = nullptr;
  Few<Copy, most_copies> copies;
  Few<unsigned, most_groups> groups;  ///< copies in each group that was committed
  unsigned committed = 0;
};

struct Warp {
  unsigned arrived = 0, mask = 0, alive = 0, generation = 0, readers = 0;
  const char* what = nullptr;
  std::uint64_t in[warp_size], out[warp_size];
};

struct Variable {
  const void* key;
  char* at;
};

/// The block that this thread runs, and the means to run it, which the next one uses again.
struct Block {
  std::vector<Fiber> fibers{most_threads};
  std::vector<Warp> warps;
  std::vector<unsigned> order;
  Few<Variable, most_variables> variables;
  char *stacks = map(nullptr, stack_bytes*most_threads), *shared = map(nullptr, shared_bytes), *free_shared = shared, *dynamic = nullptr;
  /// Places that stand for barriers, new ones for each block, or blocks would seem ordered: [0] the block's, then the warps'.
  char* places = nullptr;
  unsigned count = 0, alive = 0, arrived = 0, generation = 0, turn = 0;
  int votes = 0, last_votes = 0;
  const char* site = nullptr;
  std::uint64_t progress = 0;
  void (*body)(void*) = nullptr;
  void* argument = nullptr;
  std::vector<void*> tsan_fibers;
  unsigned next_tsan_fiber = 0;
  context::fcontext_t home = nullptr;
  void *tsan_home = nullptr, *fake_home = nullptr;
  const void* home_stack = nullptr;
  std::size_t home_size = 0;
  char start_place = 0, end_place = 0;

  Block() = default;
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  ~Block() {  // a stream's thread ends; TSan has 8,128 threads and fibers in all
    for (void* fiber : tsan_fibers) __tsan_destroy_fiber(fiber);
    munmap(stacks, stack_bytes * most_threads);
    munmap(shared, shared_bytes);
  }
};

thread_local Block* block = nullptr;
thread_local Fiber* current = nullptr;

std::string name(const Fiber& f) {
  const Triple& b = f.place.block;
  return "block " + std::to_string(b.x) + "," + std::to_string(b.y) + "," + std::to_string(b.z) + " thread " + std::to_string(f.number);
}

/// To a fiber, or home where there is none.
void switch_to(Fiber* to) {
  Block& b = *block;
  Fiber* from = current;
  if (__sanitizer_start_switch_fiber) {
    void** keep = !from ? &b.fake_home : from->ended ? nullptr : &from->fake_stack;
    __sanitizer_start_switch_fiber(keep, to ? to->stack : b.home_stack, to ? stack_bytes : b.home_size);
  }
  if (__tsan_switch_to_fiber) __tsan_switch_to_fiber(to ? to->tsan : b.tsan_home, no_order);
  current = to;
  const context::transfer_t back = context::jump_fcontext(to ? to->at : b.home, from);
  (back.data ? static_cast<Fiber*>(back.data)->at : b.home) = back.fctx;
  current = from;
  if (__sanitizer_finish_switch_fiber) __sanitizer_finish_switch_fiber(from ? from->fake_stack : b.fake_home, nullptr, nullptr);
}

/// The next in order that has not ended; null: only `except`, or none.
Fiber* next_fiber(const Fiber* except) {
  Block& b = *block;
  for (unsigned i = 0; i < b.count; ++i) {
    b.turn = b.turn + 1 == b.count ? 0 : b.turn + 1;
    Fiber& f = b.fibers[b.order[b.turn]];
    if (!f.ended) return &f == except ? nullptr : &f;
  }
  return nullptr;
}

[[noreturn]] void fail_deadlock(const char* what) {
  std::string text = "deadlock: " + name(*current) + " waits at " + what;
  int told = 0;
  for (unsigned i = 0; i < block->count; ++i) {
    const Fiber& f = block->fibers[i];
    if (!f.ended && f.waits_at != what && told++ < 3) text += ", " + name(f) + " at " + (f.waits_at ? f.waits_at : "nothing");
  }
  fail(text);
}

template <class Done>
void wait_until(const char* what, Done done) {
  Block& b = *block;
  Fiber& me = *current;
  me.waits_at = what;
  std::uint64_t seen = b.progress;
  for (unsigned idle = 0; !done();) {
    if (Fiber* f = next_fiber(&me)) switch_to(f);
    idle = b.progress == seen ? idle + 1 : 0;
    seen = b.progress;
    if (idle > 2 * b.count + 2) fail_deadlock(what);
  }
  me.waits_at = nullptr;
}

void open_barrier() {
  Block& b = *block;
  b.arrived = 0;
  b.last_votes = std::exchange(b.votes, 0);
  b.site = nullptr;
  ++b.generation;
  ++b.progress;
}

void live(context::transfer_t from) {
  Block& b = *block;
  Fiber& me = *current;
  (from.data ? static_cast<Fiber*>(from.data)->at : b.home) = from.fctx;
  if (__sanitizer_finish_switch_fiber) {
    const void* bottom = nullptr;
    std::size_t size = 0;
    __sanitizer_finish_switch_fiber(nullptr, &bottom, &size);
    if (!from.data) {
      b.home_stack = bottom;
      b.home_size = size;
    }
  }
  acquire(&b.start_place);
  b.body(b.argument);
  if (me.copies.count > 0) fail(name(me) + " ends with asynchronous copies that nobody waited for");
  me.ended = true;
  --b.alive;
  ++b.progress;
  b.warps[me.number / warp_size].alive &= ~(1u << me.number % warp_size);
  release(&b.end_place);
  if (b.alive > 0 && b.arrived == b.alive) open_barrier();  // as on a device, who has ended does not count
  switch_to(next_fiber(nullptr));
  __builtin_unreachable();
}

char* take_shared(std::size_t size) {
  Block& b = *block;
  char* at = b.free_shared;
  if (at + size + red_zone > b.shared + shared_bytes) fail("too much shared memory");
  if (__asan_unpoison_memory_region) __asan_unpoison_memory_region(at, size);
  fill_with_nan(at, size);
  b.free_shared = at + (size + red_zone - 1) / red_zone * red_zone + red_zone;
  return at;
}

char* sync_place(unsigned which) { return block->places + sizeof(std::uint64_t) * which; }

/// Never given back: their addresses must not be used twice.
char* new_places(unsigned count) {
  static thread_local char *area = nullptr, *end = nullptr;
  constexpr std::size_t page = 1 << 20;
  const std::size_t size = sizeof(std::uint64_t) * count;
  if (static_cast<std::size_t>(end - area) < size) {
    area = map(nullptr, page);
    end = area + page;
  }
  return std::exchange(area, area + size);
}

void* tsan_fiber() {
  Block& b = *block;
  if (b.next_tsan_fiber == b.tsan_fibers.size()) b.tsan_fibers.push_back(__tsan_create_fiber(0));
  return b.tsan_fibers[b.next_tsan_fiber++];
}

void start_fiber(unsigned number, Triple block_size) {
  Block& b = *block;
  Fiber& f = b.fibers[number];
  f.number = number;
  f.place.thread = {number % block_size.x, number / block_size.x % block_size.y, number / block_size.x / block_size.y};
  f.ended = false;
  f.waits_at = nullptr;
  f.fake_stack = nullptr;
  f.copies.count = f.groups.count = 0;
  f.committed = 0;
  f.stack = b.stacks + stack_bytes * number;
  f.at = context::make_fcontext(f.stack + stack_bytes, stack_bytes, live);
  if (__tsan_create_fiber) f.tsan = tsan_fiber();
  b.warps[number / warp_size].alive |= 1u << number % warp_size;
}

/// Fresh stacks and shared memory: what stood there belongs to no thread of this block.
void forget_memory() {
  Block& b = *block;
  if (__tsan_create_fiber) {
    map(b.shared, static_cast<std::size_t>(b.free_shared - b.shared));
    map(b.stacks, stack_bytes * b.count);
  }
  if (__asan_poison_memory_region) __asan_poison_memory_region(b.shared, shared_bytes);
  b.free_shared = b.shared;
  release(&b.start_place);  // the block's threads begin after this
}

void run_block(Triple block_size, std::size_t dynamic_shared, std::mt19937_64* random) {
  Block& b = *block;
  b.count = b.alive = block_size.x * block_size.y * block_size.z;
  b.arrived = b.turn = 0;
  b.votes = 0;
  b.site = nullptr;
  b.variables.count = 0;
  forget_memory();
  if (b.next_tsan_fiber + b.count > most_tsan_fibers) b.next_tsan_fiber = 0;
  b.dynamic = dynamic_shared > 0 ? take_shared(dynamic_shared) : nullptr;
  b.warps.assign((b.count + warp_size - 1) / warp_size, {});
  b.places = new_places(1 + static_cast<unsigned>(b.warps.size()));
  b.order.resize(b.count);
  for (unsigned i = 0; i < b.count; ++i) {
    b.order[i] = i;
    start_fiber(i, block_size);
  }
  if (random) std::shuffle(b.order.begin(), b.order.end(), *random);
  switch_to(&b.fibers[b.order[0]]);
}

}  // namespace

const Place& here() { return current->place; }

void fail(const std::string& what) {
  std::fprintf(stderr, "host gpu: %s\n", what.c_str());
  std::fflush(stderr);
  std::_Exit(86);
}

void order_memory() {
  static char everybody;
  acquire(&everybody);
  release(&everybody);
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

void copy_async(void* to, const void* from, unsigned size) {
  Fiber& me = *current;
  if ((reinterpret_cast<std::uintptr_t>(to) | reinterpret_cast<std::uintptr_t>(from)) % size)
    fail(name(me) + ": an asynchronous copy is not aligned");
  Copy copy{to, size, {}};
  tell_read(from, size);
  copy_quietly(copy.bytes, from, size);
  tell_write(to, size);
  fill_with_nan(to, size);
  me.copies.push(copy, "asynchronous copies at once");
}

void commit_copies() {
  Fiber& me = *current;
  me.groups.push(me.copies.count - me.committed, "groups of asynchronous copies");
  me.committed = me.copies.count;
}

void wait_for_copies(unsigned groups_left) {
  Fiber& me = *current;
  while (me.groups.count > groups_left) {
    const unsigned arriving = me.groups.values[0];
    for (unsigned i = 0; i < arriving; ++i) {
      const Copy& copy = me.copies.values[i];
      tell_write(copy.to, copy.size);
      copy_quietly(copy.to, copy.bytes, copy.size);
    }
    me.copies.drop_front(arriving);
    me.groups.drop_front(1);
    me.committed -= arriving;
  }
}

void* shared_variable(const void* key, std::size_t size) {
  auto& variables = block->variables;
  for (unsigned i = 0; i < variables.count; ++i)
    if (variables.values[i].key == key) return variables.values[i].at;
  variables.push({key, take_shared(size)}, "shared variables");
  return variables.values[variables.count - 1].at;
}

void* dynamic_shared_memory() { return block->dynamic; }

int barrier(bool vote, const char* site) {
  Block& b = *block;
  ++b.progress;
  if (b.arrived > 0 && std::strcmp(b.site, site) != 0)
    fail(name(*current) + " is at " + site + " while others of its block are at " + b.site);
  release(sync_place(0));
  const unsigned mine = b.generation;
  b.votes += vote;
  b.site = site;
  if (++b.arrived == b.alive)
    open_barrier();
  else
    wait_until(site, [&] { return b.generation != mine; });
  acquire(sync_place(0));
  return b.last_votes;
}

std::uint64_t collective(unsigned mask, std::uint64_t value, const char* what, bool fence, void (*whole)(Lanes, const void*),
                         const void* argument) {
  Block& b = *block;
  const Fiber& me = *current;
  const unsigned lane = me.number % warp_size, number = me.number / warp_size;
  Warp& w = b.warps[number];
  if (!(mask >> lane & 1)) fail(name(me) + ": its own lane is not in the mask of " + what);
  if (mask & ~w.alive) fail(name(me) + ": the mask of " + what + " names lanes that are not there");
  wait_until(what, [&] { return w.readers == 0; });  // the operation before is still being read
  if (w.arrived && (std::strcmp(w.what, what) != 0 || w.mask != mask))
    fail(name(me) + " is at " + what + " while its warp is at " + w.what + ", or with another mask");
  if (fence) release(sync_place(1 + number));
  w.what = what;
  w.mask = mask;
  w.in[lane] = value;
  w.arrived |= 1u << lane;
  ++b.progress;
  const unsigned mine = w.generation;
  if (w.arrived == mask) {
    whole({w.in, w.out}, argument);
    w.arrived = 0;
    w.readers = static_cast<unsigned>(std::popcount(mask));
    ++w.generation;
  } else {
    wait_until(what, [&] { return w.generation != mine; });
  }
  const std::uint64_t result = w.out[lane];
  --w.readers;
  ++b.progress;
  if (fence) acquire(sync_place(1 + number));
  return result;
}

void run(Triple grid, Triple block_size, std::size_t dynamic_shared, Order order, void (*body)(void*), void* argument) {
  static thread_local const auto mine = std::make_unique<Block>();
  block = mine.get();
  Block& b = *block;
  b.body = body;
  b.argument = argument;
  b.tsan_home = __tsan_get_current_fiber ? __tsan_get_current_fiber() : nullptr;
  std::mt19937_64 random{order.seed};
  std::vector<std::uint64_t> blocks(std::uint64_t{grid.x} * grid.y * grid.z);
  for (std::uint64_t i = 0; i < blocks.size(); ++i) blocks[i] = i;
  if (order.seed) std::shuffle(blocks.begin(), blocks.end(), random);
  for (Fiber& f : b.fibers) {
    f.place.block_size = block_size;
    f.place.grid = grid;
  }
  b.next_tsan_fiber = 0;
  for (const std::uint64_t i : blocks) {
    const Triple place{static_cast<unsigned>(i % grid.x), static_cast<unsigned>(i / grid.x % grid.y),
                       static_cast<unsigned>(i / grid.x / grid.y)};
    for (Fiber& f : b.fibers) f.place.block = place;
    run_block(block_size, dynamic_shared, order.seed ? &random : nullptr);
  }
  acquire(&b.end_place);
}

}  // namespace hostgpu
