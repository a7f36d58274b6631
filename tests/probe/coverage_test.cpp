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

TEST(Shapes, EveryPrecisionAndDegreeComesBeforeLargerMicrobatches) {
  ProbeRequest request = tiny();
  request.precisions = {Precision::fp32, Precision::bf16};
  request.tensor_parallel = {1, 2};
  const auto order = flotilla::probe::shapes(request, 2);
  ASSERT_EQ(order.size(), 16u);
  for (std::size_t i = 0; i < order.size(); ++i) {
    EXPECT_EQ(order[i].required, i < 4);
    EXPECT_EQ(order[i].sequences, 1 << (i / 4));
  }
  EXPECT_EQ(order[1], (MeasuredShape{Precision::fp32, 2, 1, true}));
  EXPECT_EQ(order[2], (MeasuredShape{Precision::bf16, 1, 1, true}));
}

TEST(Shapes, NamedMicrobatchesAreAllRequired) {
  ProbeRequest request = tiny();
  request.sequences = {3};
  EXPECT_EQ(flotilla::probe::shapes(request, 1), (std::vector<MeasuredShape>{{Precision::fp32, 1, 3, true}}));
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
  EXPECT_NE(message([](auto& r) { r.threads = -1; }).find("-1 threads"), std::string::npos);
  EXPECT_NE(message([](auto& r) { r.budget = {0}; }).find("budget"), std::string::npos);
}

}  // namespace
