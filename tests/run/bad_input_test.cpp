// What is wrong with files, options and starts: one clear line from all ranks together, the table's exit code, nothing half-written, nobody
// left hanging.
#include <deque>
#include <memory>

#include "flotilla/journal/outcome.hpp"
#include "run/training.hpp"

namespace flotilla::tests {
namespace {

constexpr int ranks = 2;

/// A run directory that no other test uses.
fs::path fresh_run() {
  static int count = 0;
  return folder() / text("run-", ++count);
}

void expect_line(const Ended& ended, int code, const Words& parts) {
  EXPECT_EQ(ended.code, code) << ended.err;
  const auto line = the_error(ended);
  for (const auto& part : parts) EXPECT_NE(line.find(part), std::string::npos) << "no '" << part << "' in\n  " << line << "\n" << ended.err;
  EXPECT_LT(line.size(), 700u) << line;
}

/// Jobs of two ranks that are all refused alike; a few at a time, since a start is mostly waiting.
class Refused {
 public:
  Refused() = default;
  Refused(const Refused&) = delete;
  Refused& operator=(const Refused&) = delete;
  ~Refused() {
    while (!waiting_.empty()) finish_oldest();
  }

  void job(const Words& more, int code, const Words& parts, const std::string& data = text_file(), const std::string& format = "text") {
    const auto there = fresh_run();
    const auto command = train(there, ranks, Words{"--training.steps=2"} + more);
    start(with(with(command, "--data.train=", data), "--data.format=", format), there, code, parts);
  }
  void start(const Words& command, const fs::path& there, int code, const Words& parts) {
    if (waiting_.size() == 4) finish_oldest();
    waiting_.push_back({std::make_unique<Process>(command, folder()), there, code, parts});
  }

