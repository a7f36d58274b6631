// Compiled without sanitizers' instrumentation: it tells them of fibers and barriers itself.
#include <sys/mman.h>

#include <boost/context/detail/fcontext.hpp>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <numeric>
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
/// Stacks begin in lines of their own of the cache, or those of a warp would push each other out of it.
constexpr std::size_t line = 64, lines_of_beginnings = 61, stride_of_beginnings = 9;
constexpr unsigned most_threads = 1024, most_copies = 256, most_groups = 16, most_variables = 64, warp_size = 32;
/// TSan's fibers are dear, so launches use them again: launches are ordered anyway. Within a launch each block has its own as long as there
/// are some, and later blocks take those of earlier ones, which hides races between these blocks.
constexpr unsigned most_tsan_fibers = 2048;
constexpr unsigned no_order = 1;  // a switch of fibers orders nothing

// By words, not by one memset or memcpy: TSan's interceptors would take them for the kernel's.
void fill_with_nan(void* at, std::size_t size) {
  constexpr std::uint64_t nans = ~std::uint64_t{0};
  char *p = static_cast<char*>(at), *end = p + size;
  for (; end - p >= static_cast<std::ptrdiff_t>(sizeof nans); p += sizeof nans) std::memcpy(p, &nans, sizeof nans);
  for (; p != end; ++p) *p = static_cast<char>(0xff);
}
void copy_quietly(void* to, const void* from, std::size_t size) {
  char* p = static_cast<char*>(to);
  const char *q = static_cast<const char*>(from), *end = q + size;
  for (; end - q >= static_cast<std::ptrdiff_t>(sizeof(std::uint64_t)); p += sizeof(std::uint64_t), q += sizeof(std::uint64_t))
    std::memcpy(p, q, sizeof(std::uint64_t));
  for (; q != end; ++p, ++q) *p = *q;
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

/// What a thread has asked for and not waited for.
struct Copies {
  Few<Copy, most_copies> pending;
  Few<unsigned, most_groups> groups;  ///< copies in each group that was committed
  unsigned committed = 0;
};

struct Fiber {
  Triple thread;
  unsigned number = 0;  ///< in the block
  bool ended = false;
  const char* waits_at = nullptr;
  context::fcontext_t at = nullptr;  ///< null: it has not begun
  char* stack = nullptr;
  void *tsan = nullptr, *fake_stack = nullptr;
  Copies* copies = nullptr;  ///< null: none yet
};

/// What lanes hand in and get stands until the operation after: that one needs all of its lanes, who have taken theirs by then.
struct Warp {
  unsigned arrived = 0, mask = 0, alive = 0, generation = 0;
  unsigned ready = 0;  ///< lanes that can go on
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
  std::vector<std::unique_ptr<Copies>> copies{most_threads};
  std::vector<Warp> warps;
  std::vector<char*> free_stacks;
  Few<Variable, most_variables> variables;
  char *stacks = map(nullptr, stack_bytes*most_threads), *shared = map(nullptr, shared_bytes), *free_shared = shared, *dynamic = nullptr;
  /// Places that stand for barriers, new ones for each block, or blocks would seem ordered: two of the block, then two of each warp. A
  /// thread that is through one barrier may be at the next before others have left the first, hence two.
  char* places = nullptr;
  unsigned count = 0, alive = 0, arrived = 0, generation = 0, warp = 0;  ///< warp: of the thread that runs
  int votes = 0, last_votes = 0;
  const char* site = nullptr;
  std::mt19937_64* lots = nullptr;  ///< null: the natural order
  void (*body)(void*) = nullptr;
  void* argument = nullptr;
  std::vector<void*> tsan_fibers;
  unsigned next_tsan_fiber = 0;
  context::fcontext_t home = nullptr;
  void *tsan_home = nullptr, *fake_home = nullptr;
  const void* home_stack = nullptr;
  std::size_t home_size = 0;
  char start_place = 0, end_place = 0;

  Block() {
    tsan_fibers.reserve(most_tsan_fibers);  // it grows in many fibers' turns, and moves would be theirs
    for (unsigned i = most_threads; i-- > 0;) free_stacks.push_back(stacks + stack_bytes * i);
  }
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

/// Race detection needs a stack for each thread.
bool own_stacks() { return __tsan_create_fiber; }

std::string name(const Fiber& f) {
  const Triple& b = place.block;
  return "block " + std::to_string(b.x) + "," + std::to_string(b.y) + "," + std::to_string(b.z) + " thread " + std::to_string(f.number);
}

void* tsan_fiber() {
  Block& b = *block;
  if (b.next_tsan_fiber == b.tsan_fibers.size()) b.tsan_fibers.push_back(__tsan_create_fiber(0));
  return b.tsan_fibers[b.next_tsan_fiber++];
}

[[noreturn]] void live(context::transfer_t from);

void begin(Fiber& f) {
  Block& b = *block;
  if (own_stacks()) {
    f.stack = b.stacks + stack_bytes * f.number;
    f.tsan = tsan_fiber();
  } else {
    f.stack = b.free_stacks.back();
    b.free_stacks.pop_back();
  }
  const std::size_t number = static_cast<std::size_t>(f.stack - b.stacks) / stack_bytes;
  const std::size_t unused = line * (stride_of_beginnings * number % lines_of_beginnings);
  f.at = context::make_fcontext(f.stack + stack_bytes - unused, stack_bytes - unused, live);
}

void become(Fiber& f) {
  current = &f;
  place.thread = f.thread;
}

/// To a fiber, or home where there is none.
void switch_to(Fiber* to) {
  Block& b = *block;
  Fiber* from = current;
  if (to && !to->at) begin(*to);
  if (__sanitizer_start_switch_fiber) {
    void** keep = !from ? &b.fake_home : from->ended ? nullptr : &from->fake_stack;
    __sanitizer_start_switch_fiber(keep, to ? to->stack : b.home_stack, to ? stack_bytes : b.home_size);
  }
  if (__tsan_switch_to_fiber) __tsan_switch_to_fiber(to ? to->tsan : b.tsan_home, no_order);
  if (to)
    become(*to);
  else
    current = nullptr;
  const context::transfer_t back = context::jump_fcontext(to ? to->at : b.home, from);
  (back.data ? static_cast<Fiber*>(back.data)->at : b.home) = back.fctx;
  if (__sanitizer_finish_switch_fiber) __sanitizer_finish_switch_fiber(from ? from->fake_stack : b.fake_home, nullptr, nullptr);
}

/// Who goes on: of the same warp if one can, for its stacks and data are at hand; drawn by lot where the order is shuffled. Null: nobody.
Fiber* next_ready() {
  Block& b = *block;
  const auto warps = static_cast<unsigned>(b.warps.size());
  const std::uint64_t lot = b.lots ? (*b.lots)() : 0;
  const int first_lane = static_cast<int>(lot % warp_size);
  unsigned number = b.lots ? static_cast<unsigned>(lot / warp_size % warps) : b.warp;
  for (unsigned tried = 0; tried < warps; ++tried) {
    Warp& w = b.warps[number];
    if (w.ready) {
      const unsigned lane = static_cast<unsigned>(std::countr_zero(std::rotr(w.ready, first_lane)) + first_lane) % warp_size;
      w.ready &= ~(1u << lane);
      b.warp = number;
      return &b.fibers[number * warp_size + lane];
    }
    number = number + 1 == warps ? 0 : number + 1;
  }
  return nullptr;
}

/// All that have not ended wait for each other.
[[noreturn]] void fail_deadlock() {
  std::string text = "deadlock: ";
  const char* last = nullptr;
  int told = 0;
  for (unsigned i = 0; i < block->count && told < 4; ++i) {
    const Fiber& f = block->fibers[i];
    if (f.ended || f.waits_at == last) continue;
    text += (told++ > 0 ? ", " : "") + name(f) + " waits at " + f.waits_at;
    last = f.waits_at;
  }
  fail(text);
}

/// Until another thread says that this one is ready.
void wait(const char* what) {
  Fiber& me = *current;
  me.waits_at = what;
  Fiber* next = next_ready();
  if (!next) fail_deadlock();
  switch_to(next);
  me.waits_at = nullptr;
}

bool differ(const char* a, const char* b) { return a != b && std::strcmp(a, b) != 0; }
Warp& warp_of(const Fiber& f) { return block->warps[f.number / warp_size]; }
unsigned bit_of(const Fiber& f) { return 1u << f.number % warp_size; }

void open_barrier() {
  Block& b = *block;
  b.arrived = 0;
  b.last_votes = std::exchange(b.votes, 0);
  b.site = nullptr;
  ++b.generation;
  for (Warp& w : b.warps) w.ready = w.alive;
  warp_of(*current).ready &= ~bit_of(*current);  // who opens it goes on anyway
}

void run_thread(Fiber& me) {
  Block& b = *block;
  acquire(&b.start_place);
  b.body(b.argument);
  if (me.copies && me.copies->pending.count > 0) fail(name(me) + " ends with asynchronous copies that nobody waited for");
  me.ended = true;
  --b.alive;
  warp_of(me).alive &= ~bit_of(me);
  release(&b.end_place);
  if (b.alive > 0 && b.arrived == b.alive) open_barrier();  // as on a device, who has ended does not count
}

/// A fiber: a thread, and, where threads need no stacks of their own, others that have not begun: without barriers, nobody switches.
void live(context::transfer_t from) {
  Block& b = *block;
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
  for (;;) {
    run_thread(*current);
    Fiber* next = next_ready();
    if (!next && b.alive > 0) fail_deadlock();
    if (!next || next->at || own_stacks()) {
      if (!own_stacks()) b.free_stacks.push_back(current->stack);
      switch_to(next);
      __builtin_unreachable();
    }
    next->stack = current->stack;
    become(*next);
  }
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

/// 0: the block's, then the warps'.
char* sync_place(unsigned which, unsigned generation) { return block->places + sizeof(std::uint64_t) * (2 * which + generation % 2); }

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

/// The same for all blocks of a launch.
void number_threads(Triple size) {
  Block& b = *block;
  b.count = size.x * size.y * size.z;
  for (unsigned i = 0; i < b.count; ++i) {
    b.fibers[i].number = i;
    b.fibers[i].thread = {i % size.x, i / size.x % size.y, i / size.x / size.y};
  }
}

void get_ready(Fiber& f) {
  f.ended = false;
  f.at = nullptr;
  f.waits_at = nullptr;
  f.fake_stack = nullptr;
  f.copies = nullptr;
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

void run_block(std::size_t dynamic_shared) {
  Block& b = *block;
  b.alive = b.count;
  b.arrived = b.warp = 0;
  b.votes = 0;
  b.site = nullptr;
  b.variables.count = 0;
  forget_memory();
  if (b.next_tsan_fiber + b.count > most_tsan_fibers) b.next_tsan_fiber = 0;
  b.dynamic = dynamic_shared > 0 ? take_shared(dynamic_shared) : nullptr;
  b.warps.resize((b.count + warp_size - 1) / warp_size);
  for (Warp& w : b.warps) w.alive = w.arrived = 0;
  if (own_stacks()) b.places = new_places(2 + 2 * static_cast<unsigned>(b.warps.size()));
  for (unsigned i = 0; i < b.count; ++i) {
    get_ready(b.fibers[i]);
    warp_of(b.fibers[i]).alive |= bit_of(b.fibers[i]);
  }
  for (Warp& w : b.warps) w.ready = w.alive;
  switch_to(next_ready());
}

/// This thread's copies, which it has from now on.
Copies& copies_of(Fiber& f) {
  if (f.copies) return *f.copies;
  auto& mine = block->copies[f.number];
  if (!mine) mine = std::make_unique<Copies>();
  f.copies = mine.get();
  mine->pending.count = mine->groups.count = 0;
  mine->committed = 0;
  return *mine;
}

}  // namespace

thread_local constinit Place place;

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
  copies_of(me).pending.push(copy, "asynchronous copies at once");
}

void commit_copies() {
  Copies& mine = copies_of(*current);
  mine.groups.push(mine.pending.count - mine.committed, "groups of asynchronous copies");
  mine.committed = mine.pending.count;
}

void wait_for_copies(unsigned groups_left) {
  Copies& mine = copies_of(*current);
  while (mine.groups.count > groups_left) {
    const unsigned arriving = mine.groups.values[0];
    for (unsigned i = 0; i < arriving; ++i) {
      const Copy& copy = mine.pending.values[i];
      tell_write(copy.to, copy.size);
      copy_quietly(copy.to, copy.bytes, copy.size);
    }
    mine.pending.drop_front(arriving);
    mine.groups.drop_front(1);
    mine.committed -= arriving;
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
  if (b.arrived > 0 && differ(b.site, site)) fail(name(*current) + " is at " + site + " while others of its block are at " + b.site);
  char* const order = sync_place(0, b.generation);
  release(order);
  b.votes += vote;
  b.site = site;
  if (++b.arrived == b.alive)
    open_barrier();
  else
    wait(site);
  acquire(order);
  return b.last_votes;
}

std::uint64_t collective(unsigned mask, std::uint64_t value, const char* what, bool fence, void (*whole)(Lanes, const void*),
                         const void* argument) {
  const Fiber& me = *current;
  const unsigned lane = me.number % warp_size, number = me.number / warp_size;
  Warp& w = block->warps[number];
  if (!(mask >> lane & 1)) fail(name(me) + ": its own lane is not in the mask of " + what);
  if (mask & ~w.alive) fail(name(me) + ": the mask of " + what + " names lanes that are not there");
  if (w.arrived && (w.mask != mask || differ(w.what, what)))
    fail(name(me) + " is at " + what + " while its warp is at " + w.what + ", or with another mask");
  char* const order = sync_place(1 + number, w.generation);
  if (fence) release(order);
  w.what = what;
  w.mask = mask;
  w.in[lane] = value;
  w.arrived |= 1u << lane;
  if (w.arrived == mask) {
    whole({w.in, w.out}, argument);
    w.arrived = 0;
    ++w.generation;
    w.ready |= mask & ~(1u << lane);
  } else {
    wait(what);
  }
  if (fence) acquire(order);
  return w.out[lane];
}

void run(Triple grid, Triple block_size, std::size_t dynamic_shared, Order order, void (*body)(void*), void* argument) {
  static thread_local const auto mine = std::make_unique<Block>();
  block = mine.get();
  Block& b = *block;
  b.body = body;
  b.argument = argument;
  b.tsan_home = __tsan_get_current_fiber ? __tsan_get_current_fiber() : nullptr;
  std::mt19937_64 random{order.seed};
  b.lots = order.seed ? &random : nullptr;
  std::vector<std::uint64_t> blocks(std::uint64_t{grid.x} * grid.y * grid.z);
  std::iota(blocks.begin(), blocks.end(), std::uint64_t{0});
  if (order.seed) std::shuffle(blocks.begin(), blocks.end(), random);
  number_threads(block_size);
  place.block_size = block_size;
  place.grid = grid;
  b.next_tsan_fiber = 0;
  for (const std::uint64_t i : blocks) {
    place.block = {static_cast<unsigned>(i % grid.x), static_cast<unsigned>(i / grid.x % grid.y),
                   static_cast<unsigned>(i / grid.x / grid.y)};
    run_block(dynamic_shared);
  }
  acquire(&b.end_place);
}

}  // namespace hostgpu
