#include "cores.hpp"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <exception>
#include <memory>
#include <thread>

#include "flotilla/base/clock.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/base/hash.hpp"
#include "flotilla/probe/known_step.hpp"

namespace flotilla::health {
namespace {

constexpr int least_runs = 3;

struct CpuSetFree {
  void operator()(cpu_set_t* set) const { CPU_FREE(set); }
};

/// A run whose bits differ from the first's counts whatever the others give: a core that is right most of the time is not right.
bench::Core test_core(int cpu, Seconds end) {
  stay_on(cpu);
  probe::KnownStep step{Precision::fp32, 1};
  const auto first = step.run();
  bench::Core core{cpu, hex(first.digest), first.processor};
  for (int run = 1; run < least_runs || now() < end; ++run) {
    const auto again = step.run();
    core.step = std::min(core.step, again.processor);
    if (again.digest != first.digest) core.digest = hex(again.digest) + ", not always";
  }
  return core;
}

}  // namespace

void stay_on(int cpu) {
  const std::unique_ptr<cpu_set_t, CpuSetFree> set{CPU_ALLOC(static_cast<std::size_t>(cpu) + 1)};
  const std::size_t size = CPU_ALLOC_SIZE(static_cast<std::size_t>(cpu) + 1);
  CPU_ZERO_S(size, set.get());
  CPU_SET_S(static_cast<std::size_t>(cpu), size, set.get());
  FLOTILLA_REQUIRE(pthread_setaffinity_np(pthread_self(), size, set.get()) == 0, ErrorKind::unavailable,
                   "a thread cannot be bound to hardware thread ", cpu);
}

std::vector<bench::Core> test_cores(const std::vector<int>& cpus, Seconds budget) {
  std::vector<bench::Core> cores(cpus.size());
  std::vector<std::exception_ptr> errors(cpus.size());
  const Seconds end = now() + budget;
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < cpus.size(); ++i)
      threads.emplace_back([&, i] {
        try {
          cores[i] = test_core(cpus[i], end);
        } catch (...) {
          errors[i] = std::current_exception();
        }
      });
  }
  for (const auto& error : errors)
    if (error) std::rethrow_exception(error);
  return cores;
}

}  // namespace flotilla::health
