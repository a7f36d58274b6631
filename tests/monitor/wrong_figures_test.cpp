// Which figures of a profile a run proves wrong: by quartiles of its iterations, of the lower median of ranks, beyond the stated error bar.
#include "flotilla/monitor/wrong_figures.hpp"

#include <gtest/gtest.h>

namespace flotilla::monitor {
namespace {

using cluster::Correction;
using Figure = Correction::Figure;

std::vector<double> iterations(double seconds, double every_third = 1) {
  std::vector<double> all;
  for (int i = 0; i < 18; ++i) all.push_back(seconds * (i % 3 == 2 ? every_third : 1));
  return all;
}

Evidence of_operation(const char* operation, double forecast, std::vector<double> measured, const char* type = "a") {
  Evidence e;
  e.figure = {.device_type = type, .operation = operation, .sequences = 4, .length = 32};
  e.runs = 4;
  e.forecast = forecast;
  e.measured = std::move(measured);
  return e;
}
Evidence of_links(Figure figure, double forecast, std::vector<double> measured, int group = -1) {
  Evidence e;
  e.figure = {.figure = figure, .level = cluster::LinkLevel::zone};
  e.group = group;
  e.runs = 2;
  e.forecast = forecast;
  e.measured = std::move(measured);
  return e;
}

using Ranks = std::vector<std::vector<Evidence>>;

std::vector<Correction> wrong(const Ranks& ranks, const cluster::Profile& profile = {}) { return wrong_figures(ranks, {1, 0.1}, profile); }

TEST(WrongFigures, NothingIsWrongWithinTheErrorBar) {
  EXPECT_TRUE(wrong({{of_operation("mlp_forward", 0.4, iterations(0.43))}}).empty());
  EXPECT_TRUE(wrong({{of_operation("mlp_forward", 0.4, iterations(0.37))}}).empty());
}

TEST(WrongFigures, BeyondItTheMedianReplacesTheFigure) {
  const auto found = wrong({{of_operation("mlp_forward", 0.4, iterations(0.52))}});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].operation, "mlp_forward");
  EXPECT_DOUBLE_EQ(found[0].was.value, 0.1) << "of one of four";
  EXPECT_DOUBLE_EQ(found[0].now.value, 0.13);
  EXPECT_DOUBLE_EQ(found[0].lower, 1.3);
  EXPECT_EQ(found[0].iterations, 18);
  EXPECT_EQ(found[0].error_bar, 0.1);
  EXPECT_FALSE(found[0].inferred);
}

TEST(WrongFigures, AFigureThatIsFasterThanTheProfileIsWrongToo) {
  const auto found = wrong({{of_operation("mlp_forward", 0.4, iterations(0.2))}});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_DOUBLE_EQ(found[0].factor(), 0.5);
}

TEST(WrongFigures, AThirdOfDisturbedIterationsProvesNothing) {
  EXPECT_TRUE(wrong({{of_operation("mlp_forward", 0.4, iterations(0.41, 20))}}).empty());
  auto half = iterations(0.41);
  for (std::size_t i = 0; i < half.size(); i += 2) half[i] *= 20;
  EXPECT_TRUE(wrong({{of_operation("mlp_forward", 0.4, half)}}).empty()) << "the lower quartile is as forecast";
}

TEST(WrongFigures, AFewIterationsProveNothing) {
  EXPECT_TRUE(wrong({{of_operation("mlp_forward", 0.4, std::vector<double>(least_iterations - 1, 0.8))}}).empty());
  EXPECT_FALSE(wrong({{of_operation("mlp_forward", 0.4, std::vector<double>(least_iterations, 0.8))}}).empty());
}

TEST(WrongFigures, WhatCostsNothingIsNotWorthALine) {
  EXPECT_TRUE(wrong({{of_operation("mlp_forward", 0.001, iterations(0.003))}}).empty()) << "0.2 % of the iteration";
}

TEST(WrongFigures, ATypesOwnScatterWidensItsBar) {
  auto e = of_operation("mlp_forward", 0.4, iterations(0.52));
  e.figure.error_bar = 0.35;
  EXPECT_TRUE(wrong({{e}}).empty());
}

