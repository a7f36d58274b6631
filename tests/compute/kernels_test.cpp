#include "kernels.hpp"
#include "rotary.hpp"

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
      set->softmax({scores.data(), pitch, rows, first, 0, first + rows, 0, 0.5f, 0, log_sum_exp.data(), {}, 0, 0});
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

/// Queries 200 ... 206 in a window of 9, keys from 128 on: columns outside of a query's window become zero, whatever stood there.
TEST(Kernels, SoftmaxOfAWindow) {
  const std::int64_t rows = 7, first = 200, first_key = 128, window = 9, pitch = 112;
  for (const auto* set : runnable()) {
    auto scores = random_floats(static_cast<std::size_t>(rows * pitch), 12, 3);
    const auto before = scores;
    std::vector<float> log_sum_exp(rows);
    set->softmax({scores.data(), pitch, rows, first, first_key, first + rows - first_key, window, 1, 0, log_sum_exp.data(), {}, 0, 0});
    for (std::int64_t r = 0; r < rows; ++r) {
      const std::int64_t query = first + r;
      const auto score = [&](std::int64_t key) { return before[static_cast<std::size_t>(r * pitch + key - first_key)]; };
      double sum = 0;
      for (std::int64_t key = query - window + 1; key <= query; ++key) sum += std::exp(static_cast<double>(score(key)));
      EXPECT_NEAR(log_sum_exp[static_cast<std::size_t>(r)], std::log(sum), 1e-6 * std::abs(std::log(sum)) + 1e-6);
      for (std::int64_t key = first_key; key < first + rows; ++key) {
        const bool seen = key <= query && query - key < window;
        const double exact = seen ? std::exp(static_cast<double>(score(key))) / sum : 0;
        EXPECT_NEAR(scores[static_cast<std::size_t>(r * pitch + key - first_key)], exact, 2e-6 * exact) << key;
      }
    }
  }
}

/// Scores far beyond a cap, about it and next to zero.
TEST(Kernels, CapsBendScoresAndTheirGradients) {
  constexpr std::int64_t rows = 3, first = 70, pitch = 96, size = 4;
  constexpr float scale = 0.5f, cap = 2;
  for (const auto* set : runnable()) {
    auto scores = random_floats(static_cast<std::size_t>(rows * pitch), 2, 30), gradients = random_floats(scores.size(), 3, 1);
    scores[0] = 1e-4f;  // where tanh is hardly less
    const auto before = scores, of_probabilities = gradients;
    auto again = scores;
    const auto output = random_floats(rows * size, 4, 1), output_gradient = random_floats(rows * size, 5, 1);
    std::vector<float> log_sum_exp(rows);
    AttentionBlock block{scores.data(), pitch, rows, first, 0, first + rows, 0, scale, 0, log_sum_exp.data(), {}, 0, 0, nullptr, cap};
    set->softmax(block);
    block.scores = again.data();
    set->softmax_backward({block, gradients.data(), output.data(), output_gradient.data(), size, size});
    for (std::int64_t r = 0; r < rows; ++r) {
      const auto capped = [&](std::int64_t k) {
        return cap * std::tanh(scale * static_cast<double>(before[static_cast<std::size_t>(r * pitch + k)]) / cap);
      };
      double sum = 0, dot = 0;
      for (std::int64_t k = 0; k <= first + r; ++k) sum += std::exp(capped(k));
      for (std::int64_t c = 0; c < size; ++c)
        dot +=
            static_cast<double>(output[static_cast<std::size_t>(r * size + c)]) * output_gradient[static_cast<std::size_t>(r * size + c)];
      for (std::int64_t k = 0; k <= first + r; ++k) {
        const auto at = static_cast<std::size_t>(r * pitch + k);
        const double p = std::exp(capped(k)) / sum, bend = 1 - std::pow(capped(k) / cap, 2), difference = of_probabilities[at] - dot;
        EXPECT_NEAR(scores[at], p, 5e-6 * p) << before[at];
        EXPECT_NEAR(again[at], p, 5e-6 * p) << before[at];
        // 1 - (y / cap)^2 of a y near the cap has the rounding of a number near 1.
        EXPECT_NEAR(gradients[at], p * difference * scale * bend, p * scale * (std::abs(difference) + 1) * (1e-5 * bend + 2e-6))
            << before[at];
      }
    }
  }
}

