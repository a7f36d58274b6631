#include "flotilla/probe/device.hpp"

#include <gtest/gtest.h>

#include "elements.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/model/tensors.hpp"
#include "operations.hpp"

namespace {

using flotilla::Bytes;
using flotilla::Precision;
using flotilla::Seconds;

TEST(MemoryBandwidth, IsPositiveForAnyThreadCount) {
  for (int threads : {1, 2, 3}) EXPECT_GT(flotilla::probe::memory_bandwidth(threads, Bytes{3 << 20}).value, 1e6) << threads;
  EXPECT_GT(flotilla::probe::memory_bandwidth(3, Bytes{12}).value, 0) << "fewer elements than threads";
}

TEST(TriadSize, LeavesTheCacheButNotTheMemory) {
  EXPECT_EQ(flotilla::probe::triad_size(Bytes{32 << 20}, Bytes{std::int64_t{64} << 30}), Bytes{128 << 20});
  EXPECT_EQ(flotilla::probe::triad_size(Bytes{0}, Bytes{std::int64_t{64} << 30}), Bytes{24 << 20});
  EXPECT_EQ(flotilla::probe::triad_size(Bytes{32 << 20}, Bytes{64 << 20}), Bytes{8 << 20});
  EXPECT_EQ(flotilla::probe::triad_size(Bytes{0}, Bytes{0}), Bytes{3 << 20});
}

TEST(Peak, IsARate) {
  const double peak = flotilla::probe::peak(Precision::fp32, 1, Seconds{0.01}).value;
  EXPECT_GT(peak, 1e8);
  EXPECT_LT(peak, 1e14);
}

constexpr Bytes plenty{std::int64_t{1} << 30};

TEST(ElementTimes, AllFourInEachPrecision) {
  for (Precision precision : {Precision::fp32, Precision::bf16}) {
    const auto times = flotilla::probe::element_times({flotilla::model::built_in("gpt2-tiny"), 16, 1, 0, precision}, Seconds{0.01}, plenty);
    ASSERT_EQ(times.size(), 4u);
    EXPECT_EQ(times[0].operation, "adamw");
    EXPECT_EQ(times[1].operation, "squared_norm");
    EXPECT_EQ(times[2].operation, "cast");
    EXPECT_EQ(times[3].operation, "add");
    for (const auto& t : times) EXPECT_GT(t.per_million.value, 1e-6) << t.operation << ": a million elements do not pass in a microsecond";
  }
}

TEST(ElementTimes, AreReadOffTheClockThatIsGiven) {
  const auto a_second_a_look = [] {
    static double seconds = 0;
    return Seconds{seconds += 1};
  };
  const auto model = flotilla::model::built_in("gpt2-tiny");
  const auto elements = static_cast<double>(flotilla::model::parameter_count(model));
  for (const auto& t : flotilla::probe::element_times({model, 16}, Seconds{0.001}, plenty, a_second_a_look)) {
    EXPECT_DOUBLE_EQ(t.per_million.value, 1e6 / elements) << t.operation << ": a second a run";
    EXPECT_EQ(t.relative_scatter, 0) << t.operation;
  }
}

TEST(ElementTimes, TakeAQuarterOfTheMemoryAtMost) {
  const auto a_second_a_look = [] {
    static double seconds = 0;
    return Seconds{seconds += 1};
  };
  constexpr Bytes little{4 * 5 * sizeof(float) * 1000};
  const flotilla::compute::Setup setup{flotilla::model::built_in("gpt2-tiny"), 16};
  for (const auto& t : flotilla::probe::element_times(setup, Seconds{0.001}, little, a_second_a_look))
    EXPECT_DOUBLE_EQ(t.per_million.value, 1e6 / 1000) << t.operation << ": on a thousand elements";
}

/// Starting small tensors is part of the optimizer's time.
TEST(TrainingPart, HasTheModelsTensorsBlocksFirst) {
  const auto model = flotilla::model::built_in("gpt2");
  const auto whole = flotilla::probe::training_part(model, std::int64_t{1} << 40);
  EXPECT_EQ(whole.elements, flotilla::model::parameter_count(model));
  EXPECT_EQ(whole.slots.size(), flotilla::model::tensors(model).size());
  const auto some = flotilla::probe::training_part(model, 16 << 20);
  EXPECT_EQ(some.elements, 16 << 20);
  EXPECT_EQ(some.slots.back().offset + some.slots.back().elements, some.elements);
  std::int64_t next = 0;
  for (const auto& slot : some.slots) {
    EXPECT_EQ(slot.offset, next);
    EXPECT_GT(slot.elements, 0);
    next += slot.elements;
  }
  EXPECT_GT(some.slots.size(), 24u) << "two blocks of twelve tensors and some of the third";
  EXPECT_LT(some.slots.size(), 37u);
}

TEST(Throttled, ElementsTakeAsManyTimesAsLong) {
  flotilla::probe::DeviceRates rates;
  rates.memory_bandwidth.value = 7;
  rates.elements = {{{"adamw", Seconds{1}, 0.1}, {"add", Seconds{2}, 0}}, {{"cast", Seconds{3}, 0}}};
  const auto longer = flotilla::probe::throttled(rates, 2.5);
  EXPECT_EQ(longer.elements[0][0].per_million, Seconds{2.5});
  EXPECT_EQ(longer.elements[0][0].relative_scatter, 0.1);
  EXPECT_EQ(longer.elements[0][1].per_million, Seconds{5});
  EXPECT_EQ(longer.elements[1][0].per_million, Seconds{7.5});
  EXPECT_EQ(longer.memory_bandwidth.value, 7);
}

}  // namespace
