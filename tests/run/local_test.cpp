// Checkpoints that go to the nodes' storage first: the same bits in the end, and what a killed run comes back to.
#include "flotilla/journal/history.hpp"
#include "run/training.hpp"

namespace flotilla::tests {
namespace {

constexpr int ranks = 2;

/// Each rank has a folder of its own, as on nodes of its own.
std::string pattern(const fs::path& run) { return run.string() + "-node-$OMPI_COMM_WORLD_RANK"; }
fs::path node(const fs::path& run, int rank) { return run.string() + "-node-" + std::to_string(rank); }

Words plain(const fs::path& run, std::int64_t steps, const Words& more = {}) {
  const auto plan = plan_file(1, 2, 1);
  return train(run, ranks,
               Words{"--plan=" + plan.string(), text("--training.steps=", steps), "--model.dropout=0.1", "--checkpoint.every=3",
                     "--checkpoint.keep=0"} +
                   more);
}
Words local(const fs::path& run, std::int64_t steps, const Words& more = {}) {
  return plain(run, steps, Words{"--checkpoint.local=" + pattern(run)} + more);
}

/// A model whose checkpoint has 10 MB, and each rank's part half of it: MPI needs files of 4 MiB.
Words larger(Words command) {
  const auto file = folder() / "larger-plan.json";
  files::write_plan(file, plan::even_plan(model::built_in("gpt2-mini"), length, global_batch, Precision::fp32, 1, ranks, 1, 2));
  command = with(with(command, "--model.name=", "gpt2-mini"), "--plan=", file.string());
  return with(command, "--probe.file=", (folder() / "larger-profile.json").string());
}

std::uint32_t checksum(const fs::path& run, std::int64_t step) {
  return checkpoint::read_manifest(checkpoint::step_directory(run, step)).files.front().checksum;
}

std::vector<std::int64_t> saved_locally(const fs::path& run) {
  std::vector<std::int64_t> found;
  if (fs::exists(run / "metrics.jsonl"))
    for (const auto& record : journal::read_metrics(run).checkpoints)
      if (!record.in_run_directory()) found.push_back(record.step);
  return found;
}

int parts(const fs::path& run) {
  int count = 0;
  for (int rank = 0; rank < ranks; ++rank)
    for (const auto& entry : fs::recursive_directory_iterator{node(run, rank)}) count += entry.is_regular_file();
  return count;
}

TEST(LocalCheckpoints, HaveTheSameBitsAndLeaveNothingOnTheNodes) {
  const auto reference = folder() / "reference";
  ASSERT_EQ(run(plain(reference, 10)).code, 0);
  EXPECT_FALSE(fs::exists(reference / "local.json"));
  for (const std::string asynchronous : {"false", "true"}) {
    const auto directory = folder() / ("local-" + asynchronous);
    const auto ended = run(local(directory, 10, {"--checkpoint.asynchronous=" + asynchronous}));
    ASSERT_EQ(ended.code, 0) << ended.err;
    EXPECT_NE(ended.out.find("checkpoint saved on node-local storage"), std::string::npos) << ended.out;
    EXPECT_EQ(saved_locally(directory), (std::vector<std::int64_t>{3, 6, 9}));
    ASSERT_FALSE(committed(directory).empty());
    EXPECT_EQ(committed(directory).back(), 10);
    for (const auto step : committed(directory)) EXPECT_EQ(checksum(directory, step), checksum(reference, step)) << step;
    EXPECT_EQ(parts(directory), 0);
    EXPECT_EQ(journal::last_saved_step(directory), 10);
    EXPECT_FALSE(journal::undrained(journal::read_metrics(directory)));
  }
}

/// Adapters beside weights that stay: parts hold no moments of these. What a killed run comes back to has the bits of one that nothing
/// disturbed.
TEST(LocalCheckpoints, OfAdaptersHaveTheSameBitsThroughAKill) {
  const auto base = folder() / "base", straight = folder() / "adapters", directory = folder() / "adapters-local";
  ASSERT_EQ(run(plain(base, 3)).code, 0);
  const Words lora{"--lora.rank=4", "--lora.alpha=8", "--from", (base / "step-3").string(), "--training.decay-steps=1000000"};
  Process process{local(directory, 1'000'000, lora), folder()};
  EXPECT_TRUE(process.until([&] { return steps_logged(directory) >= 8 || !process.running(); })) << process.err();
  for (const auto& [rank, pid] : process.ranks()) ::kill(pid, SIGKILL);
  process.wait();
  ASSERT_FALSE(saved_locally(directory).empty());
  const auto last = losses(directory).rbegin()->first + 4;
  const auto ended = run(local(directory, last, lora));
  ASSERT_EQ(ended.code, 0) << ended.err;
  EXPECT_NE(ended.out.find("resumed after step"), std::string::npos) << ended.out;
  ASSERT_EQ(run(plain(straight, last, lora)).code, 0);
  EXPECT_EQ(checksum(directory, last), checksum(straight, last));
  EXPECT_EQ(parts(directory), 0);
}

/// Trains on until a step above `step` is on the nodes, where the run directory takes no file as large as a checkpoint, and is killed.
void train_until_only_local(const fs::path& directory, std::int64_t step) {
  std::string line = "ulimit -f 7168; exec";  // KiB
  for (const auto& word : larger(local(directory, 1'000'000))) line += " '" + word + "'";
  Process process{{"bash", "-c", line}, folder()};
  const auto there = [&] {
    const auto steps = saved_locally(directory);
    const bool full = process.err().find("stays on the nodes' storage until there is room") != std::string::npos;
    return full && !steps.empty() && steps.back() > step;
  };
  ASSERT_TRUE(process.until([&] { return there() || !process.running(); })) << process.out() << process.err();
  ASSERT_TRUE(there()) << process.out() << process.err();
  for (const auto& [rank, pid] : process.ranks()) ::kill(pid, SIGKILL);
  process.wait();
}

TEST(LocalCheckpoints, AKilledRunGoesOnFromWhatIsOnTheNodesOnly) {
  const auto directory = folder() / "only-local";
  ASSERT_NO_FATAL_FAILURE(train_until_only_local(directory, 0));
  EXPECT_EQ(committed(directory), std::vector<std::int64_t>{});
  const auto newest = saved_locally(directory).back();
  const auto where = text("step ", newest, " is on ");
  const auto report = run({FLOTILLA_BINARY, "report", directory.string()}),
             inspected = run({FLOTILLA_BINARY, "inspect", directory.string()});
  EXPECT_NE(report.out.find(where), std::string::npos) << report.out;
  EXPECT_EQ(inspected.code, 65);
  EXPECT_NE(inspected.err.find(where), std::string::npos) << inspected.err;
  const auto again = run(larger(local(directory, newest + 4)));
  ASSERT_EQ(again.code, 0) << again.err;
  EXPECT_NE(again.err.find(text("the checkpoint of step ", newest, " was on node-local storage only")), std::string::npos) << again.err;
  EXPECT_NE(again.out.find(text("resumed after step ", newest)), std::string::npos) << again.out;
  const auto straight = folder() / "straight";
  ASSERT_EQ(run(larger(plain(straight, newest + 4, {"--training.decay-steps=1000000"}))).code, 0);
  EXPECT_EQ(losses(directory), losses(straight));
  EXPECT_EQ(parts(directory), 0);
}

TEST(LocalCheckpoints, WithoutANodesPartAnEarlierOneIsUsedAndOneLineSaysSo) {
  const auto directory = folder() / "lost-node", before = folder() / "before";
  ASSERT_NO_FATAL_FAILURE(train_until_only_local(directory, 4));
  // What had been drained before the run directory was full.
  ASSERT_EQ(run(larger(plain(before, 4))).code, 0);
  fs::copy(before / "step-4", directory / "step-4", fs::copy_options::recursive);
  const auto newest = saved_locally(directory).back();
  const auto inspected = run({FLOTILLA_BINARY, "inspect", directory.string()});
  EXPECT_NE(inspected.out.find(text("step ", newest, " is on ")), std::string::npos) << inspected.out;
  fs::remove_all(node(directory, 1));
  const auto again = run(larger(local(directory, newest + 1)));
  ASSERT_EQ(again.code, 0) << again.err;
  const auto line = text("the checkpoint of step ", newest, " on node-local storage is lost: the parts of ");
  EXPECT_NE(again.err.find(line), std::string::npos) << again.err;
  EXPECT_NE(again.out.find("resumed after step 4"), std::string::npos) << again.out;
  EXPECT_EQ(committed(directory).back(), newest + 1);
}

TEST(LocalCheckpoints, StorageThatGoesAwayIsPassedOver) {
  for (const std::string asynchronous : {"false", "true"}) {
    const auto directory = folder() / ("gone-" + asynchronous);
    Process process{local(directory, 1'000'000, {"--checkpoint.asynchronous=" + asynchronous}), folder()};
    ASSERT_TRUE(process.until([&] { return !saved_locally(directory).empty() || !process.running(); })) << process.err();
    ASSERT_TRUE(process.running()) << process.out() << process.err();
    fs::remove_all(node(directory, 1));
    write(node(directory, 1), "a file");
    const auto before = committed(directory).empty() ? 0 : committed(directory).back();
    const std::string words = "this checkpoint goes into the run directory at once";
    const auto there = [&] {
      return process.err().find(words) != std::string::npos && !committed(directory).empty() && committed(directory).back() > before;
    };
    EXPECT_TRUE(process.until([&] { return there() || !process.running(); })) << process.out() << process.err();
    const auto living = process.ranks();
    ASSERT_TRUE(living.contains(1) && ::kill(living.at(1), SIGTERM) == 0) << process.err();
    const auto ended = process.wait();
    EXPECT_EQ(ended.code, 75) << ended.err;
    EXPECT_EQ(committed(directory).back(), journal::read_metrics(directory).steps.back().step);
  }
}

TEST(LocalCheckpoints, APatternThatCannotBeIsRefusedInOneLine) {
  const auto directory = folder() / "no-variable";
  const auto ended = run(with(local(directory, 2), "--checkpoint.local=", "$FLOTILLA_NO_SUCH_VARIABLE/x"));
  EXPECT_EQ(ended.code, 65) << ended.err;
  EXPECT_NE(ended.err.find("has no FLOTILLA_NO_SUCH_VARIABLE"), std::string::npos) << ended.err;
}

}  // namespace
}  // namespace flotilla::tests
