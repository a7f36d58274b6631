#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <random>

#include "flotilla/base/error.hpp"
#include "flotilla/cluster/cluster.hpp"

namespace flotilla::cluster::fit_test {
namespace {

using Model = std::function<double(double)>;  // bytes -> seconds

std::vector<std::int64_t> powers_of_two(int first, int last) {
  std::vector<std::int64_t> sizes;
  for (int e = first; e <= last; ++e) sizes.push_back(std::int64_t{1} << e);
  return sizes;
}

std::vector<LinkSample> sample(const std::vector<std::int64_t>& sizes, const Model& model) {
  std::vector<LinkSample> samples;
  for (const auto size : sizes) samples.push_back({{size}, {model(static_cast<double>(size))}});
  return samples;
}

double time(const std::vector<LinkPiece>& pieces, std::int64_t size) {
  return transfer_time(Link{LinkLevel::node, "a", "b", pieces, 0}, {size}).value;
}

/// Sizes on both sides of every boundary, and between and beyond them.
std::vector<std::int64_t> interesting_sizes(const std::vector<LinkPiece>& pieces) {
  std::vector<std::int64_t> sizes{0, 1, 2, 3, 7, 100, 1000};
  for (const LinkPiece& piece : pieces)
    for (const std::int64_t d : {-2, -1, 0, 1, 2}) sizes.push_back(std::max<std::int64_t>(0, piece.from.count + d));
  for (int e = 0; e < 40; ++e) sizes.push_back((std::int64_t{1} << e) + 1);
  std::ranges::sort(sizes);
  return sizes;
}

void expect_sound(const std::vector<LinkPiece>& pieces) {
  ASSERT_FALSE(pieces.empty());
  EXPECT_EQ(pieces.front().from.count, 0);
  double last = 0;
  for (const auto size : interesting_sizes(pieces)) {
    const double t = time(pieces, size);
    ASSERT_TRUE(std::isfinite(t));
    ASSERT_GE(t, last) << "at " << size << " bytes";
    last = t;
  }
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    EXPECT_TRUE(std::isfinite(pieces[i].bandwidth.value) && pieces[i].bandwidth.value > 0);
    if (i == 0) continue;
    ASSERT_GT(pieces[i].from, pieces[i - 1].from);
    // Continuous: one byte more at a boundary costs what a byte costs, and no jump.
    const double before = (pieces[i - 1].latency + pieces[i].from / pieces[i - 1].bandwidth).value;
    // (A steep piece far from 0 has a large negative latency; what its sum rounds away is allowed.)
    const double rounding = 4 * std::numeric_limits<double>::epsilon() * (pieces[i].from / pieces[i].bandwidth).value;
    EXPECT_NEAR(time(pieces, pieces[i].from.count), before, 1e-9 * before + 1e-15 + rounding);
  }
}

TEST(Fit, RecoversALatencyAndABandwidth) {
  const auto pieces = fit_pieces(sample(powers_of_two(3, 24), [](double s) { return 2e-6 + s / 5e9; }));
  ASSERT_EQ(pieces.size(), 1u);
  EXPECT_NEAR(pieces[0].latency.value, 2e-6, 1e-14);
  EXPECT_NEAR(pieces[0].bandwidth.value / 5e9, 1, 1e-9);
}

TEST(Fit, TwoSizesGiveTheLineThroughThem) {
  const auto pieces = fit_pieces({{{1000}, {3e-6}}, {{5000}, {7e-6}}});
  expect_sound(pieces);
  EXPECT_NEAR(time(pieces, 1000), 3e-6, 1e-15);
  EXPECT_NEAR(time(pieces, 3000), 5e-6, 1e-15);
  EXPECT_NEAR(time(pieces, 9000), 11e-6, 1e-15);
}

TEST(Fit, FollowsAChangeOfProtocol) {
  const Model eager_then_rendezvous = [](double s) { return s <= 8192 ? 1e-6 + s / 2e9 : 9e-6 + s / 12e9; };
  const auto sizes = powers_of_two(0, 19);
  const auto pieces = fit_pieces(sample(sizes, eager_then_rendezvous));
  expect_sound(pieces);
  EXPECT_LE(pieces.size(), 7u);
  for (const auto size : sizes) EXPECT_NEAR(time(pieces, size) / eager_then_rendezvous(static_cast<double>(size)), 1, 0.05) << size;
}

TEST(Fit, FollowsALinkThatGetsSlowerBeyondACache) {
  const Model model = [](double s) { return 1e-6 + std::max(s / 20e9, (s - 4e6) / 4e9 + 4e6 / 20e9); };
  const auto sizes = powers_of_two(6, 25);
  const auto pieces = fit_pieces(sample(sizes, model));
  expect_sound(pieces);
  for (const auto size : sizes) EXPECT_NEAR(time(pieces, size) / model(static_cast<double>(size)), 1, 0.12) << size;
}

TEST(Fit, IsSoundAndCloseUnderNoise) {
  std::mt19937 random{7};
  for (int round = 0; round < 300; ++round) {
    std::uniform_real_distribution<double> exponent{0, 1}, noise{-0.15, 0.15};
    const double latency = std::pow(10, -6.5 + 3 * exponent(random)), bandwidth = std::pow(10, 7 + 4 * exponent(random));
    const Model model = [&](double s) { return latency + s / bandwidth; };
    auto sizes = powers_of_two(0, 28);
    std::ranges::shuffle(sizes, random);
    sizes.resize(2 + static_cast<std::size_t>(round) % 19);
    std::vector<LinkSample> samples;
    for (int repeat = 0; repeat < 1 + round % 3; ++repeat)
      for (const auto size : sizes) samples.push_back({{size}, {model(static_cast<double>(size)) * (1 + noise(random))}});
    const auto pieces = fit_pieces(samples);
    expect_sound(pieces);
    for (const auto size : sizes) ASSERT_NEAR(time(pieces, size) / model(static_cast<double>(size)), 1, 0.5) << size << " round " << round;
  }
}

TEST(Fit, IsSoundForSamplesWithoutAnySense) {
  std::mt19937 random{11};
  std::uniform_real_distribution<double> exponent{-9, 2};
  for (int round = 0; round < 300; ++round) {
    std::vector<LinkSample> samples;
    for (int i = 0; i < 2 + round % 19; ++i)
      samples.push_back({{(std::int64_t{1} << (i + round % 8)) + round}, {round % 50 == 0 ? 0 : std::pow(10, exponent(random))}});
    expect_sound(fit_pieces(samples));
  }
}

TEST(Fit, TimesThatFallWithSizeBecomeFlatAndStillRiseInTheEnd) {
  const auto pieces = fit_pieces({{{1}, {1e-6}}, {{1000}, {9e-4}}, {{2000}, {8e-4}}, {{4000}, {7e-4}}});
  expect_sound(pieces);
  EXPECT_GT(time(pieces, 4'000'000), 10 * time(pieces, 4000));
}

TEST(Fit, OneOutlierAmongRepeatsIsForgotten) {
  std::vector<LinkSample> samples;
  for (int repeat = 0; repeat < 5; ++repeat)
    for (const auto size : powers_of_two(4, 20))
      samples.push_back({{size}, {(1e-6 + static_cast<double>(size) / 1e9) * (repeat == 2 ? 100 : 1)}});
  const auto pieces = fit_pieces(samples);
  EXPECT_NEAR(time(pieces, 1 << 20), 1e-6 + 0x1p20 / 1e9, 1e-9);
}

TEST(Fit, RefusesTooFewSizesAndImpossibleTimes) {
  EXPECT_THROW(fit_pieces({}), Error);
  EXPECT_THROW(fit_pieces({{{64}, {1e-6}}, {{64}, {2e-6}}}), Error);
  EXPECT_THROW(fit_pieces({{{64}, {1e-6}}, {{128}, {-1e-6}}}), Error);
  EXPECT_THROW(fit_pieces({{{64}, {1e-6}}, {{128}, {std::nan("")}}}), Error);
  EXPECT_THROW(fit_pieces({{{-64}, {1e-6}}, {{128}, {1e-6}}}), Error);
}

TEST(TransferTime, TakesThePieceThatHoldsTheSize) {
  const Link link{LinkLevel::zone, "a", "b", {{{0}, {1e-6}, {1e9}}, {{1000}, {5e-6}, {1e10}}}, 0};
  EXPECT_DOUBLE_EQ(transfer_time(link, {0}).value, 1e-6);
  EXPECT_DOUBLE_EQ(transfer_time(link, {999}).value, 1e-6 + 999 / 1e9);
  EXPECT_DOUBLE_EQ(transfer_time(link, {1000}).value, 5e-6 + 1000 / 1e10);
  EXPECT_THROW(transfer_time(Link{}, {1}), Error);
}

}  // namespace
}  // namespace flotilla::cluster::fit_test
