#include "coverage.hpp"

#include <gtest/gtest.h>

#include "flotilla/base/error.hpp"

namespace {

using flotilla::Precision;
using flotilla::probe::MeasuredShape;
using flotilla::probe::ProbeRequest;

ProbeRequest tiny() {
  ProbeRequest request;
  request.model = flotilla::model::built_in("gpt2-tiny");
  request.length = 16;
  return request;
}

TEST(Degrees, PowersOfTwoUpToRanksAndHeads) {
  ProbeRequest request = tiny();
  request.model.heads = 6;
  EXPECT_EQ(flotilla::probe::degrees(request, 1), (std::vector<int>{1}));
  EXPECT_EQ(flotilla::probe::degrees(request, 3), (std::vector<int>{1, 2}));
  EXPECT_EQ(flotilla::probe::degrees(request, 100), (std::vector<int>{1, 2, 4}));
  request.tensor_parallel = {3};
  EXPECT_EQ(flotilla::probe::degrees(request, 1), (std::vector<int>{3})) << "what is asked for is measured";
}

TEST(Microbatches, ShowWhatDoesNotGrowThenTheLargestThenWhatIsBetween) {
  using flotilla::probe::microbatches;
  EXPECT_EQ(microbatches(0, false), (std::vector<int>{1, 2, 8, 4}));
  EXPECT_EQ(microbatches(0, true), (std::vector<int>{1, 2, 64, 8, 16, 32, 4}));
  EXPECT_EQ(microbatches(16, true), (std::vector<int>{1, 2, 16, 4, 8}));
  EXPECT_EQ(microbatches(16, false), (std::vector<int>{1, 2, 8, 4}));
  EXPECT_EQ(microbatches(1, true), (std::vector<int>{1}));
  EXPECT_EQ(microbatches(2, true), (std::vector<int>{1, 2}));
  EXPECT_EQ(microbatches(3, true), (std::vector<int>{1, 2, 3}));
  EXPECT_EQ(microbatches(12, true), (std::vector<int>{1, 2, 12, 4, 8}));
  EXPECT_EQ(microbatches(1000, true).at(2), 64);
  for (int largest = 1; largest <= 70; ++largest) {
    auto sizes = microbatches(largest, true);
    EXPECT_EQ(sizes.front(), 1);
    std::ranges::sort(sizes);
    EXPECT_EQ(sizes.back(), std::min(largest, 64));
    for (std::size_t i = 1; i < sizes.size(); ++i) {
      EXPECT_LT(sizes[i - 1], sizes[i]);
      EXPECT_LE(sizes[i], 2 * sizes[i - 1]) << "no gap is wider than a factor of two";
    }
  }
}

TEST(Shapes, EveryPrecisionAndDegreeComesBeforeLargerMicrobatches) {
  ProbeRequest request = tiny();
  request.precisions = {Precision::fp32, Precision::bf16};
  request.tensor_parallel = {1, 2};
  const auto order = flotilla::probe::shapes(request, 2, false);
  ASSERT_EQ(order.size(), 16u);
  const auto sizes = flotilla::probe::microbatches(0, false);
  for (std::size_t i = 0; i < order.size(); ++i) {
    EXPECT_EQ(order[i].required, i < 4);
    EXPECT_EQ(order[i].sequences, sizes[i / 4]);
  }
  EXPECT_EQ(order[1], (MeasuredShape{Precision::fp32, 2, 1, true}));
  EXPECT_EQ(order[2], (MeasuredShape{Precision::bf16, 1, 1, true}));
}

TEST(Shapes, NamedMicrobatchesAreAllRequired) {
  ProbeRequest request = tiny();
  request.sequences = {3};
  EXPECT_EQ(flotilla::probe::shapes(request, 1, true), (std::vector<MeasuredShape>{{Precision::fp32, 1, 3, true}}));
}

TEST(Check, NamesWhatCannotBeMeasured) {
  const auto message = [](auto change) -> std::string {
    ProbeRequest request = tiny();
    change(request);
    try {
      flotilla::probe::check(request);
    } catch (const flotilla::Error& error) {
      EXPECT_EQ(error.kind(), flotilla::ErrorKind::bad_input);
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(message([](auto&) {}), "");
  EXPECT_NE(message([](auto& r) { r.length = 0; }).find("length 0"), std::string::npos);
  EXPECT_NE(message([](auto& r) { r.length = r.model.positions + 1; }).find("positions"), std::string::npos);
  EXPECT_NE(message([](auto& r) { r.tensor_parallel = {1, 99}; }).find("99"), std::string::npos);
  EXPECT_NE(message([](auto& r) { r.precisions = {}; }).find("precision"), std::string::npos);
  EXPECT_NE(message([](auto& r) { r.sequences = {0}; }).find("microbatch of 0"), std::string::npos);
  EXPECT_NE(message([](auto& r) { r.largest_microbatch = -1; }).find("microbatch of -1"), std::string::npos);
  EXPECT_NE(message([](auto& r) { r.threads = -1; }).find("-1 threads"), std::string::npos);
  EXPECT_NE(message([](auto& r) { r.budget = {0}; }).find("budget"), std::string::npos);
}

}  // namespace