 private:
  struct Case {
    std::unique_ptr<Process> process;
    fs::path there;
    int code;
    Words parts;
  };
  void finish_oldest() {
    auto& [process, there, code, parts] = waiting_.front();
    const auto ended = process->wait();
    EXPECT_TRUE(ended.in_time) << "hung\n" << ended.left << ended.err;
    EXPECT_TRUE(process->nothing_left());
    expect_line(ended, code, parts);
    EXPECT_EQ(debris_beside_outcomes(there), Words{});
    EXPECT_EQ(committed(there), std::vector<std::int64_t>{});
    waiting_.pop_front();
  }
  std::deque<Case> waiting_;
};

std::string little_endian(std::uint64_t value, int bytes) {
  std::string out;
  for (int i = 0; i < bytes; ++i) out += static_cast<char>(value >> (8 * i) & 0xff);
  return out;
}

std::string llmc(std::uint64_t magic, std::uint64_t count, const std::vector<unsigned>& tokens) {
  std::string out = little_endian(magic, 4) + little_endian(1, 4) + little_endian(count, 4);
  out.resize(1024);
  for (unsigned token : tokens) out += little_endian(token, 2);
  return out;
}

constexpr std::uint64_t llmc_magic = 20240520;

struct TokenFile {
  const char* name;
  std::string format, content;
  Words expected;
};

TEST(TokenFiles, TruncatedOrLying) {
  const std::vector<unsigned> tokens(2000, 5);
  auto strange = tokens;
  for (auto& token : strange) token = 300;
  const TokenFile files[] = {
      {"count.bin", "llmc", llmc(llmc_magic, 3000, tokens), {"3000"}},
      {"huge.bin", "auto", llmc(llmc_magic, 0x7fffffff, tokens), {"2147483647"}},
      {"negative.bin", "llmc", llmc(llmc_magic, 0xffffffff, tokens), {}},
      {"magic.bin", "llmc", llmc(20240521, 2000, tokens), {"20240520"}},
      {"half.bin", "llmc", llmc(llmc_magic, 2000, tokens).substr(0, 500), {"500"}},
      {"odd.bin", "raw-uint16", std::string(4001, 'x'), {"4001"}},
      {"odd4.bin", "raw-uint32", std::string(4002, 'x'), {"4002"}},
      {"what.bin", "auto", std::string(4000, '\0'), {"data.format"}},
      {"cut.npy", "npy", std::string("\x93NUMPY\x01\x00", 8), {}},
      {"empty.txt", "text", "", {}},
      {"short.txt", "text", "short", {"tokens"}},
      {"vocabulary.bin", "llmc", llmc(llmc_magic, 2000, strange), {"300", "byte"}},
  };
  Refused refused;
  for (const auto& [name, format, content, expected] : files) {
    const auto file = write(folder() / name, content).string();
    refused.job({}, 65, Words{file.substr(0, file.rfind('.'))} + expected, file, format);
  }
}

TEST(TokenFiles, Missing) {
  const auto file = (folder() / "nowhere.txt").string();
  Refused refused;
  refused.job({}, 66, {file, "No such file"}, file);
  refused.job({}, 66, {text(file, ".bin"), "No such file"}, write(text(file, ".idx"), std::string("MMIDIDX\0\0", 9)), "megatron");
  refused.job({}, 66, {"no file matches"}, folder() / "nowhere*.txt");
  refused.job({}, 65, {folder().string()}, folder());
}

TEST(JobFiles, WrongKeysAndValues) {
  const struct {
    const char* content;
    const char* place;
    Words expected;
  } files[] = {
      {"[training]\nlerning-rate = 1e-3\n", ":2:1", {"lerning-rate", "learning-rate"}},
      {"[trainin]\nsteps = 3\n", ":1:", {"trainin", "training"}},
      {"[device]\n  memory = 4\n", ":2:", {"memory", "4GiB"}},
      {"[watch]\ndeadline = 10\n", ":2:", {"deadline", "10s"}},
      {"[training]\nwarmup-steps = \"many\"\n", ":2:", {"warmup-steps", "many"}},
      {"[training]\nclip = -1\n", ":2:", {"clip", "-1"}},
      {"[training]\nbeta2 = 0.9999999999999999\n", ":2:", {"beta2", "0.999999"}},
      {"[training]\nlearning-rate = 1e308\n", ":2:", {"learning-rate", "1e+30"}},
      {"[training]\nepsilon = 1e300\n", ":2:", {"epsilon", "to 1,"}},
      {"[training]\nseed = 1\nseed = 2\n", ":3:", {"seed"}},
      {"[training\nseed = 1\n", ":1:", {}},
      {"[training]\nprecision = \"fp23\"\n", ":2:", {"fp23", "fp32"}},
      {"[model]\nattention-dropout = 1.5\n", ":2:", {"1.5"}},
  };
  int count = 0;
  Refused refused;
  for (const auto& [content, place, expected] : files) {
    const auto file = write(folder() / text("job-", ++count, ".toml"), content).string();
    refused.job({file}, 65, Words{file + place} + expected);
  }
  const auto nowhere = (folder() / "nowhere.toml").string();
  refused.job({nowhere}, 66, {nowhere, "No such file"});
}

TEST(CommandLine, WrongOptions) {
  const struct {
    Words options;
    Words expected;
  } lines[] = {
      {{"--training.stpes=3"}, {"--training.stpes", "training.steps"}},
      {{"--probe.fresh-for=5"}, {"probe.fresh-for", "has no unit", "write --probe.fresh-for"}},
      {{"--training.clip=much"}, {"training.clip", "much"}},
      {{"--plan.tensor=64"}, {"plan.tensor", "4 attention heads"}},
      {{"--training.evaluate-every"}, {"training.evaluate-every"}},
      {{"--replan", "--plan=" + plan_file(2, 1, 1).string()}, {"--replan", "keep one of them"}},
      {{"a.toml", "b.toml"}, {"one job file"}},
  };
  Refused refused;
  for (const auto& [options, expected] : lines) {
    refused.job(options, 64, expected);
  }
  expect_line(run({FLOTILLA_BINARY, "trian"}), 64, {"trian", "train"});
}

TEST(Models, BrokenConfigurations) {
  const struct {
    const char* content;
    Words expected;
  } files[] = {
      {"{\"model_type\": \"gpt2\", \"n_layer\": 2,", {":1:"}},
      {"{\"model_type\": \"gpt2\", \"n_layer\": \"two\"}", {"/n_layer"}},
      {"{\"model_type\": \"gpt2\", \"n_embd\": 65, \"n_head\": 4}", {"65", "4"}},
      {"{\"model_type\": \"bert\"}", {"/model_type", "bert"}},
      {"{\"model_type\": \"gpt2\", \"n_layer\": 16000}", {"blocks", "16000", "at most 2048"}},
      {"[]", {"object"}},
  };
  int count = 0;
  Refused refused;
  for (const auto& [content, expected] : files) {
    const auto file = write(folder() / text("config-", ++count, ".json"), content).string();
    const auto there = fresh_run();
    auto command = train(there, ranks, {"--training.steps=2", "--model.config=" + file});
    std::erase(command, "--model.name=gpt2-tiny");
    refused.start(command, there, 65, Words{file} + expected);
  }
}

std::string replaced(std::string all, const std::string& from, const std::string& to) {
  const auto at = all.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? all : all.replace(at, from.size(), to);
}

TEST(Plans, BrokenFiles) {
  const auto good = content(plan_file(2, 1, 1));
  const struct {
    const char* name;
    std::string content;
    Words expected;
  } files[] = {
      {"syntax", good.substr(0, good.size() / 2), {":"}},
      {"key", replaced(good, "\"schedule\"", "\"shedule\""), {"'shedule'", "did you mean 'schedule'"}},
      {"batch", replaced(good, "\"global_batch\": 8", "\"global_batch\": 16"), {"/stages/0"}},
      {"layers", replaced(good, "\"layers\": [0, 4]", "\"layers\": [0, 3]"), {"/stages/0"}},
      {"twice", replaced(good, "\"devices\": [1]", "\"devices\": [0]"), {"/stages/0/replicas/1"}},
      {"version", replaced(good, "\"version\": 1", "\"version\": 99"), {"/version", "99"}},
      {"length", replaced(good, "\"length\": 32", "\"length\": 16"), {"length is 16", "the job says 32"}},
      {"type", replaced(good, "\"device_type\": \"\"", "\"device_type\": \"abacus\""), {"abacus"}},
  };
  Refused refused;
  for (const auto& [name, content, expected] : files) {
    const auto file = write(folder() / text("broken-", name, ".json"), content).string();
    refused.job({"--plan=" + file}, 65, Words{file} + expected);
  }
  const auto nowhere = (folder() / "nowhere.json").string();
  refused.job({"--plan=" + nowhere}, 66, {nowhere, "No such file"});
}

TEST(Plans, NothingFits) {
  const auto four = plan_file(1, 4, 1).string();
  Refused refused;
  refused.job({"--plan=" + four}, 76, {four, "needs 4 ranks", "the job has 2"});
  refused.job({"--plan.pipeline=4"}, 76, {"take 4 devices, and there are 2", "more devices"});
  refused.job({"--device.memory=1MiB"}, 76, {"nearest", "needs", "of 1.00 MiB"});
}

TEST(Starts, TwoRanksDisagreeOnTheJob) {
  const auto there = fresh_run();
  const auto job = [&](const char* name, int seed) { return write(folder() / name, text("[training]\nseed = ", seed, "\n")).string(); };
  const auto one = [&](const std::string& file) { return Words{"-n", "1", FLOTILLA_BINARY, "train", file} + options(there, ranks); };
  expect_line(run(mpirun() + one(job("a.toml", 1)) + Words{":"} + one(job("b.toml", 2))), 65, {"the job", "seed"});
  EXPECT_FALSE(fs::exists(there));
}

TEST(Starts, TwoRanksReadDifferentData) {
  const auto there = fresh_run();
  const fs::path here[] = {folder() / "node-a", folder() / "node-b"};
  for (int i : {0, 1}) {
    fs::create_directory(here[i]);
    write(here[i] / "text.txt", random_text(static_cast<unsigned>(i), 5000));
  }
  const auto one = [&](const fs::path& where) {
    return Words{"-wdir", where.string(), "-n", "1", FLOTILLA_BINARY, "train"} + with(options(there, ranks), "--data.train=", "text.txt");
  };
  expect_line(run(mpirun() + one(here[0]) + Words{":"} + one(here[1])), 65, {"the training data"});
  EXPECT_FALSE(fs::exists(there));
}

TEST(Starts, CopiesWithoutALauncherAreRefused) {
  const auto there = fresh_run();
  for (int copy = 0; copy < 2; ++copy)
    expect_line(run(Words{FLOTILLA_BINARY, "train"} + options(there, ranks), {"OMPI_COMM_WORLD_SIZE=2"}), 69,
                {"2 processes", "mpirun -n 2"});
  EXPECT_FALSE(fs::exists(there));
}

/// A run that goes on until it is told otherwise.
class LongRun {
 public:
  explicit LongRun(int of_ranks, const Words& more = {})
      : process_{with_all(train(there_, of_ranks, {"--training.steps=1000000", "--run.log-every=1000"}), more), folder()} {
    EXPECT_TRUE(process_.until([&] { return steps_logged(there_) >= 2 || !process_.running(); }));
    EXPECT_TRUE(process_.running()) << process_.err();
  }
  const fs::path& there() const { return there_; }
  void signal(int rank, int number) {
    const auto living = process_.ranks();
    ASSERT_TRUE(living.contains(rank) && ::kill(living.at(rank), number) == 0);
  }
  int pid(int rank) const { return process_.ranks().at(rank); }
  Ended wait() {
    auto ended = process_.wait();
    EXPECT_TRUE(ended.in_time) << ended.err;
    EXPECT_TRUE(process_.nothing_left()) << "a rank lives on";
    return ended;
  }

