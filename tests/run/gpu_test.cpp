// Runs on GPUs, on stand-ins for NVIDIA's driver and cuBLASLt (tests/standin): the curve of a run on CPUs, checkpoints that either reads,
// devices that fail.
#include <cmath>
#include <optional>

#include "flotilla/cluster/cluster.hpp"
#include "flotilla/files/json.hpp"
#include "flotilla/files/profile_file.hpp"
#include "flotilla/journal/outcome.hpp"
#include "flotilla/session/control_document.hpp"
#include "run/training.hpp"

namespace flotilla::tests {
namespace {

constexpr int ranks = 2, steps = 6;
/// Rounding of fp32, in other orders, after some steps.
constexpr double apart = 1e-4;

Words job(std::int64_t last, const std::string& device) {
  return {text("--training.steps=", last),         "--training.warmup-steps=2", "--training.learning-rate=3e-4",
          "--training.minimum-learning-rate=3e-4", "--model.dropout=0.1",       "--device=" + device,
          "--plan=" + plan_file(2, 1, 1).string()};
}

/// Of a run on CPUs that nothing disturbs.
const std::map<std::int64_t, double>& expected() {
  static const auto curve = [] {
    const auto there = folder() / "cpu";
    const auto ended = run(train(there, ranks, job(steps, "cpu")));
    EXPECT_EQ(ended.code, 0) << ended.err;
    return losses(there);
  }();
  return curve;
}

void expect_curve(const fs::path& there) {
  const auto got = losses(there);
  EXPECT_EQ(got.size(), expected().size());
  for (const auto& [step, loss] : expected()) EXPECT_NEAR(got.at(step), loss, apart * loss) << there << " step " << step;
}

/// One after the other in the same run directory.
std::string segments(const std::string& name, const Words& devices) {
  const auto there = folder() / name;
  std::string out;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    const bool last = i + 1 == devices.size();
    const auto ended = run(train(there, ranks, job(last ? steps : steps / 2, devices[i])));
    EXPECT_EQ(ended.code, 0) << ended.err;
    out += ended.out;
  }
  expect_curve(there);
  return out;
}

TEST(OnGpus, ARunHasTheCurveOfOneOnCpus) { EXPECT_NE(segments("gpu", {"gpu"}).find("cuBLASLt 13.1.0"), std::string::npos); }

/// One GPU for two ranks: the second is left to the CPU.
TEST(OnGpus, ACheckpointOfGpusAndCpusIsReadByCpus) { segments("mixed-cpu", {"auto", "cpu"}); }
TEST(OnGpus, ACheckpointOfCpusIsReadByGpus) { segments("cpu-gpu", {"cpu", "gpu"}); }

/// Of a short file: the stand-in takes seconds for a thousand tokens.
double evaluated(const fs::path& there, const Words& how) {
  static const auto file = write(folder() / "short.txt", random_text(8, 500));
  const auto ended =
      run(mpirun(ranks) + Words{FLOTILLA_BINARY, "evaluate", there.string(), "--data=" + file.string(), "--format=json"} + how);
  EXPECT_EQ(ended.code, 0) << ended.err;
  return files::Json::parse(ended.out, "scores").at("files").items().at(0).at("loss").as_double();
}

std::string said(const fs::path& there, const Words& how) {
  const auto ended = run(mpirun(ranks) + Words{FLOTILLA_BINARY, "generate", there.string(), "one", "--tokens=12", "--format=json"} + how);
  EXPECT_EQ(ended.code, 0) << ended.err;
  return ended.out;
}

/// Loss of a file and the likeliest text, by tensor parallelism and pipeline stages: on GPUs, on one and a CPU, on CPUs.
TEST(OnGpus, AModelIsLookedAtAsOnCpus) {
  const auto there = folder() / "looked-at";
  const auto trained = run(train(there, ranks, job(steps, "gpu")));
  ASSERT_EQ(trained.code, 0) << trained.err;
  const Words wide{"--tensor-parallel=2"}, deep{"--pipeline=2"};
  const double loss = evaluated(there, Words{"--device=cpu"} + wide);
  const auto words = said(there, Words{"--device=cpu"} + deep);
  for (const std::string device : {"--device=gpu", "--device=auto"}) {
    EXPECT_NEAR(evaluated(there, Words{device} + wide), loss, apart * loss) << device;
    EXPECT_EQ(said(there, Words{device} + wide), words) << device;
    EXPECT_EQ(said(there, Words{device} + deep), words) << device;
  }
}

TEST(OnGpus, AKilledRunGoesOnOnCpus) {
  const auto there = folder() / "killed";
  Process process{train(there, ranks, job(1'000'000, "gpu") + Words{"--checkpoint.every=1", "--checkpoint.keep=2"}), folder()};
  EXPECT_TRUE(process.until([&] { return committed(there).size() >= 2 || !process.running(); })) << process.err();
  const auto living = process.ranks();
  ASSERT_TRUE(living.contains(1)) << process.err();
  ::kill(living.at(1), SIGKILL);
  EXPECT_TRUE(process.wait().in_time);
  EXPECT_TRUE(process.nothing_left());
  const auto saved = committed(there);
  ASSERT_FALSE(saved.empty());
  const auto ended = run(train(there, ranks, job(saved.back() + 1, "cpu")));
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_NE(ended.out.find(text("resumed after step ", saved.back())), std::string::npos) << ended.out;
}

/// Rank 1 is on a CPU: the state moves between the memories of both.
TEST(OnGpus, APlanChangesInPlace) {
  const auto there = folder() / "changed", cpus = folder() / "changed-cpus";
  fs::create_directories(there);
  write(session::control_file(there), session::control_to_json(files::read_plan(plan_file(2, 1, 1))));
  Process training{train(there, ranks, with(job(1'000'000, "auto"), "--plan=", plan_file(1, 2, 1).string())), folder()};
  const auto plans = [&] {
    return fs::exists(there / "metrics.jsonl") ? journal::read_metrics(there).plans : std::vector<journal::PlanRecord>{};
  };
  EXPECT_TRUE(training.until([&] { return !plans().empty() || !training.running(); })) << training.err();
  const auto before = steps_logged(there);
  EXPECT_TRUE(training.until([&] { return steps_logged(there) >= before + 2 || !training.running(); })) << training.err();
  const auto living = training.ranks();
  ASSERT_TRUE(living.contains(0) && ::kill(living.at(0), SIGTERM) == 0) << training.err();
  const auto ended = training.wait();
  EXPECT_EQ(ended.code, 75) << ended.err;
  ASSERT_EQ(plans().size(), 1u) << ended.out << ended.err;
  EXPECT_EQ(plans()[0].refused, "");
  EXPECT_GT(plans()[0].moved_bytes, 0);
  const auto got = losses(there);
  ASSERT_EQ(run(train(cpus, ranks, job(static_cast<std::int64_t>(got.size()), "cpu"))).code, 0);
  const auto curve = losses(cpus);
  for (const auto& [step, loss] : got) EXPECT_NEAR(loss, curve.at(step), apart * loss) << "step " << step;
}

/// Measured on what the ranks compute on, so that nothing warns of steps that take far longer than forecast.
TEST(OnGpus, APlanIsSearchedWithWhatThoseGpusReach) {
  const auto there = folder() / "searched";
  auto command = train(there, ranks, with(job(steps, "auto"), "--plan=", ""));
  std::erase(command, "--plan=");
  const auto ended = run(command);
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_NE(ended.out.find("searched: "), std::string::npos) << ended.out;
  const auto profile = files::read_profile(folder() / text("profile-", ranks, ".json"));
  EXPECT_EQ(profile.devices.at(0).type, "H100");
  EXPECT_TRUE(cluster::find_type(profile, "H100")->to_host.known());
  EXPECT_TRUE(profile.devices.at(1).type.starts_with("cpu:")) << profile.devices.at(1).type;
}

/// Nobody says a precision: a new run computes in what its devices are made for, and goes on in it on others.
TEST(OnGpus, ARunKeepsThePrecisionThatItsFirstDevicesAreMadeFor) {
  const auto there = folder() / "made-for";
  const auto start = [&](int last, const std::string& device, const Words& environment) {
    auto command = train(there, 1, {text("--training.steps=", last), "--training.warmup-steps=0", "--device=" + device});
    const auto ended = run(with(command, "--probe.file=", (folder() / ("made-for-" + device + ".json")).string()), environment);
    EXPECT_EQ(ended.code, 0) << ended.err;
    return ended;
  };
  const auto first = start(1, "gpu", {"FLOTILLA_STANDIN_DEVICES=t4"});
  EXPECT_NE(first.err.find("precision: fp16, which the devices are made for"), std::string::npos) << first.err;
  const auto second = start(2, "cpu", {});
  EXPECT_NE(second.err.find("precision: fp16, as step 1 has it"), std::string::npos) << second.err;
  EXPECT_EQ(losses(there).size(), 2U);
}

/// Operands of products are rounded to 11 bits, which changes a loss by at most 4 * 2^-11 (compute_half_test). The type of the device says
/// so.
TEST(OnGpus, Tf32IsAChoice) {
  const auto train_on = [](const std::string& name, const Words& environment) {
    const auto ended = run(with(train(folder() / name, ranks, job(steps, "auto") + Words{"--device.tf32"}),
                                "--probe.file=", (folder() / (name + ".json")).string()),
                           environment);
    EXPECT_EQ(ended.code, 0) << ended.err;
    return ended;
  };
  EXPECT_NE(train_on("tf32", {}).out.find("cuBLASLt 13.1.0 (TF32)"), std::string::npos);
  EXPECT_EQ(files::read_profile(folder() / "tf32.json").devices.at(0).type, "H100+tf32");
  const auto got = losses(folder() / "tf32");
  for (const auto& [step, loss] : expected()) EXPECT_NEAR(got.at(step), loss, 0x1p-9 * loss) << "step " << step;
  const auto older = train_on("no-tf32", {"FLOTILLA_STANDIN_DEVICES=t4"});
  EXPECT_NE(older.err.find("does not multiply in TF32"), std::string::npos) << older.err;
  EXPECT_EQ(files::read_profile(folder() / "no-tf32.json").devices.at(0).type, "T4");
  expect_curve(folder() / "no-tf32");
}

/// cuDNN's attention trains where it agrees with ours; one that does not is named in a line, and the run is that of our own kernels.
TEST(OnGpus, AttentionIsByCudnnWhereItAgrees) {
  const auto plan = folder() / "plan-bf16.json";
  files::write_plan(plan, plan::even_plan(model::built_in("gpt2-tiny"), length, global_batch, Precision::bf16, 2, 1, 1, 2));
  const auto train_by = [&](const std::string& attention, const Words& more) {
    const std::string libraries = std::getenv("LD_LIBRARY_PATH");  // of the stand-ins; that for cuDNN has a folder of its own
    const Words how{text("--training.steps=", steps), "--training.precision=bf16", "--device=gpu", "--device.attention=" + attention,
                    "--plan=" + plan.string()};
    const auto name = text("attention-", attention, more.empty() ? "" : "-wrong");
    const auto ended = run(train(folder() / name, ranks, how), Words{text("LD_LIBRARY_PATH=", libraries, "_cudnn:", libraries)} + more);
    EXPECT_EQ(ended.code, 0) << ended.err;
    return std::pair{ended, losses(folder() / name)};
  };
  const auto ours = train_by("flotilla", {});
  const auto cudnn = train_by("cudnn", {});
  const auto wrong = train_by("cudnn", {"FLOTILLA_STANDIN_CUDNN=back-mask"});
  EXPECT_NE(cudnn.first.out.find("cuBLASLt 13.1.0, cuDNN 9.19.0 on NVIDIA H100"), std::string::npos) << cudnn.first.out;
  for (const auto& [step, loss] : ours.second) EXPECT_NEAR(cudnn.second.at(step), loss, 2e-3 * loss) << "step " << step;
  EXPECT_NE(wrong.first.err.find("attention by our own kernels on GPU 0"), std::string::npos) << wrong.first.err;
  EXPECT_EQ(wrong.second, ours.second);
}

struct Failure {
  std::string faults;
  int code;
  Words parts;
};

/// What failing runs need not measure: they fail in training. Of rank 0 on the GPU and rank 1 on a CPU.
const fs::path& measured() {
  static const fs::path file = [] {
    const auto profile = folder() / "profile-failures.json";
    const auto ended = run(with(train(folder() / "measured", ranks, job(steps, "auto")), "--probe.file=", profile.string()));
    EXPECT_EQ(ended.code, 0) << ended.err;
    return profile;
  }();
  return file;
}

/// One line of a reason in the outcome, its exit code, and nobody left hanging. Only rank 0 is on the GPU.
void expect_failure(const Failure& failure, const std::string& device = "auto", const std::optional<fs::path>& profile = {}) {
  static int count = 0;
  const auto there = folder() / text("failure-", ++count);
  const auto command = with(train(there, ranks, job(steps, device)), "--probe.file=", profile.value_or(measured()).string());
  const auto ended = run(command, {failure.faults});
  EXPECT_EQ(ended.code, failure.code) << failure.faults << '\n' << ended.err;
  for (const auto& part : failure.parts)
    EXPECT_NE(ended.err.find(part), std::string::npos) << part << " of " << failure.faults << '\n' << ended.err;
  const auto outcome = journal::read_outcome(there);
  if (failure.code != 69 || outcome) {
    ASSERT_TRUE(outcome) << failure.faults << '\n' << ended.err;
    EXPECT_EQ(static_cast<int>(outcome->exit_code), failure.code) << outcome->reason;
    EXPECT_EQ(outcome->reason.find('\n'), std::string::npos) << outcome->reason;
  }
}

TEST(OnGpus, OutOfMemoryAtAnyAllocationEndsTheRunInGoodOrder) {
  for (const int nth : {1, 2})
    expect_failure({text("FLOTILLA_STANDIN_FAULTS=alloc@", nth, "=2"), 69, {"rank 0", nth == 1 ? "has not the" : "GPU 0"}});
  expect_failure({"FLOTILLA_STANDIN_MEMORY=1048576", 69, {"rank 0", "has not the", "bytes of the plan"}});
}

TEST(OnGpus, ADeviceThatFailsWhileItIsMeasuredEndsTheRunInGoodOrder) {
  const auto none = folder() / "no-profile.json";
  expect_failure({"FLOTILLA_STANDIN_FAULTS=alloc@1=2", 69, {"rank 0", "has not the"}}, "auto", none);
  expect_failure({"FLOTILLA_STANDIN_FAULTS=launch@100=719", 69, {"rank 0", "error 719"}}, "auto", none);
  EXPECT_FALSE(fs::exists(none));
}

TEST(OnGpus, ADeviceThatIsLostEndsTheRunAtOnce) {
  for (const int operation : {150, 1500})
    expect_failure({text("FLOTILLA_STANDIN_FAULTS=lost@", operation, "=999"), 69, {"rank 0", "error 999"}});
  expect_failure({"FLOTILLA_STANDIN_FAULTS=launch@100=719", 69, {"rank 0", "error 719"}});
}

TEST(OnGpus, WhereThereIsNoneTheyAreRefusedOrNotMissed) {
  expect_failure({"FLOTILLA_STANDIN_DEVICES=", 69, {"no GPU here", "--device.kind gpu"}}, "gpu");
  const auto there = folder() / "none";
  const auto ended = run(train(there, ranks, job(steps, "auto")), {"FLOTILLA_STANDIN_DEVICES="});
  EXPECT_EQ(ended.code, 0) << ended.err;
  expect_curve(there);
}

}  // namespace
}  // namespace flotilla::tests