TEST(WrongFigures, OneSlowDeviceIsNotItsTypesFigure) {
  const auto normal = of_operation("mlp_forward", 0.4, iterations(0.41)), slow = of_operation("mlp_forward", 0.4, iterations(1.2));
  EXPECT_TRUE(wrong({{normal}, {slow}}).empty()) << "of two the faster one decides";
  EXPECT_TRUE(wrong({{slow}, {normal}, {normal}}).empty());
  EXPECT_EQ(wrong({{slow}, {slow}, {normal}}).size(), 1u) << "two of three";
}

TEST(WrongFigures, TypesAreJudgedApart) {
  const auto found =
      wrong({{of_operation("mlp_forward", 0.4, iterations(0.41), "a")}, {of_operation("mlp_forward", 0.4, iterations(0.6), "b")}});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].device_type, "b");
}

TEST(WrongFigures, MessagesMayBeLateByWhatTheProfileSaysOfComputing) {
  auto e = of_links(Figure::messages, 0.1, iterations(0.2));
  e.allowance = 0.08;
  const auto found = wrong({{e}});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_NEAR(found[0].factor(), 1.2, 1e-12);
  e.allowance = 0.2;
  EXPECT_TRUE(wrong({{e}}).empty());
}

TEST(WrongFigures, OfAGroupTheMemberThatWaitsLeastCounts) {
  // Either is last in half of the iterations; only he sees the network alone.
  std::vector<double> first, second;
  for (int i = 0; i < 18; ++i) {
    first.push_back(i % 2 ? 0.1 : 0.5);
    second.push_back(i % 2 ? 0.5 : 0.1);
  }
  const auto a = of_links(Figure::sums, 0.1, first, 3), b = of_links(Figure::sums, 0.1, second, 3);
  EXPECT_TRUE(wrong({{a}, {b}}).empty());
  EXPECT_TRUE(wrong({{of_links(Figure::sums, 0.1, iterations(0.3), 3)}}).empty()) << "one member alone says nothing of the network";
  const auto found = wrong({{of_links(Figure::sums, 0.1, iterations(0.3), 3)}, {of_links(Figure::sums, 0.1, iterations(0.25), 3)}});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_DOUBLE_EQ(found[0].factor(), 2.5);
}

TEST(WrongFigures, OneSlowGroupIsNotItsLevelsFigure) {
  const auto good = of_links(Figure::sums, 0.1, iterations(0.1), 1), slow = of_links(Figure::sums, 0.1, iterations(0.9), 2);
  EXPECT_TRUE(wrong({{good, slow}, {good, slow}}).empty());
}

TEST(WrongFigures, WhatDidNotRunIsInferredFromWhatDid) {
  cluster::Profile profile;
  for (const char* operation : {"mlp_forward", "attention_forward", "head_loss", "adamw"})
    profile.operation_times.push_back({"a", operation, 1, 4, 32, Precision::fp32, Seconds{2}, 0});
  profile.operation_times.push_back({"b", "head_loss", 1, 4, 32, Precision::fp32, Seconds{2}, 0});
  const Ranks ranks{{of_operation("mlp_forward", 0.4, iterations(0.6)), of_operation("attention_forward", 0.4, iterations(0.56))}};
  const auto found = wrong(ranks, profile);
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[0].operation, "mlp_forward") << "what costs most comes first";
  EXPECT_EQ(found[2].operation, "head_loss");
  EXPECT_TRUE(found[2].inferred);
  EXPECT_EQ(found[2].device_type, "a") << "nothing ran on the other type";
  EXPECT_NEAR(found[2].factor(), 1.45, 1e-12) << "the median of the two";
}

TEST(WrongFigures, OneOperationOfManyIsNoReasonToInferOthers) {
  cluster::Profile profile;
  profile.operation_times.push_back({"a", "head_loss", 1, 4, 32, Precision::fp32, Seconds{2}, 0});
  const Ranks ranks{{of_operation("mlp_forward", 0.3, iterations(0.6)), of_operation("attention_forward", 0.3, iterations(0.3)),
                     of_operation("mlp_backward", 0.3, iterations(0.31))}};
  ASSERT_EQ(wrong(ranks, profile).size(), 1u);
}

}  // namespace
}  // namespace flotilla::monitor
