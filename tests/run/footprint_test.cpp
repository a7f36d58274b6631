// What a run leaves in memory and on the way: processes within their stated bound, a storm of signals, the measured timeline.
#include "flotilla/files/json.hpp"
#include "run/training.hpp"

namespace flotilla::tests {
namespace {

void expect_within_bound(const Words& command) {
  const auto ended = run(command);
  ASSERT_EQ(ended.code, 0) << ended.err;
  EXPECT_NE(ended.out.find("memory outside the arena: at most "), std::string::npos) << ended.out;
  EXPECT_EQ(ended.err.find("more memory than the plan assumed"), std::string::npos) << ended.out << ended.err;
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
  ASSERT_TRUE(process.until([&] { return steps_logged(directory) >= 3 || !process.running(); })) << process.err();
  const auto victims = process.ranks();
  ASSERT_EQ(static_cast<int>(victims.size()), ranks);
  for (int burst = 0; burst < 2000; ++burst)
    for (const auto& [rank, pid] : victims) ::kill(pid, burst % 2 == 0 ? SIGUSR1 : SIGUSR2);
  const auto ended = process.wait();
  EXPECT_EQ(ended.code, 75) << ended.out << ended.err;
  ASSERT_EQ(committed(directory).size(), 1u);
  EXPECT_EQ(committed(directory).back(), static_cast<std::int64_t>(losses(directory).size()));
}

TEST(Timeline, HoldsEveryRanksQueuesAndStandsBesideTheForecast) {
  const auto directory = folder() / "timeline", file = directory / "timeline.json", plan = plan_file(1, 2, 1);
  const auto command = train(
      directory, 2, {"--training.steps=21", "--training.warmup-steps=0", "--plan=" + plan.string(), "--report.timeline=" + file.string()});
  const auto ended = run(command);
  ASSERT_EQ(ended.code, 0) << ended.err;
  std::set<std::pair<std::int64_t, std::string>> seen;
  std::map<std::pair<std::int64_t, std::int64_t>, double> ends;  // of the spans so far, by process and track
  std::multiset<std::string> sent, received;
  for (const auto& event : files::Json::read(file).at("traceEvents").items()) {
    const auto kind = event.get_string("ph");
    if (kind == "s") sent.insert(event.get_string("id"));
    if (kind == "f") received.insert(event.get_string("id"));
    if (kind != "X") continue;
    EXPECT_GE(event.get_double("dur"), 0);
    auto& end = ends.try_emplace({event.get_int64("pid"), event.get_int64("tid")}, 0).first->second;
    EXPECT_GE(event.get_double("ts") * (1 + 1e-9) + 1e-3, end) << event.get_string("name") << " overlaps on its track";
    end = event.get_double("ts") + event.get_double("dur");
    seen.insert({event.get_int64("pid"), event.at("args").get_string("instruction")});
    const auto instruction = event.at("args").get_string("instruction");
    const auto named = instruction.starts_with("send") ? text(instruction, " mb ", event.at("args").get_int("microbatch")) : instruction;
    EXPECT_TRUE(event.get_string("name").starts_with(named)) << event.get_string("name");
  }
  EXPECT_EQ(sent, received) << "an arrow has one end";
  EXPECT_EQ(sent.size(), 8u) << "activations and gradients of four microbatches";
  EXPECT_EQ(std::set(sent.begin(), sent.end()).size(), sent.size()) << "two messages under one name";
  for (const std::string name : {"send activation", "receive gradient", "reduce scalars", "optimizer layer 1"})
    EXPECT_TRUE(seen.contains({0, name})) << name;
  for (const std::string name : {"receive activation", "send gradient", "head_loss 3"}) EXPECT_TRUE(seen.contains({1, name})) << name;

  EXPECT_NE(ended.out.find("measured (median of 18 iterations):\n"), std::string::npos) << ended.out;
  const auto held = journal::read_metrics(directory).forecasts;
  ASSERT_EQ(held.size(), 1u);
  EXPECT_EQ(std::tuple(held[0].step, held[0].iterations), std::tuple(20, 18));
  EXPECT_GT(held[0].measured_seconds, 0);
  // Outside, what was wrong is said in its place where it was found.
  if (held[0].inside_error_bar) {
    EXPECT_EQ(ended.out.find("outside its error bar"), std::string::npos) << ended.out;
  }
  EXPECT_EQ(ended.err.find("outside its error bar"), std::string::npos) << ended.err;

  const auto profile = folder() / "profile-2.json", both = folder() / "both.json";
  const auto simulated = run({FLOTILLA_BINARY, "simulate", plan.string(), "--profiles", profile.string(), "--timeline", both.string(),
                              "--measured", directory.string()});
  EXPECT_EQ(simulated.code, 0) << simulated.err;
  EXPECT_NE(simulated.out.find("measured (median of 19 iterations):\n"), std::string::npos) << simulated.out;
  std::set<std::string> processes;
  for (const auto& event : files::Json::read(both).at("traceEvents").items())
    if (event.get_string("name") == "process_name") processes.insert(event.at("args").get_string("name").substr(0, 16));
  EXPECT_EQ(processes, (std::set<std::string>{"forecast: rank 0", "forecast: rank 1", "measured: rank 0", "measured: rank 1"}));
}

}  // namespace
}  // namespace flotilla::tests
