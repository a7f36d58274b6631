#include "checkpoint_interval.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace flotilla::session {
namespace {

/// Share of the time that is lost: saves, and by each failure what was done since the last save. Exact for failures without memory
/// (Daly 2006, eq. 20, without the time of a restart, which no interval changes).
double lost(double interval, double save, double mtbf) { return 1 - interval / (mtbf * std::expm1((interval + save) / mtbf)); }

TEST(CheckpointInterval, LosesLeast) {
  for (const double save : {0.01, 1.0, 30.0, 600.0})
    for (const double mtbf : {1800.0, 86400.0, 3e6}) {
      const double best = best_checkpoint_interval({Seconds{save}}, Seconds{mtbf}).value, here = lost(best, save, mtbf);
      ASSERT_GT(best, 0);
      for (const double factor : {0.1, 0.3, 0.5, 0.8, 1.25, 2.0, 4.0, 10.0})
        EXPECT_LT(here, lost(factor * best, save, mtbf)) << save << ' ' << mtbf << ' ' << factor;
    }
}

TEST(CheckpointInterval, IsYoungsWhereSavesAreShort) { EXPECT_NEAR(best_checkpoint_interval({Seconds{2}}, Seconds{1e6}).value, 2000, 2); }

TEST(CheckpointInterval, IsTheTimeBetweenFailuresWhereSavesAreLonger) {
  EXPECT_EQ(best_checkpoint_interval({Seconds{500}}, Seconds{200}), Seconds{200});
  EXPECT_NEAR(best_checkpoint_interval({Seconds{399.999}}, Seconds{200}).value, 200, 90);
}

TEST(CheckpointInterval, LeavesTheStorageTimeWhereSavesAreWrittenBesideTheSteps) {
  journal::CheckpointRecord save;
  save.seconds = 30;
  save.pause_seconds = 1e-4;
  EXPECT_NEAR(best_checkpoint_interval(cost_of(save), Seconds{1e5}).value, 300, 1) << "a tenth of the time";
  EXPECT_NEAR(best_checkpoint_interval(cost_of(save), Seconds{1e10}).value, std::sqrt(2e-4 * 1e10), 1) << "failures are rarer than that";
  save.pause_seconds.reset();
  EXPECT_EQ(best_checkpoint_interval(cost_of(save), Seconds{1e5}), best_checkpoint_interval({Seconds{30}}, Seconds{1e5}));
}

journal::IncarnationHistory incarnation(double seconds, int hosts, std::optional<ExitCode> code) {
  journal::IncarnationHistory h;
  h.launched = 1000;
  h.ended = 1000 + seconds;
  h.exit_code = code;
  h.devices = {{"A100", "", 4 * hosts, hosts}};
  return h;
}

TEST(NodeFailures, AreTheSitesUntilTheRunHasSeenSome) {
  const Seconds day{86400};
  EXPECT_EQ(NodeFailures(100 * day, {}).job_mtbf(1, {}), 100 * day);
  EXPECT_EQ(NodeFailures(100 * day, {}).job_mtbf(50, {}), 2 * day);
  EXPECT_EQ(NodeFailures(100 * day, {}).job_mtbf(50, 2 * day), 4 * day);
  const auto good = incarnation(86400, 10, ExitCode::requeue), lost = incarnation(86400, 10, ExitCode::lost_peer),
             killed = incarnation(86400, 10, std::nullopt), wrong = incarnation(86400, 10, ExitCode::bad_input);
  auto runs = killed;
  runs.running = true;
  const NodeFailures seen{100 * day, {good, lost, killed, wrong, runs}};
  EXPECT_EQ(seen.seen(), 2);
  EXPECT_DOUBLE_EQ(seen.job_mtbf(10, {}).value, 140 * 86400.0 / 3 / 10);
}

}  // namespace
}  // namespace flotilla::session
