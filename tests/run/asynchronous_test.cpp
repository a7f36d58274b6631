// Checkpoints that are written beside the steps: the bits of those that are not, whatever ends or changes the run meanwhile.
#include "flotilla/files/json.hpp"
#include "flotilla/session/control_document.hpp"
#include "run/training.hpp"

namespace flotilla::tests {
namespace {

const std::string beside = "checkpoints are written beside the steps: copies of the state take at most ",
                  synchronously = "checkpoints are saved synchronously: ";

Words asynchronous(const fs::path& plan, std::int64_t steps, const Words& more = {}) {
  return Words{"--plan=" + plan.string(), text("--training.steps=", steps), "--model.dropout=0.1", "--checkpoint.asynchronous=true"} + more;
}

/// step -> of all tensors' checksums.
std::map<std::int64_t, std::uint32_t> checksums(const fs::path& run) {
  std::map<std::int64_t, std::uint32_t> found;
  for (const auto& step : checkpoint::list(run)) {
    EXPECT_EQ(checkpoint::describe(step.directory, true).damaged_segments(), 0) << step.directory;
    found[step.step] = checkpoint::read_manifest(step.directory).files.front().checksum;
  }
  return found;
}

bool has_pause(const journal::CheckpointRecord& record) { return record.pause_seconds.has_value(); }

TEST(Asynchronous, CheckpointsAndWhatResumesFromThemHaveTheSameBits) {
  const std::vector<std::pair<int, fs::path>> plans{{2, plan_file(2, 1, 1)}, {3, plan_file(1, 3, 1)}};
  for (const auto& [ranks, plan] : plans) {
    const auto now = folder() / text("now-", ranks), later = folder() / text("later-", ranks), resumed = folder() / text("resumed-", ranks);
    const Words often{"--checkpoint.every=3", "--checkpoint.keep=0"};
    const auto reference = run(train(now, ranks, with(asynchronous(plan, 10, often), "--checkpoint.asynchronous=", "false")));
    ASSERT_EQ(reference.code, 0) << reference.err;
    EXPECT_EQ(reference.out.find(beside), std::string::npos) << reference.out;
    const auto ended = run(train(later, ranks, asynchronous(plan, 10, often)));
    ASSERT_EQ(ended.code, 0) << ended.err;
    EXPECT_NE(ended.out.find(beside), std::string::npos) << ended.out;
    EXPECT_EQ(committed(later), (std::vector<std::int64_t>{3, 6, 9, 10})) << "no save is left out";
    EXPECT_EQ(checksums(later), checksums(now));
    const auto records = journal::read_metrics(later).checkpoints;
    ASSERT_EQ(records.size(), 4u);
    EXPECT_TRUE(std::all_of(records.begin(), records.begin() + 3, has_pause));
    EXPECT_FALSE(has_pause(records.back())) << "nothing goes on beside the last one";
    // From the one of step 6, as after a loss of those that came later.
    fs::create_directory(resumed);
    fs::copy(later / "step-6", resumed / "step-6", fs::copy_options::recursive);
    const auto again = run(train(resumed, ranks, asynchronous(plan, 10, often)));
    ASSERT_EQ(again.code, 0) << again.err;
    EXPECT_NE(again.out.find("resumed after step 6"), std::string::npos) << again.out;
    auto expected = checksums(now);
    expected.erase(3);
    EXPECT_EQ(checksums(resumed), expected);
  }
}

/// Bytes that the fullest rank needs under a plan, by the forecast.
std::int64_t forecast_peak(const fs::path& plan, const fs::path& profile) {
  const auto simulated = run({FLOTILLA_BINARY, "simulate", plan.string(), "--profiles", profile.string(), "--format", "json"});
  EXPECT_EQ(simulated.code, 0) << simulated.err;
  return files::Json::parse(simulated.out, "forecast").get_int64("peak_memory_bytes");
}

TEST(Asynchronous, WithoutRoomForTheCopySavesAreSynchronousAndOneLineSaysSo) {
  const auto directory = folder() / "crowded", plan = plan_file(1, 2, 1);
  const int ranks = 2;
  const auto roomy = run(train(folder() / "roomy", ranks, asynchronous(plan, 1)));
  ASSERT_EQ(roomy.code, 0) << roomy.err;
  // A stage of the model has about a megabyte to copy.
  const auto limit = forecast_peak(plan, folder() / text("profile-", ranks, ".json")) + (64 << 10);
  const auto ended = run(train(directory, ranks, asynchronous(plan, 4, {"--checkpoint.every=2", text("--device.memory=", limit, "B")})));
  ASSERT_EQ(ended.code, 0) << ended.err;
  const auto at = ended.err.find(synchronously);
  ASSERT_NE(at, std::string::npos) << ended.err;
  EXPECT_EQ(ended.err.find(synchronously, at + 1), std::string::npos) << ended.err;
  const auto line = ended.err.substr(at, ended.err.find('\n', at) - at);
  for (const std::string word : {"rank ", " needs ", " with a copy of what it saves and may use ", "--device.memory"})
    EXPECT_NE(line.find(word), std::string::npos) << line;
  EXPECT_EQ(ended.out.find(beside), std::string::npos) << ended.out;
  EXPECT_EQ(committed(directory), (std::vector<std::int64_t>{2, 4}));
  EXPECT_TRUE(std::ranges::none_of(journal::read_metrics(directory).checkpoints, has_pause));
}

TEST(Asynchronous, AStopWaitsForTheSaveUnderWayAndThenSaves) {
  const auto directory = folder() / "stopped", plan = plan_file(1, 2, 1);
  Process training{train(directory, 2, asynchronous(plan, 1'000'000, {"--checkpoint.every=2", "--checkpoint.keep=0"})), folder()};
  ASSERT_TRUE(training.until([&] { return committed(directory).size() >= 3 || !training.running(); })) << training.err();
  const auto living = training.ranks();
  ASSERT_TRUE(living.contains(1) && ::kill(living.at(1), SIGTERM) == 0) << training.err();
  const auto ended = training.wait();
  EXPECT_EQ(ended.code, 75) << ended.err;
  EXPECT_TRUE(training.nothing_left());
  const auto newest = committed(directory).back();
  EXPECT_NE(ended.err.find(text("saved at step ", newest)), std::string::npos) << ended.out << ended.err;
  EXPECT_EQ(newest, journal::read_metrics(directory).steps.back().step) << "no step is lost";
  EXPECT_EQ(static_cast<std::int64_t>(committed(directory).size()), newest / 2 + newest % 2) << "every second step, and the last";
  EXPECT_EQ(debris(directory), Words{});
}

TEST(Asynchronous, AChangeOfPlanWaitsForTheSaveUnderWay) {
  const auto changed = folder() / "changed", straight = folder() / "straight", first = plan_file(1, 2, 1), second = plan_file(3, 1, 1);
  constexpr int ranks = 3, steps_after = 8;
  const Words common{"--training.learning-rate=3e-4", "--training.minimum-learning-rate=3e-4", "--checkpoint.every=1",
                     "--checkpoint.keep=0"};
  fs::create_directories(changed);
  write(session::control_file(changed), session::control_to_json(files::read_plan(second)));
  Process training{train(changed, ranks, asynchronous(first, 1'000'000, common)), folder()};
  const auto plans_of_run = [&] {
    return fs::exists(changed / "metrics.jsonl") ? journal::read_metrics(changed).plans : std::vector<journal::PlanRecord>{};
  };
  const auto there = [&] {
    const auto plans = plans_of_run();
    return !plans.empty() && steps_logged(changed) >= plans[0].step + steps_after;
  };
  ASSERT_TRUE(training.until([&] { return there() || !training.running(); })) << training.out() << training.err();
  const auto living = training.ranks();
  ASSERT_TRUE(living.contains(0) && ::kill(living.at(0), SIGTERM) == 0) << training.err();
  const auto ended = training.wait();
  ASSERT_EQ(ended.code, 75) << ended.err;
  const auto plans = plans_of_run();
  ASSERT_EQ(plans.size(), 1u) << ended.out << ended.err;
  EXPECT_EQ(plans[0].refused, "");
  EXPECT_EQ(static_cast<std::int64_t>(committed(changed).size()), committed(changed).back()) << "of each step, those around the change too";
  // The same steps with synchronous saves and a restart in place of the change.
  const auto at = plans[0].step, end = committed(changed).back();
  const auto reference = [&](const fs::path& plan, std::int64_t until) {
    const auto again = run(train(straight, ranks, with(asynchronous(plan, until, common), "--checkpoint.asynchronous=", "false")));
    EXPECT_EQ(again.code, 0) << again.err;
  };
  reference(first, at);
  reference(second, end);
  EXPECT_EQ(checksums(changed), checksums(straight));
}

}  // namespace
}  // namespace flotilla::tests
