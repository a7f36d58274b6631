// Phases in the record of a run, through restarts.
#include "flotilla/journal/history.hpp"
#include "journal/run_folder.hpp"

namespace flotilla::journal {
namespace {

using namespace testing;

/// Steps after `from` up to `to`, each of a second and with its number as loss.
void steps(MetricsWriter& writer, std::int64_t from, std::int64_t to) {
  for (auto step = from + 1; step <= to; ++step)
    writer.write(StepRecord{.step = step, .loss = static_cast<double>(step), .step_seconds = 1});
}
void begin(MetricsWriter& writer, std::int64_t step) { writer.write(StartRecord{.step = step}); }

TEST(PhasesIn, ARunWithoutAnyAreNone) {
  const RunFolder run;
  MetricsWriter writer{run, 1};
  begin(writer, 0);
  steps(writer, 0, 3);
  EXPECT_TRUE(phases_in(read_metrics(run)).empty());
}

TEST(PhasesIn, CountWhatCountsInTheEnd) {
  const RunFolder run;
  {
    MetricsWriter writer{run, 1};
    begin(writer, 0);
    writer.write(PhaseRecord{0, "small", 16, 4});
    steps(writer, 0, 8);
    writer.write(PhaseRecord{8, "large", 16, 8});
    steps(writer, 8, 10);
  }
  {
    MetricsWriter writer{run, 2};  // back to before the end of the first
    begin(writer, 6);
    writer.write(PhaseRecord{6, "small", 16, 4});
    steps(writer, 6, 8);
    writer.write(PhaseRecord{8, "large", 16, 8});
    steps(writer, 8, 12);
  }
  {
    MetricsWriter writer{run, 3};  // on in the second
    begin(writer, 11);
    writer.write(PhaseRecord{11, "large", 16, 8});
    steps(writer, 11, 14);
    writer.write(PhaseRecord{14, "long", 32, 8});
  }
  const auto phases = phases_in(read_metrics(run));
  ASSERT_EQ(phases.size(), 3u);
  EXPECT_EQ(phases[0].phase, "small");
  EXPECT_EQ(phases[0].first_step, 0);
  EXPECT_EQ(phases[0].last_step, 8);
  EXPECT_EQ(phases[0].seconds, 8);
  EXPECT_EQ(phases[0].first_loss, 1);
  EXPECT_EQ(phases[0].last_loss, 8);
  EXPECT_EQ(phases[1].first_step, 8);
  EXPECT_EQ(phases[1].last_step, 14);
  EXPECT_EQ(phases[1].global_batch, 8);
  EXPECT_EQ(phases[2].length, 32);
  EXPECT_EQ(phases[2].last_step, 14) << "it has not made a step";
  EXPECT_FALSE(phases[2].first_loss);
}

}  // namespace
}  // namespace flotilla::journal
