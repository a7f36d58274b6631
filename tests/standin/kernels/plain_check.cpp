#include "check.hpp"

namespace flotilla::compute::cuda {
namespace {

void check_squared_norm(hostgpu::Order order, std::size_t n, unsigned blocks) {
  std::mt19937_64 random{1};
  Buffer<float> x{n};
  x.normal(random);
  Buffer<double> out{1}, partials{blocks};
  Buffer<unsigned char> counter_bytes{sizeof(unsigned)};
  counter_bytes.fill(0);
  auto* counter = reinterpret_cast<unsigned*>(counter_bytes.get());
  Comparison norm{"squared_norm"};
  double reference = 0;
  for (std::size_t i = 0; i < n; ++i) reference += x.at(i) * x.at(i);
  for (int again = 0; again < 2; ++again) {  // the counter is back at 0
    out.fill(-3);
    hostgpu::run({blocks}, {norm_threads}, 0, order, [&] { squared_norm(out, partials, counter, x, static_cast<std::int64_t>(n)); });
    norm.add(out.at(0), reference - 3, 1e-13 * reference);
  }
}

/// Targets are at most their row's maximum; every fifth does not count, and is infinite on every rank.
void check_head_loss(hostgpu::Order order, int rows, int members, int first, int last) {
  std::mt19937_64 random{2};
  Buffer<float> stats{static_cast<std::size_t>(3 * rows * members)};
  std::uniform_real_distribution<float> uniform{0.5f, 4};
  for (std::size_t i = 0; i < stats.size(); ++i) stats[i] = uniform(random);
  for (int row = 0; row < rows; ++row)
    for (int m = 0; m < members; ++m) {
      float& target = stats[3 * (m * rows + row) + 2];
      if (row % 5 == 3)
        target = INFINITY;
      else
        target = m == row % members ? stats[3 * (m * rows + row)] - 0.25f : -INFINITY;
    }
  Buffer<double> out{1}, counted{1};
  out.fill(2);
  counted.fill(10);
  hostgpu::run({1}, {loss_threads}, 0, order, [&] {
    head_loss(out, counted, stats, KernelHeadRows{8, 0, 1, rows, members, 8}, first, last);
  });
  double reference = 2, rows_that_count = 10;
  for (int row = first; row < last; ++row) {
    if (row % 5 == 3) continue;
    ++rows_that_count;
    double sum = 0;
    for (int m = 0; m < members; ++m)
      sum +=
          stats.at(static_cast<std::size_t>(3 * (m * rows + row) + 1)) * std::exp(stats.at(static_cast<std::size_t>(3 * (m * rows + row))));
    reference += std::log(sum) - stats.at(static_cast<std::size_t>(3 * (row % members * rows + row) + 2));
  }
  Comparison loss{"head_loss"};
  loss.add(out.at(0), reference, 1e-13 * std::abs(reference));
  loss.add(counted.at(0), rows_that_count, 0);
}

void run_checks(hostgpu::Order order) {
  check_squared_norm(order, 3001, 5);
  check_squared_norm(order, 3, 1);
  check_head_loss(order, 300, 1, 0, 300);
  check_head_loss(order, 7, 3, 0, 7);
  check_head_loss(order, 700, 2, 130, 521);
}

Checks registered{"plain", &run_checks};

}  // namespace
}  // namespace flotilla::compute::cuda
