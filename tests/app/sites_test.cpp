#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "app/submit/slurm_answers.hpp"
#include "app/submit/slurm_offers.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/files/catalogue_file.hpp"
#include "submit_cluster.hpp"
#include "support/refusal.hpp"
#include "support/temporary_folder.hpp"

/// What real sites answer, and what a job may have there: tests/app/sites holds answers word for word, one kind of trap each.
namespace flotilla::app {
namespace {

namespace fs = std::filesystem;
using testing::MadeNodes;
using testing::MadeSite;
using tests::TemporaryFolder;
using Words = std::vector<std::string>;

const fs::path data{FLOTILLA_SOURCE "/tests/app/sites"};

/// What submit offers its planner, a line each, and what it says beside.
struct Seen {
  Words offers, notes;
  std::vector<SlurmOffer> all;

  bool says(const std::string& words) const {
    return std::ranges::any_of(notes, [&](const auto& note) { return note.find(words) != note.npos; });
  }
};

std::ostream& operator<<(std::ostream& out, const Seen& seen) {
  for (const auto& line : seen.offers) out << line << "\n";
  for (const auto& line : seen.notes) out << "- " << line << "\n";
  return out;
}

SubmitOptions options_for(const fs::path& site, const Words& more) {
  Words words{"--dry-run", "--model.name=gpt2", "--training.global-batch=64", "--submit.answers=" + site.string()};
  words.insert(words.end(), more.begin(), more.end());
  return read_submit_options(words, Words{});
}

Seen seen_at(const fs::path& site, const Words& more = {}) {
  const auto o = options_for(site, more);
  const cluster::Profile library;
  const auto catalogue = catalogue_of(o.planning.basis);
  DeviceNames names{library, catalogue};
  const auto offers = offers_of(slurm_cluster_of(o.submit), o, names);
  Seen seen{{}, offers.notes, offers.all};
  for (const auto& note : offers.notes) EXPECT_EQ(note.find(" 1 nodes"), note.npos) << note;
  for (const auto& one : offers.all)
    seen.offers.push_back(text(one.partition, " ", one.nodes, "x", one.per_node, " ", one.type, " ", one.cpus_each,
                               one.whole ? " whole" : "", one.constraint.empty() ? "" : " ", one.constraint));
  return seen;
}

Seen seen_at(const char* site, const Words& more = {}) { return seen_at(data / site, more); }

/// Why nothing is offered.
std::string refusal_at(const fs::path& site, const Words& more = {}) {
  const std::string why = tests::error_of([&] { seen_at(site, more); }).what();
  EXPECT_EQ(why.find(" 1 nodes"), why.npos) << why;
  return why;
}

/// One partition "gpu" of these nodes.
class MadeSites : public ::testing::Test {
 protected:
  Seen seen(const std::vector<MadeNodes>& nodes, const std::string& partition = "", const Words& more = {}) {
    save(nodes, partition);
    return seen_at(folder_ / "site", more);
  }
  Words offers(const std::vector<MadeNodes>& nodes, const std::string& partition = "", const Words& more = {}) {
    return seen(nodes, partition, more).offers;
  }
  std::string refusal(const std::vector<MadeNodes>& nodes, const std::string& partition = "", const Words& more = {}) {
    save(nodes, partition);
    return refusal_at(folder_ / "site", more);
  }
  void save(const std::vector<MadeNodes>& nodes, const std::string& partition) {
    MadeSite site;
    site.partition("gpu", nodes, partition);
    for (const auto& [file, lines] : more_) site.more(file, lines);
    site.configuration(configuration_);
    site.save(folder_ / "site");
  }

