#include "merge.hpp"

#include <gtest/gtest.h>

#include "flotilla/model/operations.hpp"

namespace {

using flotilla::Bytes;
using flotilla::Precision;
using flotilla::Rank;
using flotilla::Seconds;
using flotilla::probe::Discovery;
using flotilla::probe::ProbeRequest;
using flotilla::probe::RankMeasurements;

ProbeRequest request() {
  ProbeRequest r;
  r.model = flotilla::model::built_in("gpt2-tiny");
  r.length = 16;
  return r;
}

/// Everything takes `scale` seconds.
RankMeasurements measured(double scale) {
  RankMeasurements m;
  m.rates = {{1e9 / scale},
             {2e9 / scale},
             {1e10 / scale},
             {{{"adamw", Seconds{scale}, 0.1}, {"cast", Seconds{scale}, 0}, {"add", Seconds{scale}, 0}}}};
  m.rates.interference = {scale / 10, {scale}};
  m.shapes = {{{Precision::fp32, 1, 1, true}, std::vector<Seconds>(13, Seconds{scale}), std::vector<double>(13, 0.05)}};
  return m;
}

Discovery here(std::vector<std::string> types) {
  Discovery d;
  for (std::size_t r = 0; r < types.size(); ++r) {
    d.devices.push_back({Rank{static_cast<int>(r)}, types[r], "host", "", static_cast<int>(r), 1});
    d.memory.push_back(Bytes{1000 - 100 * static_cast<std::int64_t>(r)});
    d.host_memory.push_back(Bytes{500 - static_cast<std::int64_t>(r)});
    d.gpus.emplace_back();
  }
  return d;
}

TEST(Merge, TakesTheMedianOfATypesRanksAndTheLeastMemory) {
  const auto profile = merge(request(), here({"x", "x", "y", "x"}), {measured(1), measured(9), measured(5), measured(2)});
  ASSERT_EQ(profile.device_types.size(), 2u);
  EXPECT_EQ(profile.device_types[0].name, "x");
  EXPECT_EQ(profile.device_types[0].memory, Bytes{700});
  EXPECT_DOUBLE_EQ(profile.device_types[0].memory_bandwidth.value, 5e9);
  EXPECT_DOUBLE_EQ(profile.device_types[0].interference.compute_share, 0.2);
  EXPECT_EQ(profile.device_types[0].interference.message_delay, Seconds{2});
  EXPECT_EQ(profile.device_types[1].memory, Bytes{800});
  EXPECT_EQ(profile.device_types[1].source, "probe");
  ASSERT_EQ(profile.operation_times.size(), 2u * (13 + 3));
  for (const auto& t : profile.operation_times) EXPECT_EQ(t.time, Seconds{t.device_type == "x" ? 2.0 : 5.0}) << t.operation;
  EXPECT_EQ(*operation_time(profile, "x", "adamw", 1, 1, 1, Precision::fp32), Seconds{2});
}

TEST(Merge, HalvesAreInTheProfileWhereTheyWereMeasured) {
  const auto with_halves = [](double half) {
    RankMeasurements m = measured(1);
    m.shapes[0].seconds.resize(flotilla::probe::measured_count, Seconds{half});
    m.shapes[0].scatter.resize(flotilla::probe::measured_count, 0.05);
    return m;
  };
  const auto profile = merge(request(), here({"x"}), {with_halves(0.25)}), without = merge(request(), here({"x"}), {with_halves(0)});
  EXPECT_EQ(without.operation_times.size(), 13u + 3);
  ASSERT_EQ(profile.operation_times.size(), 19u + 3);
  for (const char* half : {"mlp_backward_input", "mlp_backward_weights", "attention_backward_input", "attention_backward_weights",
                           "head_backward_input", "head_backward_weights"})
    EXPECT_EQ(operation_time(profile, "x", half, 1, 1, 16, Precision::fp32), Seconds{0.25}) << half;
}

TEST(Merge, ScatterBetweenRanksCounts) {
  const auto profile = merge(request(), here({"x", "x", "x"}), {measured(1), measured(2), measured(3)});
  EXPECT_DOUBLE_EQ(profile.operation_times.front().relative_scatter, 0.5) << "ranks differ more than passes do";
  const auto alone = merge(request(), here({"x"}), {measured(1)});
  EXPECT_DOUBLE_EQ(alone.operation_times.front().relative_scatter, 0.05);
}

TEST(Merge, NoOperationIsFasterThanThePeak) {
  const auto profile = merge(request(), here({"x"}), {measured(1e-9)});
  const auto r = request();
  const flotilla::model::LayerShape shape{1, r.length, 1, 0, Precision::fp32};
  for (int o = 0; o < flotilla::model::operation_count; ++o)
    EXPECT_LE(flotilla::model::flops(r.model, shape, static_cast<flotilla::model::Operation>(o)) / 1e-9,
              profile.device_types[0].peak_fp32.value);
}

TEST(Numbers, ComeBackInOrder) {
  const auto values = numbers(measured(3));
  EXPECT_EQ(values.size(), 3u + 3 + 2 + 4 + 6 + 26);
  EXPECT_EQ(numbers(with_numbers(measured(1), values)), values);
  EXPECT_NE(numbers(measured(1)), values);
}

}  // namespace
