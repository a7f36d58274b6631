// Runs whose GPUs exchange by NCCL, on stand-ins (tests/standin): the bits of a run over MPI, groups that fall back, and ranks that fail.
#include <cmath>
#include <random>

#include "flotilla/files/profile_file.hpp"
#include "flotilla/journal/outcome.hpp"
#include "flotilla/session/control_document.hpp"
#include "run/training.hpp"

namespace flotilla::tests {
namespace {

constexpr int ranks = 2, steps = 4;
/// A stage's rounding on a CPU or on a GPU.
constexpr double another_device = 1e-6;
constexpr int lost_peer = 77;

struct Shape {
  const char* name;
  int data, pipeline, tensor;
};
constexpr Shape shapes[] = {{"replicas", 2, 1, 1}, {"stages", 1, 2, 1}, {"shards", 1, 1, 2}};

/// Where a rank hangs or falls silent on purpose: what tells it.
Words within(Words command, Seconds deadline) {
  return with_all(std::move(command), {text("--comm.deadline=", deadline.value, "s"), text("--watch.deadline=", deadline.value, "s")});
}
const std::vector<Seconds> deadlines{{8}, {32}, {128}};

/// NCCL always: what stand-ins measure says nothing of what is fast.
Words job(const Shape& shape, const Words& more = {}) {
  return Words{text("--training.steps=", steps),
               "--training.warmup-steps=2",
               "--model.dropout=0.1",
               "--device=gpu",
               "--comm.transport=nccl",
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
    const auto ended = run(with(train(there, ranks, job(shape)), "--comm.transport=", "mpi"));
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

fs::path measured_profile() { return folder() / text("profile-", ranks, ".json"); }

/// What is chosen is what the profile says, whichever that is, and the bits are the same.
TEST(OverNccl, ByDefaultAGroupTakesWhatMeasuredFaster) {
  for (const auto& shape : {shapes[0], shapes[1]}) {
    const auto there = fresh_run();
    const auto ended = run(with(train(there, ranks, job(shape)), "--comm.transport=", "auto"));
    expect_curve(shape, there, ended, shape.name);
    const bool by_nccl = contains(ended.out, "NCCL for "), through_hosts = contains(ended.out, "the hosts' memory for ");
    EXPECT_TRUE(by_nccl || through_hosts) << ended.out;
    EXPECT_TRUE(contains(ended.out, " a step; ")) << ended.out;
    EXPECT_EQ(contains(ended.out, "groups of GPUs") || contains(ended.out, "group of GPUs"), by_nccl) << ended.out;
    EXPECT_FALSE(files::read_profile(measured_profile()).device_links.empty());
  }
}

/// The same with links that somebody measured otherwise: each way of choosing, on the same devices.
TEST(OverNccl, TheProfileDecides) {
  static_cast<void>(expected(shapes[0]));
  ASSERT_EQ(run(with(train(fresh_run(), ranks, job(shapes[0])), "--comm.transport=", "auto")).code, 0);
  for (const bool fast : {true, false}) {
    auto profile = files::read_profile(measured_profile());
    for (auto& known : profile.device_links)
      known.link.pieces = known.link.sum_pieces = {{Bytes{0}, Seconds{fast ? 1e-9 : 10.0}, {fast ? 1e15 : 1e3}}};
    const auto file = folder() / text("profile-", fast, ".json");
    files::write_profile(file, profile);
    const auto there = fresh_run();
    const auto command = with(train(there, ranks, job(shapes[0])), "--comm.transport=", "auto");
    const auto ended = run(with(command, "--probe.file=", file.string()));
    expect_curve(shapes[0], there, ended, fast ? "fast" : "slow");
    EXPECT_EQ(contains(ended.out, "NCCL for "), fast) << ended.out;
    EXPECT_EQ(contains(ended.out, "the hosts' memory for "), !fast) << ended.out;
    EXPECT_EQ(contains(ended.out, "NCCL 2.28.9"), fast) << ended.out;
  }
}

/// An MPI library that takes device memory (tests/standin/mpi).
Words cuda_aware(const Words& more = {}) {
  const char* library = std::getenv("FLOTILLA_TEST_CUDA_AWARE_MPI");
  EXPECT_NE(library, nullptr);
  return Words{text("LD_PRELOAD=", library == nullptr ? "" : library), "FLOTILLA_STANDIN_CUDA_AWARE=all"} + more;
}

TEST(OverDeviceMpi, ARunHasTheBitsOfOneThroughTheHosts) {
  for (const auto& shape : {shapes[1], shapes[2]}) {
    const auto there = fresh_run();
    const auto ended = run(with(train(there, ranks, job(shape)), "--comm.transport=", "device-mpi"), cuda_aware());
    expect_curve(shape, there, ended, shape.name);
    EXPECT_TRUE(contains(ended.out, "MPI on device memory, ")) << ended.out;
    EXPECT_EQ(ended.out.find("NCCL 2.28.9, "), std::string::npos) << ended.out;
  }
}

TEST(OverDeviceMpi, IsRefusedInOneLineWhereTheLibraryTakesNone) {
  const auto ended = run(with(train(fresh_run(), ranks, job(shapes[0])), "--comm.transport=", "device-mpi"));
  EXPECT_EQ(ended.code, 69) << ended.err;
  EXPECT_TRUE(contains(the_error(ended), "rank 0 on ")) << ended.err;
  EXPECT_TRUE(contains(ended.err, "; load an MPI library that does, or choose --comm.transport auto, nccl or mpi")) << ended.err;
}

TEST(OverDeviceMpi, AGroupThatFailsItsProofGoesThroughTheHostsAndSaysSo) {
  const auto there = fresh_run();
  const auto ended = run(with(train(there, ranks, job(shapes[0])), "--comm.transport=", "device-mpi"),
                         cuda_aware({"FLOTILLA_STANDIN_MPI_FAULTS=wrong@3:1"}));
  expect_curve(shapes[0], there, ended, "wrong bytes");
  EXPECT_TRUE(contains(ended.err, " goes on through the hosts' memory: rank ")) << ended.err;
}

/// Measured, chosen, forecast and used.
TEST(OverDeviceMpi, TheProfileDecides) {
  const auto file = folder() / "profile-device-mpi.json";
  const auto command = [&](const fs::path& there) {
    return with(with(train(there, ranks, job(shapes[1])), "--comm.transport=", "auto"), "--probe.file=", file.string());
  };
  ASSERT_EQ(run(command(fresh_run()), cuda_aware()).code, 0);
  auto profile = files::read_profile(file);
  int measured = 0;
  for (auto& known : profile.device_links) {
    const bool by_mpi = known.transport == cluster::Transport::device_mpi;
    measured += by_mpi && known.refusal.empty() ? 1 : 0;
    known.link.pieces = known.link.sum_pieces = {{Bytes{0}, Seconds{by_mpi ? 1e-9 : 10.0}, {by_mpi ? 1e15 : 1e3}}};
  }
  EXPECT_EQ(measured, 1);
  files::write_profile(file, profile);
  const auto there = fresh_run();
  const auto ended = run(command(there), cuda_aware());
  expect_curve(shapes[1], there, ended, "fast");
  EXPECT_TRUE(contains(ended.out, "MPI on device memory for ")) << ended.out;
  EXPECT_TRUE(contains(ended.out, "MPI on device memory, 3 groups of GPUs")) << ended.out;
}

TEST(OverNccl, AGroupThatFailsItsProofGoesOnOverMpiAndSaysSo) {
  for (const std::string fault : {"init_hang:1", "wrong@all:1"}) {
    fs::path there;
    const auto attempt = [&](Seconds deadline) {
      there = fresh_run();
      return run(within(train(there, ranks, job(shapes[0])), deadline), {"FLOTILLA_STANDIN_NCCL_FAULTS=" + fault});
    };
    const auto ended = with_deadlines(
        attempt, [](const Ended& one) { return one.code != 0; }, deadlines);
    expect_curve(shapes[0], there, ended, fault);
    EXPECT_TRUE(contains(ended.err, "goes on over MPI: rank ")) << fault << '\n' << ended.err;
    EXPECT_TRUE(contains(ended.err, "the data-parallel group of rank 0 on ")) << fault << '\n' << ended.err;
  }
}

/// Three GPUs and a CPU: under either plan some groups and pairs are joined by NCCL and others by MPI. The change forms them anew, without
/// a restart; the bits are those of a run over MPI that restarts at that step.
TEST(OverNccl, APlanChangesInPlaceAndGroupsAreFormedAnew) {
  constexpr int four = 4, after = 3;
  const Words devices{"FLOTILLA_STANDIN_DEVICES=h100,h100,h100"};
  const auto first = plan_file(2, 2, 1), second = plan_file(1, 4, 1);
  const auto under = [&](const fs::path& there, const fs::path& plan, std::int64_t last, const char* transport) {
    return train(there, four,
                 Words{text("--training.steps=", last), "--training.learning-rate=3e-4", "--training.minimum-learning-rate=3e-4",
                       "--model.dropout=0.1", "--device=auto", "--plan=" + plan.string(), text("--comm.transport=", transport)});
  };
  const auto changed = fresh_run(), restarted = fresh_run();
  fs::create_directories(changed);
  write(session::control_file(changed), session::control_to_json(files::read_plan(second)));
  Process training{under(changed, first, 1'000'000, "nccl"), folder(), devices};
  const auto plans = [&] {
    return fs::exists(changed / "metrics.jsonl") ? journal::read_metrics(changed).plans : std::vector<journal::PlanRecord>{};
  };
  EXPECT_TRUE(training.until([&] { return !plans().empty() || !training.running(); })) << training.err();
  const auto before = steps_logged(changed);
  EXPECT_TRUE(training.until([&] { return steps_logged(changed) >= before + after || !training.running(); })) << training.err();
  const auto living = training.ranks();
  ASSERT_TRUE(living.contains(0) && ::kill(living.at(0), SIGTERM) == 0) << training.err();
  const auto ended = training.wait();
  ASSERT_EQ(ended.code, 75) << ended.err;
  EXPECT_TRUE(training.nothing_left());
  EXPECT_TRUE(contains(ended.out, "NCCL 2.28.9")) << ended.out;
  ASSERT_EQ(plans().size(), 1u) << ended.out << ended.err;
  ASSERT_EQ(plans()[0].refused, "");
  const auto got = losses(changed);
  ASSERT_EQ(run(under(restarted, first, plans()[0].step, "mpi"), devices).code, 0);
  ASSERT_EQ(run(under(restarted, second, static_cast<std::int64_t>(got.size()), "mpi"), devices).code, 0);
  const auto again = losses(restarted);
  ASSERT_EQ(again.size(), got.size());
  for (const auto& [step, loss] : got) {
    if (step <= plans()[0].step)
      EXPECT_EQ(again.at(step), loss) << "step " << step;
    else
      EXPECT_NEAR(again.at(step), loss, another_device * loss) << "step " << step;
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

  /// What is found before the first step, by a deadline.
  bool in_forming() const { return kind == "init_hang" || kind == "init_unplug" || kind == "proof_hang"; }
  bool goes_on() const { return in_forming() || kind == "init_slow" || kind == "wrong" || kind == "slow"; }
  /// The launcher ends a job whose rank ends.
  bool launcher_ends() const { return kind == "die" || kind == "init_die" || signal == SIGKILL; }
  Words environment() const {
    Words words;
    if (lazy) words.push_back("FLOTILLA_STANDIN_NCCL_LAZY=1");
    if (signal != 0) return words;
    constexpr int in_proof = 3;  // of a process's first group
    const bool proof = kind == "proof_hang";
    const std::string at = kind.starts_with("init") ? "" : kind == "wrong" ? "@all" : text("@", proof ? in_proof : operation);
    words.push_back(text("FLOTILLA_STANDIN_NCCL_FAULTS=", proof ? "hang" : kind, at, ":", rank));
    return words;
  }
  std::string describe() const { return text(kind, " of rank ", rank, ", ", shape.name, ", operation ", operation, lazy ? ", lazy" : ""); }
};

/// The line that names a failure, or the group that goes on over MPI; empty: none.
std::string told(const Ended& ended) {
  std::istringstream lines{ended.err};
  for (std::string line; std::getline(lines, line);)
    if (contains(line, "flotilla: error: ") || contains(line, "goes on over MPI: rank ")) return line;
  return {};
}

/// A rank that is late is nobody's failure, and of one whose end the launcher answers the others may get no word out.
void expect_line(const Fault& fault, const std::string& line) {
  if (fault.launcher_ends()) return;
  const bool late = fault.kind == "slow" || fault.kind == "init_slow";
  EXPECT_EQ(line.empty(), late) << fault.describe() << ": " << line;
  EXPECT_TRUE(late || contains(line, "rank 0 on ") || contains(line, "rank 1 on ")) << fault.describe() << ": " << line;
}

struct Faulty {
  fs::path there;
  Ended ended;
  bool came = true;  ///< the fault, before a rank was missed
};

/// `deadline`: in which what hangs is to be found.
Faulty run_with(const Fault& fault, Seconds deadline) {
  Faulty one{fresh_run(), {}};
  const auto& there = one.there;
  auto command = train(there, ranks, job(fault.shape));
  // Only a hang needs to be found soon; a rank that is late on a busy machine is none.
  if (!fault.goes_on() || fault.in_forming()) command = within(command, deadline);
  if (!fault.goes_on()) command = with(command, "--training.steps=", "1000000");  // there is always an operation of that number
  Process process{command, folder(), fault.environment()};
  if (fault.signal != 0) {
    // While it trains: a rank that is stopped in MPI_Init is the launcher's.
    EXPECT_TRUE(process.until([&] { return steps_logged(there) > fault.operation % 5 || !process.running(); })) << process.err();
    const auto living = process.ranks();
    one.came = living.contains(fault.rank) && ::kill(living.at(fault.rank), fault.signal) == 0;
  }
  one.ended = process.wait();
  const auto& ended = one.ended;
  EXPECT_TRUE(ended.in_time) << fault.describe() << '\n' << ended.left << ended.err;
  EXPECT_TRUE(process.nothing_left()) << fault.describe() << '\n' << ended.err;
  if (fault.in_forming()) one.came = ended.code == 0;
  return one;
}

/// What a run with the fault said.
std::string expect_end(const Fault& fault) {
  const auto [there, ended, came] =
      with_deadlines([&](Seconds deadline) { return run_with(fault, deadline); }, [](const Faulty& one) { return !one.came; }, deadlines);
  EXPECT_TRUE(came) << fault.describe() << '\n' << ended.err;
  if (fault.goes_on())
    expect_curve(fault.shape, there, ended, fault.describe());
  else if (fault.launcher_ends())
    EXPECT_NE(ended.code, 0) << fault.describe();
  else
    EXPECT_EQ(ended.code, lost_peer) << fault.describe() << '\n' << ended.err;
  expect_line(fault, told(ended));
  return told(ended);
}

/// Operations of NCCL with which a process proves its groups: five for each, of which two stages form three.
constexpr int after_proofs = 16;

int failures() { return testing::UnitTest::GetInstance()->current_test_info()->result()->total_part_count(); }

TEST(OverNccl, FaultsInACollectiveAndInASendEndTheRun) {
  expect_end({"async", shapes[0], 1, 20, 0, false});
  expect_end({"hang", shapes[1], 0, 20, 0, false});
}

TEST(OverNccl, ARankThatIsStoppedIsNoticed) { expect_end({"stop", shapes[1], 1, 2, SIGSTOP, false}); }

/// FLOTILLA_NCCL_FAULTS=N[:SEED]: so many, drawn at random.
TEST(OverNccl, RandomFaults) {
  const char* wanted = std::getenv("FLOTILLA_NCCL_FAULTS");
  int count = 2, seed = 1;
  if (wanted != nullptr) std::sscanf(wanted, "%d:%d", &count, &seed);
  for (int i = 0; i < count; ++i) {
    std::mt19937 random{static_cast<unsigned>(1000 * seed + i)};
    const auto one_of = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
    static const Words kinds{"die",       "init_die",    "hang",  "unplug", "async", "slow",      "init_slow",
                             "init_hang", "init_unplug", "wrong", "kill",   "stop",  "proof_hang"};
    Fault fault{kinds[static_cast<std::size_t>(one_of(static_cast<int>(kinds.size())))],
                shapes[one_of(3)],
                one_of(ranks),
                after_proofs + one_of(80),
                0,
                one_of(3) == 0};
    if (fault.kind == "kill") fault.signal = SIGKILL;
    if (fault.kind == "stop") fault.signal = SIGSTOP;
    SCOPED_TRACE(text("fault ", i, " of seed ", seed, ": ", fault.describe()));
    const int before = failures();
    const auto said = expect_end(fault);
    if (count > 10)
      std::printf("%d %s: %s, %s\n", i, fault.describe().c_str(), failures() > before ? "FAILED" : "ok", said.c_str()), std::fflush(stdout);
  }
}

}  // namespace
}  // namespace flotilla::tests
