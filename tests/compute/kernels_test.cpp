#include "kernels.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "flotilla/base/philox.hpp"

namespace flotilla::compute::cpu {

namespace baseline {
extern const Kernels<float> float_table;
}
namespace avx2 {
extern const Kernels<float> float_table;
}
namespace avx512 {
extern const Kernels<float> float_table;
}

namespace {

/// The sets that this processor can run.
std::vector<const Kernels<float>*> runnable() {
  std::vector<const Kernels<float>*> sets{&baseline::float_table};
  const std::string best = kernel_set();
  if (best != "baseline") sets.push_back(&avx2::float_table);
  if (best == "avx512") sets.push_back(&avx512::float_table);
  return sets;
}

std::vector<float> random_floats(std::size_t count, std::uint64_t stream, float spread) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = spread * (2 * uniform(Philox{3, stream}(i)[0]) - 1);
  return values;
}

TEST(Kernels, GeluIsAccurateOverItsRange) {
  const auto x = random_floats(4099, 1, 12);
  for (const auto* set : runnable()) {
    std::vector<float> y(x.size());
    set->gelu(x.data(), y.data(), static_cast<std::int64_t>(x.size()));
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double v = x[i], u = std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v), exact = v / (1 + std::exp(-2 * u));
      EXPECT_NEAR(y[i], exact, 1e-5 * std::abs(exact) + 1e-7) << v;
    }
  }
}

/// exp(x - log 1) through the softmax of a single row of two: p = 1 / (1 + exp(-d)).
TEST(Kernels, SoftmaxIsAccurateAndNormalized) {
  for (const auto* set : runnable())
    for (float spread : {0.1f, 3.0f, 80.0f}) {
      const std::int64_t rows = 5, first = 70, pitch = 96;
      auto scores = random_floats(static_cast<std::size_t>(rows * pitch), 2, spread);
      const auto before = scores;
      std::vector<float> log_sum_exp(rows);
      set->softmax({scores.data(), pitch, rows, first, 0.5f, log_sum_exp.data(), {}, 0, 0});
      for (std::int64_t r = 0; r < rows; ++r) {
        double sum = 0;
        for (std::int64_t k = 0; k <= first + r; ++k) sum += std::exp(0.5 * before[static_cast<std::size_t>(r * pitch + k)]);
        EXPECT_NEAR(log_sum_exp[static_cast<std::size_t>(r)], std::log(sum), 1e-6 * std::abs(std::log(sum)) + 1e-6);
        for (std::int64_t k = 0; k < first + rows; ++k) {
          const auto at = static_cast<std::size_t>(r * pitch + k);
          const double exact = k <= first + r ? std::exp(0.5 * before[at]) / sum : 0;
          EXPECT_NEAR(scores[at], exact, 2e-6 * exact + 1e-30);
        }
      }
    }
}

TEST(Kernels, NotANumberIsNotSwallowed) {
  for (const auto* set : runnable()) {
    std::vector<float> scores(32, 1.0f), log_sum_exp(1), y(1), stats(3);
    scores[3] = std::numeric_limits<float>::quiet_NaN();
    set->gelu(&scores[3], y.data(), 1);
    EXPECT_TRUE(std::isnan(y[0]));
    const std::vector<std::int32_t> tokens{0, 0};
    set->head_stats({scores.data(), 32, 20, tokens.data(), 1, 0, stats.data(), nullptr, 1, 1, 1}, {0, 1});
    EXPECT_TRUE(std::isnan(stats[1]));
    set->softmax({scores.data(), 32, 1, 20, 1.0f, log_sum_exp.data(), {}, 0, 0});
    EXPECT_TRUE(std::isnan(scores[0]) && std::isnan(log_sum_exp[0]));
  }
}

/// Every set must drop the same elements, those of the documented counters.
TEST(Kernels, DropoutFollowsPhilox) {
  const std::int64_t width = 150, rows = 6;
  const Philox philox{17, 4};
  const Dropout dropout{philox.key0, philox.key1, static_cast<std::uint32_t>(0.3 * 0x1p32), 1 / 0.7f, true};
  const std::vector<float> ones(static_cast<std::size_t>(width * rows), 1.0f);
  for (const auto* set : runnable()) {
    std::vector<float> masked(ones.size()), sums(static_cast<std::size_t>(width));
    set->drop_backward({ones.data(), masked.data(), sums.data(), width, dropout, {2, 40}}, {0, rows});
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t j = 0; j < width; ++j) {
        const auto words = philox(static_cast<std::uint64_t>(j / 64 * 16 + j % 16) | static_cast<std::uint64_t>(r % 2) << 32,
                                  static_cast<std::uint64_t>(40 + r / 2));
        const float expected = words[static_cast<std::size_t>(j / 16 % 4)] < dropout.threshold ? 0 : dropout.scale;
        EXPECT_EQ(masked[static_cast<std::size_t>(r * width + j)], expected);
      }
  }
}

TEST(Kernels, HeadStatsOfALongRow) {
  const std::int64_t width = 5003, pitch = 5008;
  auto logits = random_floats(static_cast<std::size_t>(pitch), 8, 20);
  double sum = 0, maximum = -1e30;
  for (std::int64_t j = 0; j < width; ++j) maximum = std::max(maximum, static_cast<double>(logits[static_cast<std::size_t>(j)]));
  for (std::int64_t j = 0; j < width; ++j) sum += std::exp(logits[static_cast<std::size_t>(j)] - maximum);
  for (const auto* set : runnable()) {
    std::vector<float> stats(3);
    const std::vector<std::int32_t> tokens{0, 1234};
    set->head_stats({logits.data(), pitch, width, tokens.data(), 1, 1000, stats.data(), nullptr, 1, 1, 1}, {0, 1});
    EXPECT_EQ(stats[0], maximum);
    EXPECT_NEAR(stats[1], sum, 1e-5 * sum);
    EXPECT_EQ(stats[2], logits[234]);
  }
}

}  // namespace
}  // namespace flotilla::compute::cpu