  TemporaryFolder folder_;
  std::map<std::string, std::string> more_;
  std::string configuration_;
};

TEST(Sites, ASliceIsNeverTheCard) {
  const auto why = refusal_at(data / "c01-mig-slices");
  EXPECT_NE(why.find("16 'gpu:nvidia_h100_80gb_hbm3_1g.10gb' of a node are slices of cards (MIG)"), std::string::npos) << why;
  EXPECT_NE(why.find("gpu:nvidia_h100_80gb_hbm3_3g.40gb=TYPE"), std::string::npos) << why;
  const auto seen = seen_at("c01b-mig-hides-whole-cards");
  EXPECT_EQ(seen.offers, (Words{"gpu 1x4 B200 56"})) << seen;
  EXPECT_TRUE(seen.says("gpu:nvidia_b200_1g.23gb")) << seen;
  const auto only = refusal_at(data / "c01c-mig-with-a-note");
  EXPECT_NE(only.find("the site has no whole devices of types that plans know; "), std::string::npos) << only;
  EXPECT_NE(only.find("slices of cards"), std::string::npos) << only;
  EXPECT_EQ(only.find("--submit.wait"), std::string::npos) << only;  // nothing that may come free
}

TEST_F(MadeSites, SlicesAreLeftOutAndSaidAndCardsBesideThemCount) {
  for (const char* slice : {"1g.5gb", "a100_1g.5gb", "a100-3g.20gb", "nvidia_a100_80gb_pcie_1g.10gb", "nvidia_a100-sxm4-80gb_2g.20gb+me",
                            "h100_7g.80gb", "mig-1g.12gb", "nvidia_h200_1g.18gb", "a100_mig", "1c.3g.20gb", "a30_2g.12gb"}) {
    const auto why = refusal({MadeNodes{.gres = text("gpu:", slice, ":7(S:0-1)")}});
    EXPECT_NE(why.find(slice), std::string::npos) << why;
    EXPECT_NE(why.find("slices of cards"), std::string::npos) << why;
    const auto beside = seen({MadeNodes{.gres = text("gpu:", slice, ":7,gpu:nvidia_a100_80gb_pcie:2(S:0)")}});
    EXPECT_EQ(beside.offers, (Words{"gpu 1x2 A100-PCIe-80 32"})) << slice << "\n" << beside;
    EXPECT_TRUE(beside.says(slice)) << beside;
  }
}

TEST_F(MadeSites, ASliceMayBeNamedByTheUser) {
  EXPECT_EQ(offers({MadeNodes{.gres = "gpu:1g.10gb:7"}}, "", {"--submit.device-types=gpu:1g.10gb=L4"}), (Words{"gpu 1x7 L4 9 whole"}));
}

TEST(Sites, GresWithoutATypeThatIsInUse) {
  const auto seen = seen_at("c02-gres-null-used");
  EXPECT_EQ(seen.offers, (Words{"gpu 1x7 A100-80 16 A100-80"})) << seen;
}

TEST_F(MadeSites, WhatIsInUseAsTwentyTwoToTwentySixWriteIt) {
  const auto free = [&](const std::string& gres, const std::string& used) {
    const auto all = offers({MadeNodes{.count = 1, .state = "mixed", .flags = "MIXED", .gres = gres, .used = used, .features = "A100-80"}});
    return all.empty() ? std::string{"none"} : all.front();
  };
  EXPECT_EQ(free("gpu:8", "gpu:(null):3(IDX:0-2)"), "gpu 1x5 A100-80 8 A100-80");
  EXPECT_EQ(free("gpu:8", "gpu:(null):0(IDX:N/A)"), "gpu 1x8 A100-80 8 A100-80");
  EXPECT_EQ(free("gpu:8", "gpu:2(IDX:0,7)"), "gpu 1x6 A100-80 8 A100-80");
  EXPECT_EQ(free("gpu:a100-80:8", "gpu:a100-80:1(IDX:3)"), "gpu 1x7 A100-80 8");
  EXPECT_EQ(free("gpu:a100-80:8(S:0-1)", "gpu:a100-80:6(IDX:0-3,6-7),nvme:0"), "gpu 1x2 A100-80 8");
  EXPECT_EQ(free("gpu:a100-80:4,gpu:t4:4", "gpu:a100-80:3(IDX:0-2),gpu:t4:0(IDX:N/A)"), "gpu 1x1 A100-80 16");
}

TEST(Sites, ShardsAndMpsAreOnCards) {
  const auto seen = seen_at("c18-shared-cards");
  EXPECT_EQ(seen.offers, (Words{"gpu 1x3 A100-80 16"})) << seen;
}

TEST_F(MadeSites, SharedCardsInEveryForm) {
  const auto free = [&](const std::string& used) {
    return offers({MadeNodes{.state = "mixed", .flags = "MIXED", .gres = "gpu:a100-80:4,mps:a100-80:400,shard:a100-80:32", .used = used}});
  };
  EXPECT_EQ(free("gpu:a100-80:0(IDX:N/A),mps:a100-80:50(50/100,0/100,0/100,0/100),shard:a100-80:0"), (Words{"gpu 1x3 A100-80 16"}));
  EXPECT_EQ(free("gpu:a100-80:1(IDX:0),mps:a100-80:0(0/100,0/100,0/100,0/100)"), (Words{"gpu 1x3 A100-80 16"}));
  EXPECT_EQ(free("gpu:a100-80:1(IDX:0),shard:a100-80:9(0/8,8/8,1/8,0/8)"), (Words{"gpu 1x1 A100-80 16"}));
  EXPECT_EQ(free("gpu:0,mps:200"), (Words{"gpu 1x3 A100-80 16"}));
  EXPECT_EQ(free("gpu:a100-80:0(IDX:N/A),shard:a100-80:0(0/8,0/8,0/8,0/8)"), (Words{"gpu 1x4 A100-80 16"}));
}

TEST(Sites, AnOddGresIsNoReasonToRefuseASite) {
  EXPECT_EQ(seen_at("c03-gres-of-the-manual").offers, (Words{"gpu 2x4 A100-80 16 whole"}));
  EXPECT_EQ(seen_at("c12-cpus-as-1K").offers, (Words{"gpu 1x8 H100 8 whole"}));
}

TEST_F(MadeSites, GresThatNobodyAsksFor) {
  for (const char* odd : {"bandwidth:lustre:no_consume:4G", "craynetwork:4", "nic:mlx5:2:x:y", "tmpfs:18446744073709551615", "fpga:u280:1P",
                          "license:a:b:c", ":7", "gpu_mem:80T", "hbm:64G", "vram:3.5G", "one_sg", "scratch:local:no_consume:1.5T"})
    EXPECT_EQ(offers({MadeNodes{.gres = text(odd, ",gpu:a100-80:8,", odd)}}), (Words{"gpu 1x8 A100-80 8 whole"})) << odd;
}

TEST(Sites, CpusThatJobsMayHave) {
  EXPECT_EQ(seen_at("c04-cpus-kept-for-the-system").offers.size(), 1u);
  EXPECT_EQ(seen_at("c04-cpus-kept-for-the-system").all.at(0).cpus_each, 15);
  EXPECT_EQ(seen_at("c10-max-cpus-per-node").all.at(0).cpus_each, 10);
  const auto beside = refusal_at(data / "c11-one-gpu-and-a-cpu-job");
  EXPECT_NE(beside.find("1 node has free H100-NVL but not as many free CPUs as they are given (58 are): --submit.cpus-per-task 58"),
            std::string::npos)
      << beside;
  EXPECT_EQ(seen_at("c11-one-gpu-and-a-cpu-job", {"--submit.cpus-per-task=58"}).offers, (Words{"gpu 1x1 H100-NVL 58"}));
}

TEST_F(MadeSites, RequestsThatSlurmAccepts) {
  const MadeNodes node{.gres = "gpu:a100-80:4", .cpus = 128, .idle_cpus = 128};
  EXPECT_EQ(offers({node}, "MaxCPUsPerNode=112"), (Words{"gpu 1x4 A100-80 28"})) << "a whole node has 128";
  EXPECT_EQ(offers({node}, "MaxCPUsPerNode=UNLIMITED"), (Words{"gpu 1x4 A100-80 32 whole"}));
  EXPECT_EQ(offers({node}, "JobDefaults=DefCpuPerGPU=16,DefMemPerGPU=65536"), (Words{"gpu 1x4 A100-80 16 whole"}));
  EXPECT_EQ(offers({node}, "JobDefaults=DefCpuPerGPU=64"), (Words{"gpu 1x4 A100-80 32 whole"})) << "more than there are";
  EXPECT_EQ(offers({node}, "MaxCPUsPerNode=40", {"--submit.cpus-per-task=20"}), (Words{"gpu 1x2 A100-80 20"}));
}

TEST_F(MadeSites, MemoryThatSlurmAccepts) {
  const MadeNodes node{.gres = "gpu:a100-80:4", .cpus = 128, .idle_cpus = 128};
  configuration_ = "SelectTypeParameters    = CR_CORE_MEMORY\n";
  const auto asked = [&](const std::string& partition) { return seen({node}, partition).all.at(0).memory_each.count >> 20; };
  EXPECT_EQ(asked("MaxMemPerNode=UNLIMITED"), 128000);
  EXPECT_EQ(asked("MaxMemPerNode=400000"), 100000);
  EXPECT_EQ(asked("MaxMemPerCPU=3000"), 96000);
  EXPECT_EQ(asked("MaxMemPerCPU=3000 JobDefaults=DefCpuPerGPU=16"), 48000) << "what these CPUs may have";
  EXPECT_EQ(asked("DefMemPerCPU=2000 MaxMemPerCPU=3000"), 0) << "the site's default is right";
  configuration_ += "MaxMemPerNode           = 200000\n";
  EXPECT_EQ(asked("MaxMemPerNode=UNLIMITED"), 50000) << "the site's";
  const auto why = refusal({node}, "", {"--submit.memory=300GiB"});
  EXPECT_NE(why.find("--submit.memory asks for less"), std::string::npos) << why;
}

TEST(Sites, PartitionsOfOtherGroups) {
  const auto seen = seen_at("c05-partition-of-another-group");
  EXPECT_EQ(seen.offers, (Words{"gpu 1x4 A100-80 16 whole"}));
  EXPECT_TRUE(seen.says("partition pi-a is left out: account 'proj-7' is not in its AllowAccounts")) << seen;
}

TEST_F(MadeSites, WhoMaySendJobs) {
  more_["accounts.txt"] = "ours|ours||normal||||\nours|second||long||||\n";
  more_["qos.txt"] = "normal||||\nlong||||\n";
  const MadeNodes node{.gres = "gpu:a100-80:4"};
  const auto open = [&](const std::string& partition, const Words& more = {}) { return offers({node}, partition, more).size() == 1; };
  const auto closed = [&](const std::string& partition, const std::string& why, const Words& more = {}) {
    const auto said = refusal({node}, partition, more);
    EXPECT_NE(said.find(why), std::string::npos) << said;
  };
  EXPECT_TRUE(open("AllowAccounts=ALL AllowQos=ALL AllocNodes=ALL"));
  EXPECT_TRUE(open("AllowAccounts=theirs,OURS"));
  EXPECT_TRUE(open("AllowAccounts=second", {"--submit.account=second"}));
  EXPECT_TRUE(open("DenyAccounts=theirs"));
  EXPECT_TRUE(open("AllowQos=long", {"--submit.qos=long"}));
  closed("AllowAccounts=second,third", "account 'ours' is not in its AllowAccounts; 'second' is: --submit.account second");
  closed("AllowAccounts=ours", "account 'second' is not in its AllowAccounts", {"--submit.account=second"});
  closed("DenyAccounts=Ours", "account 'ours' is in its DenyAccounts");
  closed("AllowQos=long,urgent", "QOS 'normal' is not in its AllowQos");
  closed("DenyQos=normal", "QOS 'normal' is in its DenyQos");
  closed("AllocNodes=no-such-login[1-2]", "(AllocNodes)");
}

TEST(Sites, LimitsOfAnotherCluster) { EXPECT_EQ(seen_at("c14-limits-of-another-cluster").offers, (Words{"gpu 4x8 H100 8 whole"})); }

TEST(Sites, WholeNodesOnlyWhereNothingElseRuns) {
  const auto seen = seen_at("c06-exclusive-by-the-first-node");
  ASSERT_EQ(seen.all.size(), 1u);
  EXPECT_EQ(seen.all[0].nodes, 5);
  EXPECT_FALSE(seen.all[0].whole) << seen;
}

TEST_F(MadeSites, WholeNodes) {
  MadeNodes four{.prefix = "a", .count = 2, .gres = "gpu:h100:4"}, eight{.prefix = "b", .count = 2, .gres = "gpu:h100:8"};
  EXPECT_EQ(offers({four}), (Words{"gpu 2x4 H100 16 whole"}));
  EXPECT_EQ(offers({eight, four}), (Words{"gpu 2x8 H100 8 whole"}));
  four.count = 3;
  EXPECT_EQ(offers({eight, four}), (Words{"gpu 5x4 H100 8"})) << "of the nodes with eight, half";
  auto busy = four;
  busy.prefix = "c", busy.state = "mixed", busy.flags = "MIXED", busy.used = "gpu:h100:0(IDX:N/A)";
  EXPECT_EQ(offers({four, busy}), (Words{"gpu 6x4 H100 16"})) << "another job is on some";
  EXPECT_EQ(offers({four, busy}, "", {"--submit.wait"}), (Words{"gpu 6x4 H100 16 whole"}));
  EXPECT_EQ(offers({MadeNodes{.gres = "gpu:h100:4,gpu:1g.10gb:7"}}), (Words{"gpu 1x4 H100 16"})) << "slices beside them";
}

TEST(Sites, TwoCardsInANode) {
  const auto seen = seen_at("c07-two-cards-in-a-node");
  EXPECT_EQ(seen.offers, (Words{"gpu 1x6 H100 10"}));
  EXPECT_TRUE(seen.says("2 A100-80, too: left out")) << seen;
}

TEST_F(MadeSites, OfTwoTypesTheOneThatMultipliesMore) {
  const auto chosen = [&](const std::string& gres) { return offers({MadeNodes{.gres = gres}}).at(0); };
  EXPECT_EQ(chosen("gpu:t4:4,gpu:a100-80:1"), "gpu 1x1 A100-80 64");
  EXPECT_EQ(chosen("gpu:a100-80:1,gpu:t4:4"), "gpu 1x1 A100-80 64");
  EXPECT_EQ(chosen("gpu:rtx_2080_ti:8,gpu:rtx_3090:2"), "gpu 1x8 RTX-2080-Ti 8");
  EXPECT_EQ(chosen("gpu:h100:2,gpu:a40:8"), "gpu 1x2 H100 32");
  EXPECT_EQ(chosen("gpu:nobodys:8,gpu:v100-32:2"), "gpu 1x2 V100-32 32");
}

TEST(Sites, CardsThatWereTakenForOthers) {
  const auto seen = seen_at("c08-cards-taken-for-others");
  std::map<std::string, std::string> types;
  for (const auto& one : seen.all) types[one.partition] = one.type;
  const std::map<std::string, std::string> expected{
      {"p1", "RTX-PRO-6000-Max-Q"}, {"p2", "Titan-X-Maxwell"}, {"p3", "L40"},    {"p4", "RTX-2080-Super"},
      {"p5", "Quadro-RTX-8000"},    {"p7", "H100-NVL"},        {"p8", "A100-80"}};
  EXPECT_EQ(types, expected) << seen;
  EXPECT_TRUE(seen.says("Max-1100 left out: Flotilla trains on CPUs and NVIDIA GPUs")) << seen;
  EXPECT_TRUE(seen.says("'gpu:titan_x' may be Titan-X-Maxwell or Titan-X-Pascal")) << seen;
}

TEST(Sites, BillingNamesHaveNoCase) {
  const auto seen = seen_at("c09-billing-name-in-capitals");
  ASSERT_EQ(seen.all.size(), 1u);
  EXPECT_DOUBLE_EQ(seen.all[0].units_per_hour, 64);
  EXPECT_TRUE(seen.says("MI250X: only planned over, nothing is sent")) << seen;
}

TEST_F(MadeSites, BillingNames) {
  const auto units = [&](const std::string& gres, const std::string& weights) {
    return seen({MadeNodes{.gres = gres}}, "TRESBillingWeights=" + weights).all.at(0).units_per_hour;
  };
  EXPECT_DOUBLE_EQ(units("gpu:a100-80:4", "GRES/GPU=3"), 3);
  EXPECT_DOUBLE_EQ(units("gpu:A100-80:4", "gres/gpu:a100-80=5"), 5);
  EXPECT_DOUBLE_EQ(units("gpu:a100-80:4", "Gres/Gpu:A100-80=5,CPU=0"), 5);
  EXPECT_DOUBLE_EQ(units("gpu:a100-80:4", "cpu=1"), 16);
  EXPECT_DOUBLE_EQ(units("gpu:a100-80:4", "gres/gpu:h100=5"), 0);
}

TEST(Sites, ReservationsInATimeFormatOfTheUsers) {
  const auto why = refusal_at(data / "c13-time-format-of-the-user", {"--submit.time=4h"});
  EXPECT_NE(why.find("kept for a reservation (maint)"), std::string::npos) << why;
}

TEST_F(MadeSites, ReservationsWhoseBeginningCannotBeRead) {
  for (const char* time : {"Tomorr 12:00", "28 Nov 12:00", "12:00:00", "1764331200", "11/28/26-12:00:00"}) {
    more_["reservations.txt"] = text("ReservationName=m StartTime=", time, " EndTime=", time, " Nodes=n001 State=INACTIVE\n");
    EXPECT_NE(refusal({MadeNodes{.prefix = "n", .gres = "gpu:h100:8"}}).find("reservation (m)"), std::string::npos) << time;
  }
}

TEST(Sites, ExclusiveSince2605) {
  const auto seen = seen_at("c16-exclusive-of-26.05");
  EXPECT_EQ(seen.offers, (Words{"gpu 1x8 H100 8 whole"})) << seen;
}

TEST_F(MadeSites, ExclusiveInEveryForm) {
  const MadeNodes idle{.prefix = "i", .gres = "gpu:h100:4"};
  const MadeNodes part{
      .prefix = "m", .state = "mixed", .flags = "MIXED", .gres = "gpu:h100:4", .used = "gpu:h100:1(IDX:0)", .idle_cpus = 48};
  for (const char* words :
       {"OverSubscribe=EXCLUSIVE", "OverSubscribe=EXCLUSIVE:4", "ExclusiveUser=YES", "Exclusive=NODE", "Exclusive=USER", "Exclusive=TOPO"})
    EXPECT_EQ(offers({idle, part}, words), (Words{"gpu 1x4 H100 16 whole"})) << words;
  for (const char* words : {"OverSubscribe=NO", "OverSubscribe=FORCE:1", "ExclusiveUser=NO", "Exclusive=NO"})
    EXPECT_EQ(offers({idle, part}, words), (Words{"gpu 2x3 H100 16"})) << words;
}

TEST(Sites, FeaturesWhereGresHaveNoType) {
  const auto seen = seen_at("c17-no-type-but-a-feature");
  EXPECT_EQ(seen.offers, (Words{"gpu 1x4 A100-40 16 whole a100", "gpu 1x4 V100-16 16 whole v100"})) << seen;
  EXPECT_TRUE(seen.says("feature 'v100' may be V100-16")) << seen;
}

TEST_F(MadeSites, FeaturesOfSites) {
  const auto type = [&](const std::string& gres, const std::string& features) {
    return seen({MadeNodes{.gres = gres, .features = features}}).all.at(0).type;
  };
  EXPECT_EQ(type("gpu:4", "CPU_GEN:SPR,GPU_SKU:L40S,GPU_MEM:48GB,GPU_CC:8.9"), "L40S");
  EXPECT_EQ(type("gpu:4", "gpu_a100_80gb,ib"), "A100-80");
  EXPECT_EQ(type("gpu:a100:4", "gpu,hbm80g"), "A100-80");
  EXPECT_EQ(type("gpu:a100:4", "gpu,a100,sxm4,80gb"), "A100-80");
  EXPECT_EQ(type("gpu:v100:4", "skylake,v100-32gb"), "V100-32");
  EXPECT_EQ(type("gpu:p100:2", "12gb"), "P100-PCIe-12");
  EXPECT_EQ(type("gpu:a100:4", "a100-pcie-80gb,icelake"), "A100-PCIe-80");
  EXPECT_EQ(type("gpu:a100:4", "icelake,512gb,ib"), "A100-40") << "features of other things";
  EXPECT_NE(refusal({MadeNodes{.gres = "gpu:4", .features = "a100,v100"}}).find("name different devices"), std::string::npos);
}

TEST_F(MadeSites, SlicesByAFeatureAlone) {
  for (const char* features : {"mig", "a100,mig", "mig-1g.10gb,a100", "amd,a100,3g.40gb,gpu40"}) {
    const auto why = refusal({MadeNodes{.gres = "gpu:28", .features = features}});
    EXPECT_NE(why.find("28 'gpu' of a node are slices of cards by its feature"), std::string::npos) << why;
    EXPECT_NE(why.find("--submit.device-types feature:"), std::string::npos) << why;
  }
  EXPECT_EQ(offers({MadeNodes{.gres = "gpu:a100-80:4", .features = "mig"}}), (Words{"gpu 1x4 A100-80 16 whole"})) << "its type is a card's";
}

TEST_F(MadeSites, WhatToWriteWhereNothingNamesTheCard) {
  MadeSite site;
  site.partition("a100-40gb", {MadeNodes{.prefix = "a", .gres = "gpu:2"}});
  site.partition("fast", {MadeNodes{.prefix = "f", .gres = "gpu:2"}});
  site.partition("closed", {MadeNodes{.prefix = "c", .gres = "gpu:2"}}, "RootOnly=YES");
  site.partition("turing", {MadeNodes{.prefix = "q", .gres = "gpu:RTX6000:8"}});
  site.partition("private", {MadeNodes{.prefix = "p", .gres = "gpu:RTX6000:4"}});
  site.partition("t4", {MadeNodes{.prefix = "t", .gres = "gpu:t4:4"}});
  site.save(folder_ / "site");
  const auto seen = seen_at(folder_ / "site");
  EXPECT_TRUE(
      seen.says("partition a100-40gb: gres 'gpu' has no type and no feature of its nodes names one; name it: "
                "--submit.device-types partition:a100-40gb=A100-40 or feature:NAME=TYPE"))
      << seen;
  EXPECT_TRUE(seen.says("--submit.device-types partition:fast=TYPE or feature:NAME=TYPE")) << seen;
  EXPECT_FALSE(seen.says("partition:closed")) << seen;
  EXPECT_TRUE(
      seen.says("partitions turing, private: unknown gres 'gpu:RTX6000'; did you mean 'RTX-6000-Ada' or 'Quadro-RTX-6000'?; name it"))
      << seen;
  EXPECT_EQ(seen_at(folder_ / "site", {"--submit.partitions=a100-40gb", "--submit.device-types=partition:a100-40gb=A100-40"}).offers,
            (Words{"a100-40gb 1x2 A100-40 32 whole"}));
}

TEST(Sites, ASiteWithoutGpus) {
  const auto why = refusal_at(data / "c19-site-without-gpus");
  EXPECT_NE(why.find("no GPUs; --submit.device-types partition:cpu=CPU --submit.cpus-per-task N"), std::string::npos) << why;
  EXPECT_EQ(seen_at("c19-site-without-gpus", {"--submit.device-types=partition:cpu=CPU", "--submit.cpus-per-task=8"}).offers,
            (Words{"cpu 2x8 CPU 8 whole"}));
}

TEST_F(MadeSites, GresOfSitesWithoutGpus) {
  for (const char* gres : {"(null)", "gpu:0", "craynetwork:4", "fpga:u280:2", "lustre:no_consume:4G", "nic:4(S:0-1),tmpdisk:900000"})
    EXPECT_NE(refusal({MadeNodes{.gres = gres}}).find("the site has no GPUs; --submit.device-types partition:gpu=CPU"), std::string::npos)
        << gres;
}

TEST(Sites, NodesThatBoot) {
  const auto why = refusal_at(data / "c20-node-that-boots");
  EXPECT_NE(why.find("1 node is starting: --submit.wait"), std::string::npos) << why;
  EXPECT_EQ(seen_at("c20-node-that-boots", {"--submit.wait"}).offers, (Words{"gpu 1x8 A100-80 12 whole"}));
}

TEST_F(MadeSites, NodesThatBootAndThatAreDown) {
  const auto waits = [&](const char* state, const char* flags) {
    const MadeNodes node{.state = state, .flags = flags, .gres = "gpu:h100:8"};
    save({node}, "");
    try {
      return seen_at(folder_ / "site", {"--submit.wait"}).offers.size() == 1;
    } catch (const Error&) {
      return false;
    }
  };
  EXPECT_TRUE(waits("idle#", "IDLE+CLOUD+NOT_RESPONDING+POWERING_UP"));
  EXPECT_TRUE(waits("alloc#", "ALLOCATED+CLOUD+NOT_RESPONDING+POWERING_UP"));
  EXPECT_TRUE(waits("mix#", "MIXED+CLOUD+POWERING_UP"));
  EXPECT_TRUE(waits("idle~", "IDLE+CLOUD+POWERED_DOWN"));
  EXPECT_FALSE(waits("down#", "DOWN+CLOUD+NOT_RESPONDING+POWERING_UP"));
  EXPECT_FALSE(waits("idle*", "IDLE+CLOUD+NOT_RESPONDING"));
  EXPECT_FALSE(waits("drained~", "IDLE+CLOUD+DRAIN+POWERED_DOWN"));
}

TEST_F(MadeSites, OthersThanNvidiasBesideThem) {
  const MadeNodes amd{.prefix = "m", .gres = "gpu:mi210:4"}, nvidia{.prefix = "a", .gres = "gpu:a40:4"};
  const auto both = seen({amd, nvidia});
  EXPECT_EQ(both.offers, (Words{"gpu 1x4 A40 16 whole"}));
  EXPECT_TRUE(both.says("MI210 left out: Flotilla trains on CPUs and NVIDIA GPUs")) << both;
  EXPECT_TRUE(seen({amd}).says("MI210: only planned over, nothing is sent"));
}

TEST_F(MadeSites, GpusThatOthersMake) {
  const std::tuple<const char*, const char*, const char*> cases[] = {
      {"gpu:mi250x:8", "(null)", "MI250X"},  {"gpu:mi300a:4", "apu,cdna3", "MI300A"},
      {"gpu:max_1550:4", "pvc", "Max-1550"}, {"gpu:amd_instinct_mi300x_oam:8", "(null)", "MI300X"},
      {"gpu:4", "epyc,mi100", "MI100"},      {"gpu:amd_instinct_mi210:4(S:0-1)", "(null)", "MI210"}};
  for (const auto& [gres, features, type] : cases) {
    const MadeNodes theirs{.prefix = "m", .count = 2, .gres = gres, .features = features}, nvidia{.prefix = "a", .gres = "gpu:a40:4"};
    const auto both = seen({theirs, nvidia});
    EXPECT_EQ(both.offers, (Words{"gpu 1x4 A40 16 whole"})) << both;
    EXPECT_TRUE(both.says(text(type, " left out: Flotilla trains on CPUs and NVIDIA GPUs"))) << both;
    const auto alone = seen({theirs});
    ASSERT_EQ(alone.all.size(), 1u) << alone;
    EXPECT_EQ(alone.all[0].type, type);
    EXPECT_TRUE(alone.says(text(type, ": only planned over, nothing is sent"))) << alone;
  }
}

/// How long it takes: tests/benchmarks/submit_benchmark.sh.
TEST_F(MadeSites, TenThousandNodesOfThreePartitions) {
  const MadeNodes a{.prefix = "a", .count = 5000, .digits = 5, .gres = "gpu:nvidia_a100-sxm4-80gb:4(S:0-1)", .features = "icelake,a100,ib"};
  const MadeNodes h{.prefix = "h", .count = 5000, .digits = 5, .gres = "gpu:nvidia_h100_80gb_hbm3:8(S:0-1)", .features = "sapphire,h100"};
  MadeSite site;
  site.partition("short", {a, h});
  site.partition("long", {a, h}, "PriorityTier=2");
  site.partition("all", {a, h}, "PriorityTier=3");
  site.more("reservations.txt",
            "ReservationName=m StartTime=2026-11-22T10:00:00 EndTime=2026-11-23T10:00:00 Nodes=a[00001-02000] State=ACTIVE\n");
  site.save(folder_ / "site");
  EXPECT_EQ(seen_at(folder_ / "site").offers, (Words{"short 3000x4 A100-80 16 whole", "short 5000x8 H100 8 whole"}));
}

TEST_F(MadeSites, PartitionsInAnyScript) {
  const auto named = [&](const std::string& name) {
    MadeSite site;
    site.partition(name, {MadeNodes{.gres = "gpu:a100-80:4"}});
    site.save(folder_ / "site");
    return seen_at(folder_ / "site").offers == Words{name + " 1x4 A100-80 16 whole"};
  };
  for (const char* name : {"rechnen-ü", "計算", "Δ", "физика", "gpu_é.1"}) EXPECT_TRUE(named(name)) << name;
  MadeSite site;
  site.partition("gpu\u202egpu", {MadeNodes{.gres = "gpu:a100-80:4"}});
  site.save(folder_ / "hostile");
  EXPECT_NE(refusal_at(folder_ / "hostile").find("cannot be used in a batch script"), std::string::npos);
}

TEST(Sites, ACatalogueOfTheSitesOwn) {
  const auto file = (data / "c26-own-catalogue/site.json").string();
  const auto o = options_for(data / "c03-gres-of-the-manual", {"--catalogue", file});
  const auto catalogue = catalogue_of(o.planning.basis);
  const auto* a40 = cluster::find(catalogue, "A40");
  ASSERT_NE(a40, nullptr);
  EXPECT_EQ(a40->description, "Invented.") << "a site's own goes before";
  EXPECT_NE(cluster::find(catalogue, "A100-80"), nullptr);
  EXPECT_EQ(cluster::read_device_word(catalogue, "nvidia_a40").may_be, (std::vector<const cluster::CatalogueEntry*>{a40}));
}

}  // namespace
}  // namespace flotilla::app
