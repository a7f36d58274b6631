#include "app/submit/submit.hpp"

#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>
#include <set>
#include <sstream>

#include "app/common/table.hpp"
#include "app/submit/slurm_offers.hpp"
#include "flotilla/base/key_values.hpp"
#include "flotilla/compute/kernel_image.hpp"
#include "flotilla/files/catalogue_file.hpp"
#include "flotilla/files/json.hpp"
#include "submit_cluster.hpp"
#include "support/refusal.hpp"
#include "support/temporary_folder.hpp"

namespace flotilla::app {
namespace {

using tests::content;
using tests::error_of;
using tests::TemporaryFolder;

using testing::MadeNodes;
using testing::MadeSite;
using Words = std::vector<std::string>;
namespace fs = std::filesystem;

const fs::path data{FLOTILLA_SOURCE "/tests/app/submit"};

int status_of(const std::string& command) {
  const int status = std::system(command.c_str());
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/// A site's answers, a job, and what submit says to them.
class Submit : public ::testing::Test {
 protected:
  Submit() {
    std::ofstream{job_} << "[model]\nname = \"opt-350m\"\n[training]\nglobal-batch = 256\nlength = 512\nsteps = 1000\n"
                           "[search]\nalternatives = 0\ntolerance = \"30%\"\n[run]\ndirectory = \"my-run\"\n";
    std::ofstream{library_} << "# what scripts share\n";
  }

  std::string run(const fs::path& answers, const Words& more = {}) {
    Words words{job_.string(), "--dry-run", "--submit.answers=" + answers.string(), "--submit.library=" + library_.string()};
    words.insert(words.end(), more.begin(), more.end());
    return said(words);
  }

  static std::string said(const Words& words) {
    ::testing::internal::CaptureStdout();
    try {
      EXPECT_EQ(submit(words), 0);
    } catch (...) {
      ::testing::internal::GetCapturedStdout();
      throw;
    }
    return ::testing::internal::GetCapturedStdout();
  }

  void expect_refused(const fs::path& answers, const Words& more, const std::string& because) {
    const std::string why = error_of([&] { run(answers, more); }).what();
    EXPECT_NE(why.find(because), std::string::npos) << why;
    EXPECT_EQ(why.find('\n'), std::string::npos) << why;
  }

  /// The script without what differs from one machine to the next.
  std::string script_in(const std::string& out) const {
    const auto begin = out.find("#!/bin/bash");
    EXPECT_NE(begin, std::string::npos) << out;
    std::string script = out.substr(std::min(begin, out.size()));
    replace(script, fs::read_symlink("/proc/self/exe").string(), "@PROGRAM@");
    replace(script, fs::current_path().string(), "@FOLDER@");
    replace(script, library_.string(), "@LIBRARY@");
    replace(script, job_.string(), "@JOB@");
    return script;
  }

  static void replace(std::string& in, const std::string& what, const std::string& by) {
    for (auto at = in.find(what); at != in.npos; at = in.find(what, at + by.size())) in.replace(at, what.size(), by);
  }

  /// Compares with tests/app/submit/NAME.sh; FLOTILLA_UPDATE writes it.
  void expect_golden(const std::string& name, const std::string& out) {
    auto script = script_in(out);
    // Plans and forecasts move when the planner or the catalogue is mended: the request is what must stay.
    std::string kept;
    std::istringstream lines{script};
    for (std::string line; std::getline(lines, line);)
      if (!line.starts_with("# Plan:") && !line.starts_with("# Forecast") && !line.starts_with("# Price")) kept += line + "\n";
    const auto file = data / (name + ".sh");
    if (std::getenv("FLOTILLA_UPDATE") != nullptr) std::ofstream{file} << kept;
    EXPECT_EQ(kept, content(file)) << out;
    std::ofstream{folder_ / "script.sh"} << script;
    EXPECT_EQ(status_of("bash -n " + (folder_ / "script.sh").string()), 0);
  }

  TemporaryFolder folder_;
  const fs::path job_ = folder_ / "job.toml", library_ = folder_ / "flotilla.sh", slurm_cluster_ = folder_ / "site";
};

constexpr const char* weights = "TRESBillingWeights=CPU=0.5,Mem=0.0G,GRES/gpu=8.0";

/// Hundreds of nodes in overlapping partitions, some of them of no use now.
MadeSite large_slurm_cluster() {
  const MadeNodes a100{
      .prefix = "nid", .first = 1001, .count = 40, .digits = 6, .gres = "gpu:nvidia_a100-sxm4-80gb:4(S:0-3)", .features = "a100_80gb,ss11"};
  auto busy = a100, drained = a100, reserved = a100, shared = a100;
  busy.first = 1041, busy.count = 20, busy.state = "allocated", busy.flags = "ALLOCATED", busy.idle_cpus = 0;
  drained.first = 1061, drained.count = 3, drained.state = "drained", drained.flags = "IDLE+DRAIN";
  reserved.first = 1064, reserved.count = 4, reserved.state = "reserved", reserved.flags = "IDLE+RESERVED";
  shared.first = 1068, shared.count = 6, shared.state = "mixed", shared.flags = "MIXED", shared.idle_cpus = 16;
  shared.used = "gpu:nvidia_a100-sxm4-80gb:3(IDX:0-2)";
  const MadeNodes v100{.prefix = "gpu-v",
                       .suffix = "-ib0",
                       .count = 120,
                       .digits = 3,
                       .gres = "gpu:tesla_v100-sxm2-32gb:4(S:0,1),nvme:1500G",
                       .features = "v100,skylake",
                       .cpus = 40,
                       .idle_cpus = 40};
  auto down = v100, asleep = v100;
  down.first = 121, down.count = 5, down.state = "down*", down.flags = "DOWN*+NOT_RESPONDING";
  asleep.first = 126, asleep.count = 10, asleep.state = "idle~", asleep.flags = "IDLE+CLOUD+POWERED_DOWN";
  const MadeNodes plain{.prefix = "c", .count = 200, .digits = 4, .features = "rome"};
  MadeSite slurm_cluster;
  slurm_cluster.partition("a100", {a100, busy, drained, reserved, shared}, weights);
  slurm_cluster.partition("v100", {v100, down, asleep}, "TRESBillingWeights=CPU=0.5,GRES/gpu=2.0 MaxTime=12:00:00");
  slurm_cluster.partition("cpu", {plain}, "TRESBillingWeights=CPU=1.0");
  slurm_cluster.partition("urgent", {a100, v100}, "TRESBillingWeights=CPU=1.0,GRES/gpu=20.0 PriorityTier=10");
  slurm_cluster.partition("short", {a100, v100}, "TRESBillingWeights=CPU=0.1,GRES/gpu=0.5 MaxTime=00:30:00 PreemptMode=REQUEUE");
  return slurm_cluster;
}

TEST_F(Submit, AsksALargeMixedSiteForWhatIsFree) {
  large_slurm_cluster().save(slurm_cluster_);
  expect_golden("large", run(slurm_cluster_, {"--submit.time=4h", "--limit.devices=96", "--submit.account=proj-7",
                                              "--submit.modules=flotilla", "--submit.modules=v100:cuda/12.2"}));
}

/// Two kinds that a plan takes together, each in a partition of its own.
TEST_F(Submit, AHeterogeneousJobForAMixedPlan) {
  MadeSite slurm_cluster;
  slurm_cluster.partition("a100", {MadeNodes{.prefix = "a", .count = 2, .gres = "gpu:a100:4", .features = "a100-40gb"}});
  slurm_cluster.partition("v100", {MadeNodes{.prefix = "v", .count = 6, .gres = "gpu:v100:4(S:0-1)", .cpus = 32, .idle_cpus = 32}},
                          "MaxTime=4:00:00");
  slurm_cluster.save(slurm_cluster_);
  expect_golden("heterogeneous",
                run(slurm_cluster_, {"--training.global-batch=1024", "--training.length=2048", "--submit.modules=flotilla",
                                     "--submit.modules=v100:cuda/12.2", "--submit.memory=128GiB", "--submit.warning=300s"}));
}

/// The job needs one precision: that of the plan.
TEST_F(Submit, ThePrecisionThatWasLeftOpenIsWrittenIntoTheScript) {
  MadeSite slurm_cluster;
  slurm_cluster.partition("v100", {MadeNodes{.prefix = "v", .count = 4, .gres = "gpu:v100:4"}});
  slurm_cluster.partition("l4", {MadeNodes{.prefix = "l", .count = 1, .gres = "gpu:l4:1"}});
  slurm_cluster.save(slurm_cluster_);
  const auto fp16 = script_in(run(slurm_cluster_));
  EXPECT_NE(fp16.find("--training.precision=fp16"), std::string::npos) << fp16;
  const auto bf16 = script_in(run(slurm_cluster_, {"--submit.partitions=l4"}));
  EXPECT_NE(bf16.find("--training.precision=bf16"), std::string::npos) << bf16;
  std::ofstream{job_} << "[model]\nname = \"opt-350m\"\n[training]\nglobal-batch = 256\nprecision = \"fp32\"\n";
  const auto said = script_in(run(slurm_cluster_));
  EXPECT_EQ(said.find("--training.precision"), std::string::npos) << said;  // the job file says it
}

TEST_F(Submit, NetworksOfPartitionsAreStatedAsForPlan) {
  MadeSite slurm_cluster;
  slurm_cluster.partition("a", {MadeNodes{.prefix = "a", .count = 2, .gres = "gpu:a100-80:4"}});
  slurm_cluster.partition("b", {MadeNodes{.prefix = "b", .count = 2, .gres = "gpu:a100-80:4"}});
  slurm_cluster.save(slurm_cluster_);
  const Words whole{"--format=json", "--plan.data=16", "--plan.tensor=1", "--plan.pipeline=1"};
  const auto seconds = [&](Words more) {
    more.insert(more.end(), whole.begin(), whole.end());
    const auto json = files::Json::parse(run(slurm_cluster_, more), "submit");
    return json.at("planning").at("forecast").get_double("iteration_seconds");
  };
  const double usual = seconds({});
  EXPECT_GT(seconds({"--nic=A100-80=25Gbit/s"}), usual);
  EXPECT_GT(seconds({"--nic=A100-80@b=25Gbit/s"}), usual);
  EXPECT_GT(seconds({"--oversubscription=4:1"}), usual);
  EXPECT_GT(seconds({"--link=a:b=25Gbit/s"}), usual);
}

/// A script starts the program that wrote it. No build that has kernels has some for a K80: CUDA 12 knows no 3.7.
TEST_F(Submit, AProgramWithoutKernelsSaysThatItsJobsComputeOnCpus) {
  MadeSite slurm_cluster;
  slurm_cluster.partition("a", {MadeNodes{.prefix = "a", .count = 2, .gres = "gpu:h100:4"}});
  slurm_cluster.partition("k", {MadeNodes{.prefix = "k", .count = 2, .gres = "gpu:k80:4"}});
  slurm_cluster.save(slurm_cluster_);
  const auto said = run(slurm_cluster_);
  const bool none = compute::kernels_description().starts_with("none");
  const auto says = [&](const char* words) { return said.find(words) != std::string::npos; };
  EXPECT_EQ(says("- H100, K80: jobs compute on the CPUs of these nodes; this build has no"), none) << said;
  EXPECT_EQ(says("- K80: jobs compute on the CPUs of these nodes; this build has kernels for"), !none) << said;
}

TEST_F(Submit, ANodeOfSeveralPartitionsCountsOnce) {
  large_slurm_cluster().save(slurm_cluster_);
  const auto json = files::Json::parse(run(slurm_cluster_, {"--format=json", "--limit.devices=8", "--training.global-batch=8"}), "submit");
  int a100 = 0, v100 = 0;
  for (const auto& offer : json.at("offers").items()) {
    (offer.get_string("device_type") == "A100-80" ? a100 : v100) += offer.get_int("nodes");
    EXPECT_NE(offer.get_string("partition"), "urgent");
  }
  EXPECT_EQ(a100, 40);   // not the busy, drained and reserved ones, nor those with one GPU left
  EXPECT_EQ(v100, 130);  // those asleep too, which Slurm wakes; not those that are down
}

TEST_F(Submit, WhatIsSaidAboveTheScriptFitsATerminal) {
  large_slurm_cluster().save(slurm_cluster_);
  auto out = run(slurm_cluster_, {"--submit.time=4h", "--limit.devices=96"});
  out.resize(out.find("#!/bin/bash"));
  EXPECT_NE(out.find("\n- "), std::string::npos) << "no note among it\n" << out;
  std::istringstream lines{out};
  for (std::string line; std::getline(lines, line);) EXPECT_LE(shown_width(line), static_cast<std::size_t>(table_width)) << line;
}

/// Nodes that sinfo calls idle, and that a job of this length would be refused.
TEST_F(Submit, NodesThatAReservationWillTakeAreNotFree) {
  MadeSite slurm_cluster;
  slurm_cluster.partition("a100", {MadeNodes{.prefix = "a", .count = 8, .gres = "gpu:a100:4", .features = "a100-40gb"}});
  slurm_cluster.configuration("Configuration data as of 2026-11-22T07:00:00\n");
  slurm_cluster.more(
      "reservations.txt",
      "ReservationName=$(touch_x) StartTime=2026-11-22T10:00:00 EndTime=2026-11-23T10:00:00 Nodes=a[001-006] State=INACTIVE\n");
  slurm_cluster.save(slurm_cluster_);
  const auto with = [](Words words) {
    words.insert(words.end(), {"--format=json", "--limit.devices=8"});
    return words;
  };
  const auto nodes = [&](const Words& more) {
    return files::Json::parse(run(slurm_cluster_, with(more)), "submit").at("offers").items().at(0).get_int("nodes");
  };
  EXPECT_EQ(nodes({"--submit.time=2h"}), 8);
  EXPECT_EQ(nodes({"--submit.time=4h"}), 2);
  EXPECT_EQ(nodes({"--submit.time=4h", "--submit.wait"}), 8) << "once it is over";
  const auto out = run(slurm_cluster_, {"--submit.time=4h", "--limit.devices=8"});
  EXPECT_NE(out.find("6 free nodes are kept for a reservation (?)"), std::string::npos) << out;
  EXPECT_EQ(out.find("touch_x"), std::string::npos) << out;
}

TEST_F(Submit, AsksForNoMoreThanTheAccountAllows) {
  MadeSite slurm_cluster;
  slurm_cluster.partition("a100", {MadeNodes{.prefix = "a", .count = 8, .gres = "gpu:a100:4", .features = "a100-40gb"}});
  slurm_cluster.partition("v100", {MadeNodes{.prefix = "v", .count = 8, .gres = "gpu:v100:4"}});
  slurm_cluster.more("accounts.txt", "physics|physics||normal|node=5|8:00:00||\n`id`|$(x)||normal||||\n");
  slurm_cluster.more("qos.txt", "normal|gres/gpu=16|||gres/gpu=24\n");
  slurm_cluster.save(slurm_cluster_);
  const auto offers =
      files::Json::parse(
          run(slurm_cluster_, {"--format=json", "--limit.devices=8", "--submit.partitions=a100", "--submit.partitions=v100"}), "submit")
          .at("offers")
          .items();
  ASSERT_EQ(offers.size(), 2u);
  EXPECT_EQ(offers[0].get_int("nodes"), 4) << "16 GPUs a job";
  EXPECT_EQ(offers[1].get_int("nodes"), 2) << "24 together";
  expect_refused(slurm_cluster_, {"--submit.time=9h"}, "your account or QOS lets a job run for 8.00 h");
}

TEST_F(Submit, WaitingPlansOverWhatIsBusyToo) {
  large_slurm_cluster().save(slurm_cluster_);
  const auto json = files::Json::parse(
      run(slurm_cluster_, {"--format=json", "--limit.devices=16", "--submit.wait", "--submit.partitions=a100"}), "submit");
  ASSERT_EQ(json.at("offers").size(), 1u);
  EXPECT_EQ(json.at("offers").items()[0].get_int("nodes"), 66);
}

TEST_F(Submit, PricesAreTheSitesOwn) {
  large_slurm_cluster().save(slurm_cluster_);
  const auto json = files::Json::parse(run(slurm_cluster_, {"--format=json", "--limit.devices=8", "--submit.partitions=a100"}), "submit");
  const auto component = json.at("components").items().at(0);
  // Four GPUs at 8 and 64 CPUs at 0.5 a node.
  EXPECT_DOUBLE_EQ(component.get_double("billing_units_per_hour"), 64.0 * component.get_int("nodes"));
  EXPECT_DOUBLE_EQ(json.get_double("billing_units_per_hour"), component.get_double("billing_units_per_hour"));
  EXPECT_GT(json.get_double("billing_units"), 0);
}

/// Gres without types, features that say it, two kinds in one partition, parts of GPUs, whole nodes only.
MadeSite odd_slurm_cluster() {
  const MadeNodes untyped{
      .prefix = "node", .suffix = "-hpc", .count = 12, .digits = 2, .gres = "gpu:4", .features = "intel,gpu_a100_80gb,ib"};
  const MadeNodes h100{
      .prefix = "h", .count = 6, .gres = "gpu:h100:8(S:0-1),mps:h100:800(S:0-1)", .used = "gpu:h100:0(IDX:N/A)", .features = "hopper"};
  const MadeNodes slices{.prefix = "mig", .count = 4, .gres = "gpu:1g.10gb:7", .features = "sliced"};
  auto half = untyped;
  half.first = 13, half.count = 2, half.state = "mixed", half.flags = "MIXED", half.idle_cpus = 32, half.used = "gpu:2(IDX:0-1)";
  MadeSite slurm_cluster;
  slurm_cluster.configuration("PriorityFlags           = DEPTH_OBLIVIOUS,MAX_TRES\n");
  slurm_cluster.partition("mixed-gpu_x", {untyped, h100, slices},
                          "OverSubscribe=EXCLUSIVE TRESBillingWeights=CPU=1.0,GRES/gpu=10,GRES/gpu:h100=5");
  slurm_cluster.partition("halves", {half});
  return slurm_cluster;
}

TEST_F(Submit, UnderstandsOddGres) {
  odd_slurm_cluster().save(slurm_cluster_);
  const auto out = run(slurm_cluster_, {"--limit.devices=40"});
  expect_golden("odd", out);
  EXPECT_NE(out.find("7 'gpu:1g.10gb' of a node are slices of cards"), std::string::npos) << out;
}

TEST_F(Submit, OfANodesResourcesTheDearestIsBilledWhereTheSiteSaysSo) {
  odd_slurm_cluster().save(slurm_cluster_);
  const auto offers = files::Json::parse(run(slurm_cluster_, {"--format=json", "--limit.devices=8"}), "submit").at("offers").items();
  const auto h100 = std::ranges::find_if(offers, [](const auto& offer) { return offer.get_string("gres") == "gpu:h100"; });
  ASSERT_NE(h100, offers.end());
  // 10 for a GPU and 5 for one of that type, beside 8 CPUs at 1.
  EXPECT_DOUBLE_EQ(h100->get_double("billing_units_per_device_hour"), 15);
}

TEST_F(Submit, TheJobFileSaysWhatNamesMean) {
  odd_slurm_cluster().save(slurm_cluster_);
  const auto json = files::Json::parse(run(slurm_cluster_, {"--format=json", "--limit.devices=8", "--submit.device-types=gpu:1g.10gb=L4",
                                                            "--submit.device-types=feature:hopper=H200"}),
                                       "submit");
  std::set<std::string> types;
  for (const auto& offer : json.at("offers").items()) types.insert(offer.get_string("device_type"));
  EXPECT_TRUE(types.contains("L4"));
  EXPECT_TRUE(types.contains("H200"));
  EXPECT_FALSE(types.contains("H100"));
}

TEST_F(Submit, AsksARealClustersRecordedAnswers) {
  expect_golden("testbed", run(data / "testbed", {"--submit.device-types=partition:cpu=CPU", "--submit.device-types=gpu:a100=V100-32",
                                                  "--submit.device-types=gpu:v100=V100-32"}));
}

TEST_F(Submit, SaysWhatIsWrong) {
  large_slurm_cluster().save(slurm_cluster_);
  expect_refused(slurm_cluster_, {"--submit.partitions=a10"}, "did you mean 'a100'");
  expect_refused(slurm_cluster_, {"--submit.device-types=gpu:x"}, "gpu:a100=A100-80");
  expect_refused(slurm_cluster_, {"--submit.time=2d"}, "time limit");
  expect_refused(slurm_cluster_, {"--submit.partitions=cpu"}, "no device is free");
  expect_refused(folder_ / "nowhere", {}, "sinfo.txt");
  EXPECT_NE(std::string{error_of([&] {
                          submit(Words{job_.string(), "--submit.answers=" + slurm_cluster_.string()});
                        }).what()}
                .find("--dry-run"),
            std::string::npos);
  expect_refused(slurm_cluster_, {"--submit.account=a b"}, "account");
}

TEST_F(Submit, TheFileOfOIsTheScript) {
  large_slurm_cluster().save(slurm_cluster_);
  const auto file = folder_ / "job.sh";
  const auto out = run(slurm_cluster_, {"-o", file.string()});
  EXPECT_TRUE(content(file).starts_with("#!/")) << content(file);
  EXPECT_NE(content(file).find("flotilla_job"), std::string::npos);
  EXPECT_NE(out.find(file.string()), std::string::npos) << out;
  EXPECT_EQ(out.find("flotilla_job"), std::string::npos) << "the terminal gets the table";
  run(slurm_cluster_, {"-o", file.string(), "--format=json"});
  EXPECT_TRUE(content(file).starts_with("{"));
  expect_refused(slurm_cluster_, {"-o", file.string(), "--submit.script=" + file.string()}, "both name the script");
}

// What a site, a job or its place is called never becomes a command.
TEST_F(Submit, HostileNamesStayNames) {
  const std::string evil = "x'; touch \"$(touch witness)\" `touch witness`\n#SBATCH --wrap=touch";
  auto slurm_cluster = large_slurm_cluster();
  slurm_cluster.partition("gpu;touch witness", {MadeNodes{.prefix = "e", .count = 50, .gres = "gpu:h100:8"}});
  slurm_cluster.partition("$(touch", {MadeNodes{.prefix = "f", .count = 50, .gres = "gpu:h100:8", .features = "$(touch,witness)"}});
  slurm_cluster.save(slurm_cluster_);
  const auto place = folder_ / evil;
  fs::create_directories(place);
  const auto job = place / "job '.toml";
  fs::copy_file(job_, job);
  // The library notes what it was called with, a word a line.
  const auto library = place / "lib $(touch witness).sh";
  std::ofstream{library} << "flotilla_job() { printf '%s\\0' \"$PWD\" \"$FLOTILLA_RUN\" \"$@\" >\"$NOTES\"; }\nmodule() { printf '%s\\0' "
                            "\"$@\" >\"$NOTES.module\"; }\n";
  const auto before = fs::current_path();
  fs::current_path(place);
  const std::string directory = "run $(touch witness) 'x'";
  const auto out = said(Words{"job '.toml", "--dry-run", "--submit.answers=" + slurm_cluster_.string(),
                              "--submit.library=lib $(touch witness).sh", "--run.directory=" + directory,
                              "--submit.script=" + (folder_ / "s.sh").string(), "--limit.devices=8", "--training.global-batch=8"});
  fs::current_path(before);
  EXPECT_NE(out.find("its name cannot be used in a batch script"), std::string::npos) << out;
  const auto script = content(folder_ / "s.sh");
  EXPECT_EQ(script.find("\n#SBATCH --wrap"), std::string::npos) << script;
  const auto notes = folder_ / "notes";
  ASSERT_EQ(status_of("cd '" + folder_.path().string() + "' && bash -n s.sh && NOTES='" + notes.string() + "' bash s.sh"), 0) << script;
  const std::string zero(1, '\0');
  EXPECT_EQ(content(notes), fs::canonical(place).string() + zero + directory + zero + "train" + zero + "job '.toml" + zero +
                                "--training.global-batch=8" + zero + "--training.precision=bf16" + zero);
  for (const auto& entry : fs::recursive_directory_iterator(folder_.path())) EXPECT_NE(entry.path().filename(), "witness");
}

/// A pending heterogeneous job: component 0 of a100, component 1 of v100 nodes.
std::string pending(int a100, int v100) {
  const auto line = [](int offset, const char* partition, int nodes, const char* gres) {
    return text("JobId=", 40 + offset, " HetJobId=40 HetJobOffset=", offset,
                " JobName=we ird Partition=evil UserId=u(1) JobState=PENDING Reason=Resources Partition=", partition, " NumNodes=", nodes,
                "-", nodes + 2, " NumCPUs=4 Features=(null) TresPerNode=gres:", gres, ":4\n");
  };
  // A job's name is its user's own: it stands first and is believed.
  auto all = line(0, "a100", a100, "gpu") + line(1, "v100", v100, "gpu:tesla_v100-sxm2-32gb");
  for (const std::string spoof = " Partition=evil"; all.find(spoof) != all.npos;) all.erase(all.find(spoof), spoof.size());
  return all;
}

TEST_F(Submit, MakesAPendingJobSmallerThatCannotBeFilled) {
  large_slurm_cluster().save(slurm_cluster_);
  std::ofstream{slurm_cluster_ / "jobs.txt"} << pending(8, 150);
  EXPECT_NE(run(slurm_cluster_, {"--resize=40"}).find("scontrol update jobid=41 NumNodes=1-130"), std::string::npos);
  std::ofstream{slurm_cluster_ / "jobs.txt"} << pending(8, 10);
  EXPECT_NE(run(slurm_cluster_, {"--resize=40"}).find("nothing to do"), std::string::npos);
  expect_refused(slurm_cluster_, {"--resize=40; touch x"}, "expected the number of a job");
}

TEST_F(Submit, AJobShrinksWithoutItsFile) {
  const auto site = fs::path{FLOTILLA_SOURCE "/tests/app/sites/c15-resize-without-a-job-file"};
  const auto out = said({"--resize=77", "--dry-run", "--submit.answers=" + site.string()});
  EXPECT_NE(out.find("component 0 (gpu) asks for 6 nodes, 2 are left: scontrol update jobid=77 NumNodes=1-2"), std::string::npos) << out;
}

TEST_F(Submit, AJobShrinksAsEverySlurmSaysWhatItAsksFor) {
  MadeSite site;
  const MadeNodes good{.prefix = "g", .count = 2, .gres = "gpu:h100:8(S:0-1)", .features = "sxm,ib"};
  const MadeNodes drained{.prefix = "d", .count = 4, .state = "drained", .flags = "IDLE+DRAIN", .gres = "gpu:h100:8", .features = "sxm,ib"};
  site.partition("gpu", {good, drained});
  site.save(slurm_cluster_);
  const auto answer = [&](const std::string& words, const char* state = "PENDING") {
    std::ofstream{slurm_cluster_ / "jobs.txt"} << "JobId=77 JobName=x JobState=" << state << " Reason=Resources Partition=gpu " << words
                                               << "\n";
    return said({"--resize=77", "--dry-run", "--submit.answers=" + slurm_cluster_.string()});
  };
  for (const char* words : {"NumNodes=6 NumCPUs=6 Features=(null) TresPerNode=gpu:h100:8",         // 20.02
                            "NumNodes=6-6 NumCPUs=6 Features=ib TresPerNode=gpu:8",                // 20.11
                            "NumNodes=6-8 NumCPUs=6 Features=(null) TresPerNode=gres:gpu:h100:8",  // 21.08
                            "NumNodes=6-6 NumCPUs=6 Features=sxm&ib TresPerNode=gres/gpu:h100:8",  // 23.11
                            "NumNodes=6-6 NumCPUs=6 Features=(null)"})
    EXPECT_NE(answer(words).find("component 0 (gpu) asks for 6 nodes, 2 are left: scontrol update jobid=77 NumNodes=1-2"),
              std::string::npos)
        << words;
  EXPECT_NE(answer("NumNodes=2-2 Features=sxm TresPerNode=gres/gpu:h100:8").find("nothing to do"), std::string::npos);
  EXPECT_THROW(answer("NumNodes=2-2 Features=(null) TresPerNode=gres/gpu:a100:8"), Error) << "no node is left: that needs the job file";
  EXPECT_THROW(answer("NumNodes=2-2", "RUNNING"), Error);
}

/// The accounting of many clusters is asked for this one.
TEST_F(Submit, AsksAccountingForThisCluster) {
  const auto bin = folder_ / "bin";
  fs::create_directories(bin);
  MadeSite site;
  site.partition("gpu", {MadeNodes{.prefix = "g", .count = 2, .gres = "gpu:h100:8"}});
  site.configuration("ClusterName             = ours\n");
  site.save(slurm_cluster_);
  const auto program = [&](const char* name, const std::string& lines) {
    std::ofstream{bin / name} << "#!/bin/bash\ncd '" << slurm_cluster_.string()
                              << "' || exit 1\n[[ $SLURM_TIME_FORMAT == standard && ! -v SINFO_FORMAT ]] || exit 3\n"
                              << lines;
    fs::permissions(bin / name, fs::perms::owner_all);
  };
  program("sinfo", "cat sinfo.txt\n");
  program("scontrol", "case $* in *partition*) cat partitions.txt ;; *node*) cat nodes.txt ;; *config*) cat config.txt ;; esac\n");
  program("sacctmgr",
          "case $* in *qos*) echo 'normal||||' ;; *cluster=ours*) echo 'p|p||normal||||' ;; *) echo 'p|p||normal||||gres/gpu=1' ;; esac\n");
  const std::string path = std::getenv("PATH");
  ::setenv("PATH", (bin.string() + ":" + path).c_str(), 1);
  ::setenv("SLURM_TIME_FORMAT", "relative", 1);
  ::setenv("SINFO_FORMAT", "%N", 1);
  const auto out = said({job_.string(), "--dry-run", "--submit.library=" + library_.string(), "--format=json", "--limit.devices=8"});
  ::setenv("PATH", path.c_str(), 1);
  ::unsetenv("SLURM_TIME_FORMAT");
  ::unsetenv("SINFO_FORMAT");
  const auto offer = files::Json::parse(out, "submit").at("offers").items().at(0);
  EXPECT_EQ(offer.get_int("nodes"), 2);
  EXPECT_EQ(offer.get_int("devices_per_node"), 8);
}

TEST_F(Submit, SaysWhereToStartWhereSlurmDoesNotAnswer) {
  const auto bin = folder_ / "bin";
  fs::create_directories(bin);
  std::ofstream{bin / "sinfo"} << "#!/bin/bash\necho 'sinfo: error: fetch_config: DNS SRV lookup failed' >&2\nexit 1\n";
  fs::permissions(bin / "sinfo", fs::perms::owner_all);
  const std::string path = std::getenv("PATH");
  const auto refused = [&](const std::string& programs) {
    ::setenv("PATH", programs.c_str(), 1);
    const auto message = tests::refusal(ErrorKind::unavailable, [&] { said({job_.string(), "--dry-run"}); });
    ::setenv("PATH", path.c_str(), 1);
    tests::expect_contains(message, "; is this a login node of a Slurm cluster? Elsewhere: --dry-run --submit.answers FOLDER");
    return message;
  };
  tests::expect_contains(refused(bin.string() + ":" + path), "sinfo ended with 1: sinfo: error: fetch_config");
  tests::expect_contains(refused((folder_ / "empty").string()), "sinfo cannot be started: No such file");
}

TEST_F(Submit, PlansAnewWithoutAComponentThatIsGone) {
  large_slurm_cluster().save(slurm_cluster_);
  auto jobs = pending(8, 10);
  replace(jobs, "Partition=v100", "Partition=gone");
  std::ofstream{slurm_cluster_ / "jobs.txt"} << jobs;
  const auto out = run(slurm_cluster_, {"--resize=40", "--submit.partitions=a100", "--training.global-batch=8", "--limit.devices=8"});
  EXPECT_NE(out.find("#!/bin/bash"), std::string::npos) << out;
}

}  // namespace
}  // namespace flotilla::app
