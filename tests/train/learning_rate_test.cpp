// The learning rate of every schedule, against the formulas of `transformers`.
#include "flotilla/train/learning_rate.hpp"

#include <gtest/gtest.h>

#include "support/refusal.hpp"

namespace flotilla::train {
namespace {

constexpr std::int64_t warmup = 10, total = 110, cooldown = 20;

LearningRate rate_of(RateSchedule schedule) { return {1.0, 0.1, warmup, total, schedule, cooldown}; }

/// Values of get_cosine_with_min_lr_schedule_with_warmup, get_linear_schedule_with_warmup and get_constant_schedule_with_warmup,
/// get_inverse_sqrt_schedule (num_warmup_steps 10) and get_wsd_schedule (decay_type "linear", "1-sqrt"; num_decay_steps 20) with
/// num_training_steps = 109, the last step, and a minimum of 0.1 of the peak; where a schedule has no minimum, Megatron's way of one.
struct Expected {
  std::int64_t step;
  double cosine, linear, constant, inverse_sqrt, wsd, wsd_sqrt;
};
constexpr Expected expected[] = {
    {10, 1, 1, 1, 1, 1, 1},
    {37, 0.84468733027537835, 0.75454545454545452, 1, 0.51987524491003634, 1, 1},
    {59, 0.55713968372566358, 0.55454545454545456, 1, 0.41169348479630913, 1, 1},
    {88, 0.19627610736574574, 0.29090909090909089, 1, 0.33709993123162102, 1, 1},
    {89, 0.18762838411102362, 0.28181818181818186, 1, 0.33520076157699547, 1, 1},
    {90, 0.1793455383565753, 0.27272727272727271, 1, 0.33333333333333331, 0.955, 0.79875388202501896},
    {99, 0.12246799701657461, 0.19090909090909092, 1, 0.31782086308186408, 0.55, 0.36360389693210715},
    {105, 0.1036203342261421, 0.13636363636363638, 1, 0.30860669992418382, 0.28, 0.19501552810007572},
    {109, 0.1, 0.1, 1, 0.30289126640769132, 0.1, 0.1},
    {500, 0.1, 0.1, 1, 0.1414213562373095, 0.1, 0.1},
    {2000, 0.1, 0.1, 1, 0.1, 0.1, 0.1},
};

TEST(LearningRate, IsThatOfTransformersBehindTheWarmUp) {
  for (const auto& e : expected) {
    const double values[] = {e.cosine, e.linear, e.constant, e.inverse_sqrt, e.wsd, e.wsd_sqrt};
    for (std::size_t i = 0; i < std::size(values); ++i)
      EXPECT_NEAR(learning_rate(rate_of(static_cast<RateSchedule>(i)), e.step), values[i], 1e-14)
          << rate_schedule_names()[i] << " at step " << e.step;
  }
}

TEST(LearningRate, WarmsUpLinearlyAndEndsAtTheMinimum) {
  for (const auto& name : rate_schedule_names()) {
    const auto rate = rate_of(parse_rate_schedule(name));
    for (std::int64_t step = 0; step < warmup; ++step)
      EXPECT_DOUBLE_EQ(learning_rate(rate, step), static_cast<double>(step + 1) / 10) << name;
    for (std::int64_t step = warmup; step < 2 * total; ++step)
      EXPECT_GE(learning_rate(rate, step), learning_rate(rate, step + 1)) << name << " at step " << step;
    if (decays(rate.schedule)) {
      EXPECT_NEAR(learning_rate(rate, total - 1), 0.1, 1e-15) << name;
      EXPECT_GT(learning_rate(rate, total - 2), 0.1) << name;
    }
  }
}

TEST(LearningRate, CountsFromItsFirstStep) {
  for (const auto& name : rate_schedule_names()) {
    const auto rate = rate_of(parse_rate_schedule(name));
    auto later = rate;
    later.first_step = 1000;
    for (const std::int64_t step : {0, 9, 10, 60, 95, 109, 300})
      EXPECT_EQ(learning_rate(later, 1000 + step), learning_rate(rate, step)) << name << " at step " << step;
  }
}

TEST(LearningRate, HasNoWarmUpWhereNoneIsAskedFor) {
  for (const auto& name : rate_schedule_names()) {
    const LearningRate rate{1.0, 0.1, 0, 50, parse_rate_schedule(name), 50};
    EXPECT_LE(learning_rate(rate, 0), 1.0) << name;
    EXPECT_GT(learning_rate(rate, 0), 0.8) << name;
  }
  EXPECT_DOUBLE_EQ(learning_rate({1.0, 0.1, 0, 1}, 0), 1.0) << "a run of one step";
}

TEST(RateSchedule, HasItsNames) {
  for (const auto& name : rate_schedule_names()) EXPECT_EQ(to_string(parse_rate_schedule(name)), name);
  tests::expect_contains(tests::refusal([] { parse_rate_schedule("cosin"); }),
                         "one of cosine, linear, constant, inverse-sqrt, wsd, wsd-sqrt, got 'cosin'");
}

}  // namespace
}  // namespace flotilla::train
