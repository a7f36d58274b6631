// Runs whose GPUs exchange by NCCL, on stand-ins (tests/standin): the bits of a run over MPI, groups that fall back, and ranks that fail.
#include <cmath>
#include <random>

#include "flotilla/journal/outcome.hpp"
#include "run/training.hpp"

namespace flotilla::tests {
namespace {

constexpr int ranks = 2, steps = 4;
constexpr int lost_peer = 77;

struct Shape {
  const char* name;
  int data, pipeline, tensor;
};
constexpr Shape shapes[] = {{"replicas", 2, 1, 1}, {"stages", 1, 2, 1}, {"shards", 1, 1, 2}};

Words job(const Shape& shape, const Words& more = {}) {
  return Words{text("--training.steps=", steps),
               "--training.warmup-steps=2",
               "--model.dropout=0.1",
               "--device=gpu",
               "--comm.deadline=8s",
               "--watch.deadline=8s",
               "--plan=" + plan_file(shape.data, shape.pipeline, shape.tensor).string()} +
         more;
}

fs::path fresh_run() {
  static int count = 0;
  return folder() / text("run-", ++count);
}

/// Losses of a run that nobody disturbs, by shape.
const std::map<std::int64_t, double>& expected(const Shape& shape) {
  static std::map<std::string, std::map<std::int64_t, double>> known;
  auto& curve = known[shape.name];
  if (curve.empty()) {
    const auto there = fresh_run();
    const auto ended = run(train(there, ranks, job(shape, {"--comm.transport=mpi"})));
    EXPECT_EQ(ended.code, 0) << ended.err;
    EXPECT_EQ(ended.out.find("NCCL 2."), std::string::npos) << ended.out;
    curve = losses(there);
  }
  return curve;
}

bool contains(const std::string& all, const std::string& part) { return all.find(part) != std::string::npos; }

/// It goes on, over MPI where NCCL fails: the very losses.
void expect_curve(const Shape& shape, const fs::path& there, const Ended& ended, const std::string& what) {
  ASSERT_EQ(ended.code, 0) << what << '\n' << ended.err;
  EXPECT_EQ(losses(there), expected(shape)) << what;
}

TEST(OverNccl, ARunHasTheBitsOfOneOverMpi) {
  for (const auto& shape : shapes) {
    const auto there = fresh_run();
    const auto ended = run(train(there, ranks, job(shape)));
    expect_curve(shape, there, ended, shape.name);
    EXPECT_TRUE(contains(ended.out, "NCCL 2.28.9")) << ended.out;
  }
}

TEST(OverNccl, AGroupThatFailsItsProofGoesOnOverMpiAndSaysSo) {
  for (const std::string fault : {"init_hang:1", "wrong@all:1"}) {
    const auto there = fresh_run();
    const auto ended = run(train(there, ranks, job(shapes[0])), {"FLOTILLA_STANDIN_NCCL_FAULTS=" + fault});
    expect_curve(shapes[0], there, ended, fault);
    EXPECT_TRUE(contains(ended.err, "goes on over MPI: rank ")) << fault << '\n' << ended.err;
    EXPECT_TRUE(contains(ended.err, "the data-parallel group of rank 0 on ")) << fault << '\n' << ended.err;
  }
}

/// What is done to one rank, and how the run ends.
struct Fault {
  std::string kind;
  Shape shape;
  int rank;
  int operation;  ///< of NCCL's; in init it does not count
  int signal;     ///< or a signal at some time in the run
  bool lazy;

  bool goes_on() const { return kind == "init_hang" || kind == "init_slow" || kind == "wrong" || kind == "slow"; }
  /// The launcher ends a job whose rank ends.
  bool launcher_ends() const { return kind == "die" || kind == "init_die" || signal == SIGKILL; }
  Words environment() const {
    Words words;
    if (lazy) words.push_back("FLOTILLA_STANDIN_NCCL_LAZY=1");
    if (signal != 0) return words;
    const std::string at = kind.starts_with("init") ? "" : kind == "wrong" ? "@all" : text("@", operation);
    words.push_back(text("FLOTILLA_STANDIN_NCCL_FAULTS=", kind, at, ":", rank));
    return words;
  }
  std::string describe() const { return text(kind, " of rank ", rank, ", ", shape.name, ", operation ", operation, lazy ? ", lazy" : ""); }
};

void expect_end(const Fault& fault) {
  const auto there = fresh_run();
  auto command = train(there, ranks, job(fault.shape));
  if (fault.signal != 0) command = with(command, "--training.steps=", "1000000");
  Process process{command, folder(), fault.environment()};
  if (fault.signal != 0) {
    EXPECT_TRUE(wait_until([&] { return steps_logged(there) >= fault.operation % 5 || !process.running(); }, patience)) << process.err();
    const auto living = process.ranks();
    ASSERT_TRUE(living.contains(fault.rank)) << process.err();
    ::kill(living.at(fault.rank), fault.signal);
  }
  const auto ended = process.wait(patience);
  ASSERT_TRUE(ended.in_time) << fault.describe() << '\n' << ended.left << ended.err;
  EXPECT_TRUE(process.nothing_left(Milliseconds{10000})) << fault.describe() << '\n' << ended.err;
  if (fault.goes_on()) return expect_curve(fault.shape, there, ended, fault.describe());
  if (fault.launcher_ends())
    EXPECT_NE(ended.code, 0) << fault.describe();
  else
    EXPECT_EQ(ended.code, lost_peer) << fault.describe() << '\n' << ended.err;
}

TEST(OverNccl, FaultsInACollectiveAndInASendEndTheRun) {
  expect_end({"async", shapes[0], 1, 20, 0, false});
  expect_end({"hang", shapes[1], 0, 20, 0, false});
}

TEST(OverNccl, ARankThatIsStoppedIsNoticed) { expect_end({"stop", shapes[1], 1, 2, SIGSTOP, false}); }

/// FLOTILLA_NCCL_FAULTS=N[:SEED]: so many, drawn at random.
TEST(OverNccl, RandomFaults) {
  const char* wanted = std::getenv("FLOTILLA_NCCL_FAULTS");
  const std::string words = wanted == nullptr ? "2:1" : wanted;
  const int count = std::atoi(words.c_str());
  const auto colon = words.find(':');
  const int seed = colon == std::string::npos ? 1 : std::atoi(words.c_str() + colon + 1);
  for (int i = 0; i < count && !HasFatalFailure(); ++i) {
    std::mt19937 random{static_cast<unsigned>(1000 * seed + i)};
    const auto one_of = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
    static const Words kinds{"die", "init_die", "hang", "async", "slow", "init_slow", "init_hang", "wrong", "kill", "stop"};
    Fault fault{kinds[static_cast<std::size_t>(one_of(10))], shapes[one_of(3)], one_of(ranks), 6 + one_of(80), 0, one_of(3) == 0};
    if (fault.kind == "kill") fault.signal = SIGKILL;
    if (fault.kind == "stop") fault.signal = SIGSTOP;
    SCOPED_TRACE(text("fault ", i, " of seed ", seed, ": ", fault.describe()));
    expect_end(fault);
    if (count > 10) std::printf("%d %s %s\n", i, fault.describe().c_str(), HasFailure() ? "FAILED" : "ok"), std::fflush(stdout);
  }
}

}  // namespace
}  // namespace flotilla::tests
