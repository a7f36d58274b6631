#include "app/doctor/doctor.hpp"

#include <gtest/gtest.h>

#include <map>
#include <sstream>

#include "flotilla/files/json.hpp"

namespace flotilla::app {
namespace {

Variables table(std::map<std::string, std::string> values) {
  return [values = std::move(values)](const char* name) -> const char* {
    const auto found = values.find(name);
    return found == values.end() ? nullptr : found->second.c_str();
  };
}

RankFacts rank(const std::string& host, std::vector<int> usable = {0, 1, 2, 3}) {
  RankFacts facts;
  facts.host = host;
  facts.usable = std::move(usable);
  facts.processing_units = 4;
  facts.software = {{"mpi", "Open MPI 4.1.4"}, {"compute", host}, {"gpu", host}};
  return facts;
}

slurm::SlurmAllocation three_components() {
  return {"7", {{"7", "a100", {"n1", "n2"}}, {"8", "v100", {"n3"}}, {"9", "cpu", {"n5"}}}, 0, "n1", {}};
}

TEST(Doctor, SeesSingletonsBeforeMpiStarts) {
  const auto finding = judge_singletons(table({{"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "4"}}));
  ASSERT_TRUE(finding);
  EXPECT_EQ(finding->verdict, Verdict::problem);
  EXPECT_EQ(finding->mend, "srun --mpi=pmix -n 4 flotilla train JOB");
  EXPECT_FALSE(judge_singletons(table({{"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "4"}, {"PMIX_RANK", "0"}})));
  EXPECT_FALSE(judge_singletons(table({{"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "1"}})));
  EXPECT_FALSE(judge_singletons(table({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}})));  // the batch script
  EXPECT_FALSE(judge_singletons(table({})));
}

TEST(Doctor, WorldIsWhatTheLauncherStarted) {
  EXPECT_EQ(judge_world(2, 2, "", {rank("n1"), rank("n2")}).verdict, Verdict::good);
  EXPECT_EQ(judge_world(1, 4, "MPI sees one process alone", {}).verdict, Verdict::problem);
  EXPECT_EQ(judge_world(2, 4, "", {rank("n1"), rank("n1")}).verdict, Verdict::problem);
}

TEST(Doctor, EveryComponentHasRanks) {
  const auto job = three_components();
  EXPECT_EQ(judge_components({}, {rank("n1")}, table({})).verdict, Verdict::skipped);
  EXPECT_EQ(judge_components(job, {rank("n1"), rank("n3"), rank("n5")}, table({{"SLURM_PROCID", "0"}})).verdict, Verdict::good);
  const auto missing = judge_components(job, {rank("n1"), rank("n2")}, table({{"SLURM_PROCID", "0"}}));
  EXPECT_EQ(missing.verdict, Verdict::problem);
  EXPECT_NE(missing.finding.find("component 1 (v100)"), std::string::npos);
  EXPECT_EQ(missing.mend, "srun --mpi=pmix --het-group=0-2 flotilla train JOB");
}

TEST(Doctor, Binding) {
  EXPECT_EQ(judge_binding({rank("n1"), rank("n1")}).verdict, Verdict::good);
  EXPECT_EQ(judge_binding({rank("n1", {0, 1}), rank("n1", {2, 3})}).verdict, Verdict::good);
  const auto bound = judge_binding({rank("n1", {0}), rank("n1", {1})});
  EXPECT_EQ(bound.verdict, Verdict::warning);
  EXPECT_NE(bound.finding.find("2 of 4 hardware threads"), std::string::npos) << bound.finding;
  EXPECT_NE(bound.mend.find("--bind-to none"), std::string::npos);
  EXPECT_NE(judge_binding({rank("n1", {0}), rank("n1", {0}), rank("n2")}).finding.find("more ranks than CPUs on n1"), std::string::npos);
}

TEST(Doctor, GpusThatWereGivenAreThere) {
  EXPECT_EQ(judge_gpus({rank("n1")}).verdict, Verdict::good);
  auto four = rank("n1");
  four.gpus_given = four.gpus_there = 4;
  four.gpus = {{"GPU-1", "NVIDIA H100", {0, 1}, Bytes{80}, {}, ""}};
  EXPECT_EQ(judge_gpus({four}).finding, "1 x NVIDIA H100");
  four.gpus_there = 3;
  EXPECT_EQ(judge_gpus({rank("n2"), four}).verdict, Verdict::problem);
  EXPECT_EQ(judge_gpus({rank("n2"), four}).finding, "Slurm gave 4 GPUs on n1 and 3 are there");
  auto foreign = rank("n5");
  foreign.gpus_visible = "0,1";
  EXPECT_EQ(judge_gpus({foreign}).verdict, Verdict::warning);
  EXPECT_EQ(judge_gpus({foreign}).mend, "unset CUDA_VISIBLE_DEVICES there");
}

RankFacts with_gpus(const std::string& host, const std::vector<std::string>& uuids) {
  auto facts = rank(host);
  facts.gpu_driver = "CUDA 13.0 (580.65.06)";
  facts.gpus_there = static_cast<int>(uuids.size());
  for (const auto& uuid : uuids) facts.gpus.push_back({uuid, "NVIDIA H100 80GB HBM3", {0, 1}, Bytes{std::int64_t{80} << 30}, {}, ""});
  return facts;
}

TEST(Doctor, EveryRankHasAGpuOfItsOwn) {
  const auto both = with_gpus("n1", {"GPU-1", "GPU-2"});
  EXPECT_EQ(judge_gpus({both, both}).verdict, Verdict::good);
  EXPECT_EQ(judge_gpus({both, both}).finding, "2 x NVIDIA H100 80GB HBM3");
  EXPECT_EQ(judge_gpus({both, both}).evidence, "driver of CUDA 13.0 (580.65.06)");
  EXPECT_EQ(judge_gpus({with_gpus("n1", {"GPU-1"}), with_gpus("n2", {"GPU-1"})}).verdict, Verdict::good) << "hosts of their own";
  const auto shared = judge_gpus({rank("n0"), both, both, both});
  EXPECT_EQ(shared.verdict, Verdict::warning);
  EXPECT_EQ(shared.finding, "2 ranks of n1 share one GPU");
  EXPECT_EQ(shared.evidence, "ranks 1, 3 have GPU-1");
  EXPECT_NE(shared.mend.find("--gpus-per-task=1"), std::string::npos);
}

TEST(Doctor, SaysHowGpusCanExchange) {
  using cluster::Transport;
  auto both = with_gpus("n1", {"GPU-1"}), without_mpi = with_gpus("n2", {"GPU-2"}), neither = with_gpus("n3", {"GPU-3"});
  without_mpi.why_no_device_mpi = neither.why_no_device_mpi = "Open MPI 4.1.4 takes no device memory, by its own word";
  neither.why_no_nccl = "libnccl.so.2 cannot be opened";
  EXPECT_FALSE(judge_transports({rank("n0")}, std::nullopt)) << "no GPUs";
  EXPECT_EQ(judge_transports({both, both, rank("n0")}, std::nullopt)->finding,
            "NCCL, MPI on device memory, the hosts' memory between GPUs");
  EXPECT_EQ(judge_transports({both, without_mpi}, std::nullopt)->finding, "NCCL, the hosts' memory between GPUs");
  EXPECT_EQ(judge_transports({both, without_mpi}, Transport::nccl)->finding, "NCCL between GPUs");
  EXPECT_EQ(judge_transports({both, neither}, Transport::host)->verdict, Verdict::good);
  const auto missing = judge_transports({both, neither}, std::nullopt);
  EXPECT_EQ(missing->verdict, Verdict::warning);
  EXPECT_EQ(missing->finding, "no NCCL between the GPUs of n3");
  EXPECT_EQ(missing->evidence, "libnccl.so.2 cannot be opened");
  const auto refused = judge_transports({both, without_mpi}, Transport::device_mpi);
  EXPECT_EQ(refused->verdict, Verdict::problem) << "flotilla train refuses it";
  EXPECT_EQ(refused->finding, "no MPI on device memory between the GPUs of n2");
  EXPECT_EQ(judge_transports({both, both}, Transport::device_mpi)->finding, "MPI on device memory between GPUs");
}

TEST(Doctor, GpusThatAreOfNoUse) {
  auto facts = with_gpus("n1", {"GPU-1"});
  facts.gpus[0].used = Bytes{std::int64_t{20} << 30};
  EXPECT_EQ(judge_gpus({facts}).verdict, Verdict::warning);
  EXPECT_NE(judge_gpus({facts}).finding.find("in use by others"), std::string::npos);
  facts.gpus[0].no_kernels = "this build has kernels for sm_75 and none for sm_90";
  EXPECT_EQ(judge_gpus({facts}).verdict, Verdict::problem);
  EXPECT_EQ(judge_gpus({facts}).evidence, facts.gpus[0].no_kernels);
  facts.gpus.clear();
  facts.why_no_gpu = "the driver is too old for its devices: update it";
  EXPECT_EQ(judge_gpus({facts}).verdict, Verdict::warning) << "nobody asked for them";
  facts.gpus_given = 1;
  EXPECT_EQ(judge_gpus({facts}).verdict, Verdict::problem);
  EXPECT_EQ(judge_gpus({facts}).evidence, facts.why_no_gpu);
}

TEST(Doctor, UnlikeVersionsAreAProblemUnlikeCpusAreNot) {
  auto other = rank("n3");
  EXPECT_EQ(judge_versions({rank("n1"), other}).verdict, Verdict::good);
  other.software[0].second = "Open MPI 5.0.0";
  other.partition = "v100";
  const auto finding = judge_versions({rank("n1"), other});
  EXPECT_EQ(finding.verdict, Verdict::problem);
  EXPECT_NE(finding.evidence.find("'Open MPI 5.0.0' on n3 (v100)"), std::string::npos) << finding.evidence;
}

TEST(Doctor, RunDirectoryMustBeOneAndWritable) {
  auto other = rank("n2");
  EXPECT_EQ(judge_directory({rank("n1"), other}, "run").verdict, Verdict::good);
  other.sees_token = false;
  EXPECT_NE(judge_directory({rank("n1"), other}, "run").finding.find("not the same folder"), std::string::npos);
  other.directory_trouble = "/scratch cannot be written";
  EXPECT_EQ(judge_directory({rank("n1"), other}, "run").evidence, "/scratch cannot be written");
}

TEST(Doctor, Clocks) {
  auto late = rank("n2");
  late.clock = 40;
  EXPECT_EQ(judge_clocks({rank("n1"), late}).verdict, Verdict::warning);
  late.clock = 1;
  EXPECT_EQ(judge_clocks({rank("n1"), late}).verdict, Verdict::good);
}

RankFacts knowing(const std::string& host, std::map<std::string, std::string> changed = {}) {
  auto facts = rank(host);
  std::map<std::string, std::string> all{{"network", "eth0 mtu 9000 100000 Mbit/s"},
                                         {"rdma devices", "mlx5_0 200 Gb/sec"},
                                         {"memlock", "unlimited"},
                                         {"governor", "performance"},
                                         {"transparent huge pages", "madvise"},
                                         {"cpu quota", "none"},
                                         {"usable threads", "4"},
                                         {"memory limit", "none"}};
  for (const auto& [name, value] : changed) all[name] = value;
  facts.node = NodeFacts{{}, {800e6}, {2e9}, ""};
  for (const auto& [name, value] : all) facts.node->properties.push_back({name, value});
  return facts;
}

/// Checks that are not good or skipped.
std::vector<std::string> warned(const std::vector<RankFacts>& ranks) {
  std::vector<std::string> checks;
  for (const auto& f : judge_nodes(ranks, "run"))
    if (f.verdict == Verdict::warning || f.verdict == Verdict::problem) {
      checks.push_back(f.check);
      EXPECT_FALSE(f.evidence.empty() || f.mend.empty()) << f.finding;
    }
  return checks;
}

TEST(Doctor, NodesThatAreWellGiveNoWarning) {
  EXPECT_TRUE(warned({knowing("n1"), rank("n1"), knowing("n2")}).empty());
  EXPECT_EQ(judge_nodes({knowing("n1")}, "run").size(), 6u) << "each check says something";
  EXPECT_TRUE(judge_nodes({rank("n1")}, "run").empty()) << "nobody looked";
  const std::map<std::string, std::string> container{
      {"network", "none"}, {"rdma devices", "none"}, {"memlock", "64 KiB"}, {"governor", "none"}};
  EXPECT_TRUE(warned({knowing("n1", container)}).empty());
}

TEST(Doctor, EachFaultOfANodeIsNamedWithItsHost) {
  const std::vector<std::pair<std::string, std::map<std::string, std::string>>> faults{
      {"network cards", {{"network", "eth0 mtu 1500 100000 Mbit/s"}}},
      {"network cards", {{"rdma devices", "mlx5_0 100 Gb/sec"}}},
      {"memlock", {{"memlock", "64 KiB"}}},
      {"governor", {{"governor", "powersave"}}},
      {"huge pages", {{"transparent huge pages", "never"}}}};
  for (const auto& [check, change] : faults) {
    const std::vector<RankFacts> ranks{knowing("n1"), knowing("n2", change), knowing("n3")};
    EXPECT_EQ(warned(ranks), std::vector<std::string>{check});
    for (const auto& f : judge_nodes(ranks, "run")) {
      if (f.check == check) {
        EXPECT_NE((f.finding + f.evidence).find("n2"), std::string::npos) << f.finding;
      }
    }
  }
}

TEST(Doctor, OtherPartitionsMayHaveOtherCards) {
  auto other = knowing("n2", {{"network", "ib0 mtu 4092"}});
  other.partition = "gpu";
  EXPECT_TRUE(warned({knowing("n1"), other}).empty());
}

TEST(Doctor, QuotaOfTheControlGroup) {
  auto held = knowing("n2", {{"cpu quota", "1.5"}});
  held.cpu_limit = 1.5;
  EXPECT_EQ(warned({knowing("n1"), held}), std::vector<std::string>{"control group"});
  EXPECT_NE(judge_nodes({knowing("n1"), held}, "run").at(4).evidence.find("n2: 1.5 CPUs of 4"), std::string::npos);
}

TEST(Doctor, FileSystemByItsSlowestHost) {
  auto slow = knowing("n2");
  slow.node->write = {9e6};
  EXPECT_EQ(warned({knowing("n1"), slow}), std::vector<std::string>{"file system"});
  EXPECT_NE(judge_nodes({knowing("n1"), slow}, "run").back().finding.find("n2, the slowest of 2"), std::string::npos);
  slow.node->write = {};
  slow.node->no_rates = "only 3 MiB are free";
  EXPECT_EQ(judge_nodes({slow}, "run").back().verdict, Verdict::skipped) << "the run directory's check speaks of it";
}

TEST(Doctor, PmixOfSlurm) {
  const std::string with =
      "MPI Plugins Configuration:\nMPI plugin types are...\n\tpmix\n\tnone\nspecific pmix plugin versions available: pmix_v4\n";
  EXPECT_EQ(judge_pmix(with, "pmix").verdict, Verdict::good);
  EXPECT_EQ(judge_pmix(with, "none").verdict, Verdict::warning);
  EXPECT_EQ(judge_pmix("MPI plugin types are...\n\tnone\n\tpmi2\n", "none").verdict, Verdict::problem);
  // Slurm 21.08 and before, on standard error.
  for (const char* words :
       {"srun: MPI types are...\nsrun: none\nsrun: openmpi\nsrun: pmi2\n", "MPI types are...\nnone\ncray_shasta\npmi2\n"}) {
    EXPECT_TRUE(lists_mpi(words)) << words;
    EXPECT_EQ(judge_pmix(words, "").verdict, Verdict::problem) << words;
  }
  EXPECT_TRUE(lists_mpi("srun: MPI types are...\nsrun: pmix_v3\nsrun: pmix\n"));
  EXPECT_EQ(judge_pmix("srun: MPI types are...\nsrun: pmix_v3\nsrun: pmix\n", "pmix_v3").verdict, Verdict::good);
  EXPECT_EQ(judge_pmix("srun: MPI types are...\nsrun: openmpi\nsrun: pmix_v2\nsrun: pmi2\nsrun: pmix\nsrun: none\n", "pmix").verdict,
            Verdict::good);
  EXPECT_EQ(judge_pmix("MPI plugin types are...\n\tnone\n\tcray_shasta\n\tpmi2\n\tpmix\nspecific pmix plugin versions available: "
                       "pmix_v3,pmix_v4\n",
                       "pmix_v4")
                .verdict,
            Verdict::good);
  EXPECT_TRUE(lists_mpi(with));
  EXPECT_FALSE(lists_mpi("srun: error: Unable to contact slurm controller\n"));
}

TEST(Doctor, PiecesOfOpenMpi) {
  const std::string all = "mca:pmix:ext3x:version:\"mca:2.1.0\"\nmca:pml:ucx:version:\"x\"\n";
  EXPECT_EQ(judge_open_mpi(all, table({})).verdict, Verdict::good);
  EXPECT_EQ(judge_open_mpi("mca:pml:ob1:version:\"x\"\n", table({})).verdict, Verdict::problem);
  EXPECT_EQ(judge_open_mpi(all, table({{"OMPI_MCA_pml", "ucx"}})).verdict, Verdict::warning);
  EXPECT_EQ(judge_open_mpi(all, table({{"OMPI_MCA_pml", "ucx"}, {"OMPI_MCA_opal_common_ucx_tls", "any"}})).verdict, Verdict::good);
  EXPECT_EQ(judge_open_mpi("mca:pmix:x:\n", table({{"OMPI_MCA_pml", "ucx"}})).verdict, Verdict::problem);
}

TEST(Doctor, TextAndJson) {
  const std::vector<Finding> findings{{"world", Verdict::good, "one world", "", ""},
                                      {"pmix", Verdict::problem, "no PMIx", "srun says so", "srun --mpi=pmix"}};
  const auto text = doctor_text(findings, 80);
  EXPECT_NE(text.find("problem    pmix: no PMIx\n           evidence: srun says so\n           fix: srun --mpi=pmix\n"), std::string::npos)
      << text;
  EXPECT_NE(text.find("1 problem found"), std::string::npos);
  const auto json = files::Json::parse(doctor_json(findings), "doctor");
  EXPECT_FALSE(json.get_bool("good"));
  EXPECT_EQ(json.at("findings").items().at(1).get_string("fix"), "srun --mpi=pmix");
}

TEST(Doctor, LinesFitTheirWidth) {
  std::string words;
  for (int i = 0; i < 60; ++i) words += text(i == 0 ? "" : " ", std::string(static_cast<std::size_t>(1 + i % 9), 'x'));
  std::istringstream lines{doctor_text({{"pmix", Verdict::problem, words, words, words}}, 80)};
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80u) << line;
}

}  // namespace
}  // namespace flotilla::app