TEST(Kernels, GatesAreAccurate) {
  const std::int64_t columns = 133, rows = 3;
  const auto saved = random_floats(static_cast<std::size_t>(2 * columns * rows), 21, 9);
  for (const auto* set : runnable())
    for (const bool silu : {true, false}) {
      std::vector<float> y(static_cast<std::size_t>(columns * rows)), gradient = random_floats(saved.size(), 22, 1);
      const auto of_y = gradient;
      std::vector<float> sums(static_cast<std::size_t>(2 * columns));
      (silu ? set->swiglu : set->geglu)({saved.data(), y.data(), columns}, {0, rows});
      (silu ? set->swiglu_backward : set->geglu_backward)({saved.data(), gradient.data(), sums.data(), columns}, {0, rows});
      double summed = 0;
      for (std::int64_t r = 0; r < rows; ++r)
        for (std::int64_t j = 0; j < columns; ++j) {
          const auto gate_at = static_cast<std::size_t>(2 * r * columns + j), other_at = gate_at + static_cast<std::size_t>(columns);
          const double v = saved[gate_at], other = saved[other_at], g = of_y[gate_at];
          // Both gates are v times the sigmoid of something that rises with v.
          const double cubic = 2 * std::sqrt(2 / M_PI), inner = silu ? v : cubic * (v + 0.044715 * v * v * v);
          const double rise = silu ? 1 : cubic * (1 + 3 * 0.044715 * v * v), s = 1 / (1 + std::exp(-inner));
          EXPECT_NEAR(y[static_cast<std::size_t>(r * columns + j)], v * s * other, 1e-5 * std::abs(v * s * other) + 1e-7);
          const double of_gate = g * other * (s + v * s * (1 - s) * rise), of_other = g * v * s;
          EXPECT_NEAR(gradient[gate_at], of_gate, 1e-5 * std::abs(g * other * s) * rise + 1e-6);
          EXPECT_NEAR(gradient[other_at], of_other, 1e-5 * std::abs(of_other) + 1e-7);
          if (j == 0) summed += of_gate;
        }
      EXPECT_NEAR(sums[0], summed, 1e-5 * std::abs(summed) + 1e-5);
    }
}

/// A rotation keeps lengths, is undone by its inverse, and leaves what is between the heads alone.
TEST(Kernels, RotationTurnsPairsAndBack) {
  const std::int64_t size = 10, heads = 3, step = 12, first = 2, pitch = 40, length = 4, rows = 6;
  std::vector<float> angles;
  for (std::int64_t position = 0; position < length; ++position)
    for (const bool sine : {false, true})
      for (std::int64_t i = 0; i < size / 2; ++i) {
        const double angle = static_cast<double>(position) * std::pow(10.0, static_cast<double>(-2 * i) / static_cast<double>(size));
        angles.push_back(static_cast<float>(sine ? std::sin(angle) : std::cos(angle)));
      }
  const auto before = random_floats(static_cast<std::size_t>(pitch * rows), 31, 2);
  for (const auto* set : runnable()) {
    auto x = before;
    set->rotate({x.data(), pitch, first, step, heads, size, length, angles.data(), false}, {0, rows});
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t c = 0; c < pitch; ++c) {
        const std::int64_t head = (c - first) / step, i = (c - first) % step;
        const auto at = static_cast<std::size_t>(r * pitch + c);
        if (c < first || head >= heads || i >= size) {
          EXPECT_EQ(x[at], before[at]);
          continue;
        }
        const std::int64_t pair = i % (size / 2);
        const double angle = static_cast<double>(r % length) * std::pow(10.0, static_cast<double>(-2 * pair) / static_cast<double>(size));
        const double low = before[at - static_cast<std::size_t>(i - pair)], high = before[at - static_cast<std::size_t>(i - pair) + 5];
        const double exact = i < 5 ? low * std::cos(angle) - high * std::sin(angle) : high * std::cos(angle) + low * std::sin(angle);
        EXPECT_NEAR(x[at], exact, 1e-6) << r << ' ' << c;
      }
    set->rotate({x.data(), pitch, first, step, heads, size, length, angles.data(), true}, {0, rows});
    for (std::size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(x[i], before[i], 1e-6);
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
    set->softmax({scores.data(), 32, 1, 20, 0, 21, 0, 1.0f, 0, log_sum_exp.data(), {}, 0, 0});
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

/// Radians from one position to the next, as a transcript of transformers' _compute_yarn_parameters gives them for Qwen2.5's long context.
TEST(Rotary, YarnIsTransformers) {
  model::Config c = model::built_in("llama-tiny");
  c.hidden = c.embedding_width = 128;
  c.heads = 1;
  c.key_value_heads = 0;
  c.head_width = 0;
  c.rotary = {};
  c.rotary.theta = 1e6;
  c.rotary.yarn = true;
  c.rotary.factor = 4;
  c.rotary.original_positions = 32768;
  c.rotary.low_frequency = 1;
  c.rotary.high_frequency = 32;
  const std::pair<std::size_t, double> expected[]{{0, 1.0},
                                                  {20, 0.01333521432163324},
                                                  {30, 0.0010643609812470017},
                                                  {31, 0.0008029597275452302},
                                                  {35, 0.0002462584069089387},
                                                  {39, 6.490394320837028e-05},
                                                  {40, 4.445698525097307e-05},
                                                  {63, 3.102344401879299e-07}};
  constexpr double length = 1.138629436111989;  // 0.1 ln(4) + 1
  constexpr int position = 1000;
  const auto angles = rotary_angles(c, position + 1);
  for (const auto& [pair, step] : expected) {
    EXPECT_NEAR(angles[position * 128 + pair], length * std::cos(position * step), 1e-6) << pair;
    EXPECT_NEAR(angles[position * 128 + 64 + pair], length * std::sin(position * step), 1e-6) << pair;
  }
}

}  // namespace
}  // namespace flotilla::compute::cpu
