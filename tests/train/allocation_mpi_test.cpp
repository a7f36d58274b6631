// After the first step nothing of ours allocates: every malloc and operator new of the process is counted by the object that called it.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>

#include "flotilla/base/text.hpp"
#include "train/fixture.hpp"

extern "C" void* __libc_malloc(std::size_t);
extern "C" void __libc_free(void*);
extern "C" void* __libc_memalign(std::size_t, std::size_t);

namespace {

std::atomic<bool> counting{false};
std::atomic<long> ours{0}, libraries{0}, library_bytes{0};
std::atomic<void*> first_of_ours{nullptr};

/// True where the caller belongs to this program, or to the C++ library on its behalf.
bool is_ours(void* caller) {
  static const char* const own = [] {
    Dl_info info{};
    return dladdr(reinterpret_cast<void*>(&is_ours), &info) != 0 ? info.dli_fname : "";
  }();
  Dl_info info{};
  if (dladdr(caller, &info) == 0 || info.dli_fname == nullptr) return true;
  return std::strcmp(info.dli_fname, own) == 0 || std::strstr(info.dli_fname, "libstdc++") != nullptr;
}

void count(std::size_t size, void* caller) {
  if (!counting.load(std::memory_order_relaxed)) return;
  if (is_ours(caller)) {
    ++ours;
    void* none = nullptr;
    first_of_ours.compare_exchange_strong(none, caller);
  } else {
    ++libraries;
    library_bytes += static_cast<long>(size);
  }
}

void* allocate(std::size_t size, void* caller) {
  count(size, caller);
  if (void* memory = __libc_malloc(size)) return memory;
  throw std::bad_alloc{};
}

}  // namespace

extern "C" void* malloc(std::size_t size) {
  count(size, __builtin_return_address(0));
  return __libc_malloc(size);
}
void* operator new(std::size_t size) { return allocate(size, __builtin_return_address(0)); }
void* operator new[](std::size_t size) { return allocate(size, __builtin_return_address(0)); }
void* operator new(std::size_t size, std::align_val_t alignment) {
  count(size, __builtin_return_address(0));
  return __libc_memalign(static_cast<std::size_t>(alignment), size);
}
void operator delete(void* memory) noexcept { __libc_free(memory); }
void operator delete[](void* memory) noexcept { __libc_free(memory); }
void operator delete(void* memory, std::size_t) noexcept { __libc_free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { __libc_free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { __libc_free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { __libc_free(memory); }

namespace flotilla::train {
namespace {

std::string place(void* caller) {
  Dl_info info{};
  if (caller == nullptr || dladdr(caller, &info) == 0) return "?";
  return text(info.dli_sname == nullptr ? info.dli_fname : info.dli_sname, " + ",
              static_cast<char*>(caller) - static_cast<char*>(info.dli_sname == nullptr ? info.dli_fbase : info.dli_saddr));
}

TEST(Allocation, TheCounterCounts) {
  ours = 0;
  counting = true;
  auto* something = new std::array<char, 100>;
  counting = false;
  EXPECT_EQ(ours, 1);
  delete something;
}

TEST(Allocation, NothingOfOursAfterTheFirstStep) {
  const int ranks = tests::everybody().size();
  constexpr int steps = 4;
  for (auto precision : {Precision::fp32, Precision::bf16}) {
    auto model = model::built_in("gpt2-tiny");
    model.dropout = 0.1;
    auto plan =
        ranks == 4 ? plan::even_plan(model, 16, 7, precision, 1, 2, 2, 2) : plan::even_plan(model, 16, 7, precision, ranks, 1, 1, 2);
    plan.shard_optimizer = precision == Precision::bf16;
    if (ranks == 4 && precision == Precision::bf16) {
      plan.schedule = plan::ScheduleKind::zero_bubble;
      plan.sequence_parallel = true;
      for (auto& stage : plan.stages) stage.recompute = plan::Recompute::selective;
    }
    const auto trainer = tests::trainer(tests::everybody(), plan);
    trainer->step(0);
    trainer->evaluate();
    ours = libraries = library_bytes = 0;
    first_of_ours = nullptr;
    counting = true;
    for (int step = 1; step <= steps; ++step) trainer->step(step);
    trainer->evaluate();
    counting = false;
    EXPECT_EQ(ours, 0) << to_string(precision) << ": first from " << place(first_of_ours);
    // oneDNN's bookkeeping of an execution, MPI's of a message: small, and in proportion to the instructions.
    const auto issued_instructions = static_cast<long>(program::expand(trainer->program(), tests::everybody().rank()).size());
    EXPECT_LE(library_bytes, (steps + 1) * issued_instructions * 4096) << libraries << " allocations";
    if (tests::everybody().rank() == Rank{0})
      std::printf("%s, %d ranks: libraries allocate %ld times, %ld bytes a step for %ld instructions\n", to_string(precision).c_str(),
                  ranks, libraries / (steps + 1), library_bytes / (steps + 1), issued_instructions);
  }
}

}  // namespace
}  // namespace flotilla::train