 private:
  const fs::path there_ = fresh_run();
  Process process_;
};

TEST(Starts, TwoJobsOnOneRunDirectory) {
  LongRun first{ranks};
  expect_line(run(train(first.there(), ranks)), 69, {first.there().string(), text("pid ", first.pid(0))});
  const auto before = steps_logged(first.there());
  EXPECT_TRUE(until([&] { return steps_logged(first.there()) > before; })) << "the first is disturbed";
  first.signal(1, SIGTERM);
  const auto ended = first.wait();
  EXPECT_EQ(ended.code, 75) << ended.err;
  EXPECT_EQ(journal::read_metrics(first.there()).starts.size(), 1u);
}

class StoppedPeer : public testing::TestWithParam<int> {};

TEST_P(StoppedPeer, IsNamed) {
  const auto silent = text("rank ", GetParam(), " on");
  std::optional<LongRun> run_of_three;
  const auto ended = with_deadlines(
      [&](Seconds deadline) {
        run_of_three.emplace(3, Words{"--watch.interval=200ms", text("--watch.deadline=", deadline.value, "s")});
        run_of_three->signal(GetParam(), SIGSTOP);
        return run_of_three->wait();
      },
      [&](const Ended& one) { return one.err.find(silent) == std::string::npos; });
  const LongRun& all = *run_of_three;
  expect_line(ended, 77, {silent, "has been silent for"});
  const auto outcome = journal::read_outcome(all.there());
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->exit_code, ExitCode::lost_peer);
  EXPECT_NE(outcome->reason.find(text("rank ", GetParam(), " on")), std::string::npos) << outcome->reason;
  // The launcher wakes the stopped rank with SIGTERM, which asks for a save, and kills it: what that leaves, the next start takes away.
  if (debris_beside_outcomes(all.there()).empty()) return;
  age_leftovers(all.there());
  EXPECT_EQ(run(train(all.there(), 3, {"--training.steps=3"})).code, 0);
  EXPECT_EQ(debris(all.there()), Words{});
}

INSTANTIATE_TEST_SUITE_P(Ranks, StoppedPeer, testing::Values(0, 1));

}  // namespace
}  // namespace flotilla::tests
