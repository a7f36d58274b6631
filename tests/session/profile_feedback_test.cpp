// What a run proved of its profile, as a profile for the next plan: used where its forecast is nearer, written whole, and only for the
// profile that it corrects.
#include "profile_feedback.hpp"

#include <gtest/gtest.h>

#include "flotilla/files/corrections_file.hpp"
#include "flotilla/files/text_file.hpp"
#include "flotilla/session/plan_choice.hpp"
#include "simulate/cluster_fixture.hpp"
#include "support/temporary_folder.hpp"

namespace flotilla::session {
namespace {

cluster::Profile measured(int hosts = 2) {
  auto profile = fixture::uniform_cluster(hosts, 1);
  profile.measured_at = "2026-01-02T03:04:05Z";
  profile.software = "s";
  profile.model_fingerprint = "f";
  profile.operation_times = {{"slow", "mlp_forward", 1, 4, 32, Precision::fp32, {0.1}, 0.01}};
  return profile;
}

cluster::Correction correction(const char* operation = "mlp_forward") {
  return {.device_type = "slow",
          .operation = operation,
          .sequences = 4,
          .length = 32,
          .was = {0.1},
          .now = {0.13},
          .lower = 1.25,
          .upper = 1.35,
          .error_bar = 0.08,
          .iterations = 18};
}

/// An iteration is ten of the operation.
Seconds ten(const cluster::Profile& profile) { return profile.operation_times.front().time * 10; }

ProfileFeedback feedback(double measured_seconds, std::vector<cluster::Correction> wrong = {correction()}, std::int64_t step = 20) {
  return feedback_of({std::move(wrong), {measured_seconds}, 18}, measured(), {1.0}, ten, "runs/a", step);
}

TEST(ProfileFeedback, SaysWhatWasWrongAndWhatTheCorrectedForecastIs) {
  const auto f = feedback(1.4);
  EXPECT_TRUE(f.nearer);
  EXPECT_EQ(f.record.step, 20);
  EXPECT_EQ(f.record.iterations, 18);
  EXPECT_DOUBLE_EQ(f.record.forecast_seconds, 1);
  EXPECT_NEAR(f.record.corrected_seconds, 1.3, 1e-9);
  EXPECT_DOUBLE_EQ(f.record.measured_seconds, 1.4);
  ASSERT_EQ(f.record.figures.size(), 1u);
  EXPECT_EQ(f.record.figures[0].subject, "slow");
  EXPECT_EQ(f.record.figures[0].figure, "mlp_forward");
  EXPECT_NEAR(f.record.figures[0].factor(), 1.3, 1e-9);
  EXPECT_EQ(f.corrections[0].run, "runs/a");
  EXPECT_EQ(f.corrections[0].step, 20);
  EXPECT_NEAR(f.profile.operation_times[0].time.value, 0.13, 1e-9);
}

TEST(ProfileFeedback, ACorrectionThatForecastsNoBetterIsNotUsed) {
  EXPECT_FALSE(feedback(1.05).nearer);
  EXPECT_FALSE(feedback(0.9).nearer);
  EXPECT_TRUE(feedback(1.2).nearer);
}

class CorrectedProfile : public ::testing::Test {
 protected:
  const tests::TemporaryFolder run_;
  const std::filesystem::path file_ = corrected_profile_file(run_.path(), 32, 32);
};

TEST_F(CorrectedProfile, HasANameForEachSequenceLength) {
  EXPECT_EQ(file_.filename(), "profile-corrected.json");
  EXPECT_EQ(corrected_profile_file(run_.path(), 512, 32).filename(), "profile-512-corrected.json");
}

TEST_F(CorrectedProfile, TheNextStartReadsIt) {
  EXPECT_FALSE(corrected_of(measured(), file_)) << "there is none";
  const auto f = feedback(1.4);
  write_corrected(file_, f);
  EXPECT_EQ(corrected_of(measured(), file_), f.profile);
  EXPECT_EQ(files::corrections_of(files::Json::read(file_)), f.corrections);
}

TEST_F(CorrectedProfile, CountsForTheProfileThatItCorrectsAlone) {
  write_corrected(file_, feedback(1.4));
  auto other = measured();
  other.measured_at = "2026-01-03T00:00:00Z";
  EXPECT_FALSE(corrected_of(other, file_)) << "measured anew since";
  other = measured();
  other.software = "newer";
  EXPECT_FALSE(corrected_of(other, file_));
  other = measured();
  other.model_fingerprint = "another length";
  EXPECT_FALSE(corrected_of(other, file_));
}

TEST_F(CorrectedProfile, OfFewerDevicesItCountsForThoseThatAreLeft) {
  write_corrected(file_, feedback(1.4));
  const auto fewer = measured(1);
  const auto part = corrected_of(fewer, file_);
  ASSERT_TRUE(part);
  EXPECT_EQ(part->devices.size(), 1u);
  EXPECT_NEAR(part->operation_times[0].time.value, 0.13, 1e-9);
  EXPECT_FALSE(corrected_of(measured(3), file_)) << "a host that nobody measured";
}

TEST_F(CorrectedProfile, EarlierCorrectionsOfOtherFiguresKeepTheirOrigin) {
  write_corrected(file_, feedback(1.4, {correction(), correction("head_loss")}));
  write_corrected(file_, feedback(1.4, {correction()}, 520));
  const auto all = files::corrections_of(files::Json::read(file_));
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].operation, "head_loss");
  EXPECT_EQ(all[0].step, 20);
  EXPECT_EQ(all[1].step, 520);
}

TEST_F(CorrectedProfile, ADamagedOneIsLeftOut) {
  write_corrected(file_, feedback(1.4));
  const auto text = files::read_text(file_);
  for (std::size_t part : {std::size_t{0}, text.size() / 3, text.size() - 3}) {
    files::write_text(file_, text.substr(0, part));
    EXPECT_FALSE(corrected_of(measured(), file_)) << part << " bytes";
  }
  write_corrected(file_, feedback(1.4));
  EXPECT_TRUE(corrected_of(measured(), file_)) << "and written anew";
}

}  // namespace
}  // namespace flotilla::session
