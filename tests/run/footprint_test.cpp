// What a run leaves in memory and on the way: processes within their stated bound, a storm of signals, the measured timeline.
#include "flotilla/files/json.hpp"
#include "run/training.hpp"

namespace flotilla::tests {
namespace {

void expect_within_bound(const Words& command) {
  const auto ended = run(command);
  ASSERT_EQ(ended.code, 0) << ended.err;
  EXPECT_NE(ended.out.find("memory beside the arena: at most "), std::string::npos) << ended.out;
  EXPECT_EQ(ended.err.find("more memory than planned"), std::string::npos) << ended.out << ended.err;
}

TEST(Memory, ProcessesStayWithinTheirForecastBound) {
  for (const std::string precision : {"fp32", "bf16"})
    for (int ranks : {1, 3}) {
      const auto directory = folder() / text("memory-", precision, "-", ranks);
      auto command = train(directory, ranks, {"--training.steps=4", "--training.precision=" + precision, "--training.warmup-steps=0"});
      expect_within_bound(with(command, "--probe.file=", (folder() / ("profile-" + precision + std::to_string(ranks))).string()));
    }
}

TEST(Memory, SoDoesARealModel) {
  auto command = train(folder() / "memory-opt", 1, {"--training.steps=2", "--training.warmup-steps=0", "--checkpoint.keep=1"});
  command = with(with(command, "--model.name=", "opt-125m"), "--training.length=", "64");
  expect_within_bound(with(with(command, "--training.global-batch=", "2"), "--probe.file=", (folder() / "profile-opt.json").string()));
}

TEST(Signals, AStormOfThemIsOneRequest) {
  const auto directory = folder() / "storm";
  const int ranks = 2;
  Process process{train(directory, ranks, {"--training.steps=100000", "--training.warmup-steps=0"}), folder()};
  ASSERT_TRUE(wait_until([&] { return steps_logged(directory) >= 3 || !process.running(); }, patience)) << process.err();
  const auto victims = process.ranks();
  ASSERT_EQ(static_cast<int>(victims.size()), ranks);
  for (int burst = 0; burst < 2000; ++burst)
    for (const auto& [rank, pid] : victims) ::kill(pid, burst % 2 == 0 ? SIGUSR1 : SIGUSR2);
  const auto ended = process.wait(patience);
  EXPECT_EQ(ended.code, 75) << ended.out << ended.err;
  ASSERT_EQ(committed(directory).size(), 1u);
  EXPECT_EQ(committed(directory).back(), static_cast<std::int64_t>(losses(directory).size()));
}

TEST(Timeline, HoldsEveryRanksQueues) {
  const auto file = folder() / "timeline.json";
  const auto ended = run(train(
      folder() / "timeline", 2,
      {"--training.steps=2", "--training.warmup-steps=0", "--plan=" + plan_file(1, 2, 1).string(), "--report.timeline=" + file.string()}));
  ASSERT_EQ(ended.code, 0) << ended.err;
  std::set<std::pair<std::int64_t, std::string>> seen;
  for (const auto& event : files::Json::read(file).at("traceEvents").items())
    if (event.get_string("ph") == "X") {
      EXPECT_GE(event.get_double("dur"), 0);
      seen.insert({event.get_int64("pid"), event.get_string("name")});
    }
  for (const std::string name : {"send activation", "receive gradient", "reduce scalars", "optimizer layer 1"})
    EXPECT_TRUE(seen.contains({0, name})) << name;
  for (const std::string name : {"receive activation", "send gradient", "head_loss 3"}) EXPECT_TRUE(seen.contains({1, name})) << name;
}

}  // namespace
}  // namespace flotilla::tests
