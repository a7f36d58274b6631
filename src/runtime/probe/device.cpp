#include "flotilla/probe/device.hpp"

#include <algorithm>
#include <barrier>
#include <thread>
#include <vector>

#include "flotilla/base/clock.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/compute/product_rate.hpp"
#include "workbench.hpp"

namespace flotilla::probe {
namespace {

constexpr int triad_rounds = 10;  // as STREAM; the first touches the pages

void triad(float* a, const float* b, const float* c, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) a[i] = b[i] + 3.0f * c[i];
}

}  // namespace

FlopsPerSecond peak(Precision precision, int threads, Seconds budget) { return compute::product_rate(precision, threads, budget); }

BytesPerSecond memory_bandwidth(int threads, Bytes bytes) {
  const auto count = static_cast<std::size_t>(std::max<std::int64_t>(1, bytes.count / 3 / static_cast<std::int64_t>(sizeof(float))));
  const auto piece = [&](int t) { return count * static_cast<std::size_t>(t) / static_cast<std::size_t>(threads); };
  const Pages pages{{static_cast<std::int64_t>(3 * count * sizeof(float))}};
  auto* a = reinterpret_cast<float*>(pages.data());
  float *b = a + count, *c = b + count;
  Seconds best{1e30};
  std::barrier together{threads};  // threads are there before a round is timed: their start is no transfer
  const auto work = [&](int t) {
    for (int round = 0; round < triad_rounds; ++round) {
      if (round == 0) {  // each thread touches its own pages first: they lie near it
        std::fill(b + piece(t), b + piece(t + 1), 1.0f);
        std::fill(c + piece(t), c + piece(t + 1), 2.0f);
      }
      together.arrive_and_wait();
      const Seconds start = now();
      triad(a + piece(t), b + piece(t), c + piece(t), piece(t + 1) - piece(t));
      together.arrive_and_wait();
      if (t == 0 && round > 0) best = std::min(best, now() - start);
    }
  };
  {
    std::vector<std::jthread> workers;
    try {
      while (static_cast<int>(workers.size()) < threads - 1) workers.emplace_back(work, static_cast<int>(workers.size()) + 1);
    } catch (...) {  // those that started wait for the others, and for this one
      for (int missing = static_cast<int>(workers.size()); missing < threads; ++missing) together.arrive_and_drop();
      throw;
    }
    work(0);
  }
  FLOTILLA_ASSERT(a[count - 1] == 7.0f, a[count - 1]);
  return {3.0 * static_cast<double>(count * sizeof(float)) / best.value};
}

Bytes triad_size(Bytes cache, Bytes memory) {
  constexpr Bytes least{24 << 20}, most{std::int64_t{1} << 30};
  return std::min({std::max(least, 4 * cache), most, Bytes{std::max<std::int64_t>(3 << 20, memory.count / 8)}});
}

}  // namespace flotilla::probe
