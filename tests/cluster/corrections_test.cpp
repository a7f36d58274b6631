// A profile with figures that a run measured: what changes, by how much, and what stays.
#include "flotilla/cluster/corrections.hpp"

#include <gtest/gtest.h>

namespace flotilla::cluster::corrections_test {
namespace {

using Figure = Correction::Figure;

OperationTime row(const char* type, const char* operation, int degree, int sequences, double seconds) {
  return {type, operation, degree, sequences, 32, Precision::fp32, {seconds}, 0.01};
}

Profile measured() {
  Profile profile;
  profile.operation_times = {row("a", "mlp_forward", 1, 1, 1.0), row("a", "mlp_forward", 1, 4, 3.0), row("a", "mlp_forward", 2, 4, 2.0),
                             row("a", "head_loss", 1, 1, 0.5), row("b", "mlp_forward", 1, 1, 7.0)};
  Link link;
  link.pieces = {{{0}, {1e-5}, {1e9}}, {{1000}, {2e-5}, {2e9}}};
  link.sum_pieces = {{{0}, {3e-5}, {5e8}}};
  profile.links = {link, link};
  profile.links[0].level = LinkLevel::node;
  profile.links[1].level = LinkLevel::zone;
  return profile;
}

Correction of_operation(int degree, int sequences, double was, double now) {
  return {.device_type = "a",
          .operation = "mlp_forward",
          .tensor_parallel = degree,
          .sequences = sequences,
          .length = 32,
          .was = {was},
          .now = {now},
          .lower = now / was,
          .upper = now / was + 0.05,
          .iterations = 18};
}
Correction of_links(Figure figure, LinkLevel level, double factor) {
  return {.figure = figure, .level = level, .was = {1}, .now = {factor}, .lower = factor, .upper = factor, .iterations = 18};
}

TEST(Corrections, AnOperationChangesInAllItsSizesByTheNearestThatRan) {
  const std::vector all{of_operation(1, 4, 3, 6), of_operation(2, 4, 2, 2.5)};
  const auto profile = corrected(measured(), all);
  const auto& times = profile.operation_times;
  EXPECT_DOUBLE_EQ(times[0].time.value, 2) << "as the four sequences on one device";
  EXPECT_DOUBLE_EQ(times[1].time.value, 6) << "what was measured";
  EXPECT_DOUBLE_EQ(times[2].time.value, 2.5) << "of two devices its own";
  EXPECT_DOUBLE_EQ(times[3].time.value, 0.5) << "another operation";
  EXPECT_DOUBLE_EQ(times[4].time.value, 7) << "another type";
  EXPECT_NEAR(times[1].relative_scatter, 0.025, 1e-12) << "of the run's quartiles, where they are wider";
  EXPECT_EQ(times[3].relative_scatter, 0.01);
  EXPECT_EQ(profile.links, measured().links);
}

TEST(Corrections, AnOperationThatWasNeverMeasuredIsAdded) {
  auto unknown = of_operation(1, 4, 3, 6);
  unknown.operation = "mlp_backward";
  const auto profile = corrected(measured(), std::vector{unknown});
  ASSERT_EQ(profile.operation_times.size(), measured().operation_times.size() + 1);
  EXPECT_EQ(profile.operation_times.back().operation, "mlp_backward");
  EXPECT_EQ(profile.operation_times.back().time, Seconds{6});
  unknown.inferred = true;
  EXPECT_EQ(corrected(measured(), std::vector{unknown}), measured()) << "nobody measured it";
}

TEST(Corrections, LinksChangeByLevelMessagesAndSumsApart) {
  auto profile = corrected(measured(), std::vector{of_links(Figure::messages, LinkLevel::zone, 2)});
  EXPECT_EQ(profile.links[0], measured().links[0]) << "within a host";
  EXPECT_EQ(profile.links[1].pieces[0].latency, Seconds{2e-5});
  EXPECT_DOUBLE_EQ(profile.links[1].pieces[1].bandwidth.value, 1e9);
  EXPECT_EQ(profile.links[1].sum_pieces, measured().links[1].sum_pieces);
  profile = corrected(measured(), std::vector{of_links(Figure::sums, LinkLevel::zone, 0.5)});
  EXPECT_EQ(profile.links[1].pieces, measured().links[1].pieces);
  EXPECT_DOUBLE_EQ(profile.links[1].sum_pieces[0].bandwidth.value, 1e9);
}

TEST(Corrections, SumsThatAreMadeOfMessagesChangeThose) {
  auto plain = measured();
  plain.links[1].sum_pieces.clear();
  const auto profile = corrected(plain, std::vector{of_links(Figure::sums, LinkLevel::zone, 2)});
  EXPECT_EQ(profile.links[1].pieces[0].latency, Seconds{2e-5});
}

TEST(Corrections, LaterOnesReplaceThoseOfTheSameFigure) {
  const std::vector earlier{of_operation(1, 4, 3, 6), of_operation(2, 4, 2, 3), of_links(Figure::sums, LinkLevel::node, 2)};
  const std::vector later{of_operation(1, 4, 6, 5), of_links(Figure::messages, LinkLevel::node, 3)};
  const auto all = merged(earlier, later);
  ASSERT_EQ(all.size(), 4u);
  EXPECT_EQ(all[0], earlier[1]);
  EXPECT_EQ(all[1], earlier[2]);
  EXPECT_EQ(all[2], later[0]);
  EXPECT_EQ(all[3], later[1]);
}

TEST(Corrections, HaveNames) {
  EXPECT_EQ(name_of(of_operation(1, 4, 3, 6)), "mlp_forward on a");
  EXPECT_EQ(name_of(of_links(Figure::messages, LinkLevel::node, 3)), "messages within a host");
  EXPECT_EQ(name_of(of_links(Figure::sums, LinkLevel::wide, 3)), "all-reduces between zones");
}

}  // namespace
}  // namespace flotilla::cluster::corrections_test
