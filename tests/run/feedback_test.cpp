// A profile that is wrong on purpose: the first iterations say so, the run directory gets a corrected one, and the next start uses it.
#include "flotilla/files/corrections_file.hpp"
#include "run/training.hpp"
#include "support/tier.hpp"

namespace flotilla::tests {
namespace {

constexpr int ranks = 2;

/// The profile that a short run measured, with operations `factor` times as long, links that are as good as free, and narrow error bars: a
/// busy machine would measure wide ones, within which nothing is wrong.
fs::path profile_with_operations(double factor) {
  const auto measured = folder() / "measured.json";
  if (!fs::exists(measured)) {
    const auto ended = run(with(train(folder() / "measuring", ranks, {"--training.steps=1", "--plan=" + plan_file(2, 1, 1).string()}),
                                "--probe.file=", measured.string()));
    EXPECT_EQ(ended.code, 0) << ended.err;
  }
  auto profile = files::read_profile(measured);
  for (auto& time : profile.operation_times) time.time = time.time * factor, time.relative_scatter = 0.05;
  for (auto& link : profile.links) {
    link.pieces = {{{0}, {1e-6}, {1e11}}};
    link.sum_pieces.clear();
    link.relative_scatter = 0.05;
  }
  for (auto& type : profile.device_types) type.interference = {};
  const auto file = folder() / text("times-", factor, ".json");
  files::write_profile(file, profile);
  return file;
}

Words job(const fs::path& run, int steps, const Words& more = {}) {
  return with(
      train(run, ranks, Words{text("--training.steps=", steps), "--checkpoint.every=10", "--plan=" + plan_file(2, 1, 1).string()} + more),
      "--probe.file=", profile_with_operations(0.1).string());
}

fs::path corrected_profile(const fs::path& run) { return run / "profile-corrected.json"; }

TEST(Feedback, AWrongProfileIsNamedCorrectedAndTheNextStartUsesIt) {
  const auto run_ = folder() / "corrected";
  auto ended = run(job(run_, 30));
  ASSERT_EQ(ended.code, 0) << ended.err;
  auto metrics = journal::read_metrics(run_);
  ASSERT_EQ(metrics.corrections.size(), 1u) << ended.err;
  const auto first = metrics.corrections[0];
  EXPECT_EQ(first.step, 20);
  EXPECT_EQ(first.file, "profile-corrected.json") << ended.err;
  EXPECT_FALSE(first.figures.empty());
  EXPECT_LT(std::abs(first.corrected_seconds - first.measured_seconds), std::abs(first.forecast_seconds - first.measured_seconds));
  EXPECT_NE(ended.out.find("operations of cpu:"), std::string::npos) << ended.out;
  EXPECT_NE(ended.out.find("profile-corrected.json"), std::string::npos) << ended.out;
  for (const char* words : {"times as long", "than forecast", "error bar"})
    EXPECT_EQ(ended.err.find(words), std::string::npos) << "said once, with the forecast\n" << ended.err;

  const auto corrections = files::corrections_of(files::Json::read(corrected_profile(run_)));
  ASSERT_FALSE(corrections.empty());
  EXPECT_EQ(corrections[0].step, 20);
  EXPECT_EQ(corrections[0].run, run_.string());
  const auto operation = std::ranges::find(corrections, cluster::Correction::Figure::operation, &cluster::Correction::figure);
  ASSERT_NE(operation, corrections.end());
  EXPECT_GT(operation->factor(), 2) << "a tenth was far too little, whatever else this machine does";

  ended = run(job(run_, 60));
  ASSERT_EQ(ended.code, 0) << ended.err;
  EXPECT_NE(ended.err.find("as this run corrected it"), std::string::npos) << ended.err;
  metrics = journal::read_metrics(run_);
  ASSERT_EQ(metrics.forecasts.size(), 2u);
  EXPECT_DOUBLE_EQ(metrics.forecasts[1].forecast_seconds, first.corrected_seconds) << "by the corrected profile, the same plan";
}

TEST(Feedback, APlanThatIsSearchedAgainIsForecastByTheCorrectedProfile) {
  const auto run_ = folder() / "searched";
  ASSERT_EQ(run(job(run_, 30)).code, 0);
  ASSERT_TRUE(fs::exists(corrected_profile(run_)));
  auto command = job(run_, 31, {"--replan=true"});
  std::erase_if(command, [](const std::string& word) { return word.rfind("--plan=", 0) == 0; });
  const auto ended = run(command);
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_NE(ended.err.find("as this run corrected it"), std::string::npos) << ended.err;
  EXPECT_NE(ended.out.find("searched: "), std::string::npos) << ended.out;
}

TEST(Feedback, KilledWhileItIsWrittenLeavesNoneOrAWholeOne) {
  std::mt19937 random{11};
  for (int round = 0; round < of_tier(2, 6); ++round) {
    const auto run_ = folder() / text("killed-", round);
    {
      Process process{job(run_, 1000000, {"--checkpoint.every=5"}), folder()};
      ASSERT_TRUE(process.until([&] { return steps_logged(run_) >= 19 || !process.running(); })) << process.err();
      std::this_thread::sleep_for(std::chrono::microseconds{random() % 6000});
      for (const auto& [rank, pid] : process.ranks()) ::kill(pid, SIGKILL);
      process.wait();
      EXPECT_TRUE(process.nothing_left());
    }
    if (fs::exists(corrected_profile(run_))) {
      EXPECT_NO_THROW(files::read_profile(corrected_profile(run_)));
      EXPECT_FALSE(files::corrections_of(files::Json::read(corrected_profile(run_))).empty());
    }
    age_leftovers(run_);
    const auto ended = run(job(run_, 60));
    EXPECT_TRUE(ended.code == 0) << ended.err;
    EXPECT_EQ(debris(run_), Words{});
  }
}

TEST(Feedback, ADamagedOneIsNotUsed) {
  const auto run_ = folder() / "damaged";
  ASSERT_EQ(run(job(run_, 5)).code, 0);
  write(corrected_profile(run_), "{\"format\": \"flotilla-profile\", \"version\": 1");
  const auto ended = run(job(run_, 8));
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_NE(ended.err.find("planning without it"), std::string::npos) << ended.err;
  EXPECT_EQ(ended.err.find("as this run corrected it"), std::string::npos) << ended.err;
}

}  // namespace
}  // namespace flotilla::tests
