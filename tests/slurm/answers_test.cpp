#include "flotilla/slurm/slurm_cluster.hpp"

#include <gtest/gtest.h>

#include "flotilla/base/error.hpp"
#include "support/refusal.hpp"

namespace flotilla::slurm {
namespace {

SlurmAnswers one_node(const std::string& state, const std::string& flags) {
  return {"n1|p|up|" + state + "|8|3000|gpu:a100:4|f1,f2|2/6/0/8\n",
          "PartitionName=p State=UP MaxTime=2:00:00 PreemptMode=OFF PriorityTier=1\n",
          "NodeName=n1 GresUsed=gpu:a100:1(IDX:0) State=" + flags + " Reason=x\n", ""};
}

std::string refusal_of(const SlurmAnswers& answers) {
  return tests::refusal([&] { read_slurm_cluster(answers); });
}

TEST(SlurmCluster, NodesByStateAndFlags) {
  const auto node = [](const char* state, const char* flags) { return read_slurm_cluster(one_node(state, flags)).nodes.at(0); };
  EXPECT_TRUE(node("idle", "IDLE").idle);
  EXPECT_TRUE(node("idle~", "IDLE+CLOUD+POWERED_DOWN").idle);
  EXPECT_TRUE(node("mixed", "MIXED").shared);
  EXPECT_FALSE(node("mixed-", "MIXED+PLANNED").shared);
  EXPECT_TRUE(node("allocated", "ALLOCATED").usable);
  EXPECT_FALSE(node("allocated", "ALLOCATED").idle);
  EXPECT_TRUE(node("completing", "IDLE+COMPLETING").usable);
  EXPECT_FALSE(node("completing", "IDLE+COMPLETING").idle);
  for (const auto& [state, flags] : std::vector<std::pair<const char*, const char*>>{{"drained", "IDLE+DRAIN"},
                                                                                     {"idle", "IDLE+DRAIN"},
                                                                                     {"mixed", "MIXED+RESERVED"},
                                                                                     {"down*", "DOWN+NOT_RESPONDING"},
                                                                                     {"idle*", "IDLE*"},
                                                                                     {"maint", "IDLE+MAINTENANCE"},
                                                                                     {"idle$", "IDLE"},
                                                                                     {"inval", "IDLE+INVALID_REG"}})
    EXPECT_FALSE(node(state, flags).usable) << state << " " << flags;
}

TEST(SlurmCluster, FactsOfANode) {
  const auto slurm_cluster = read_slurm_cluster(one_node("mixed", "MIXED"));
  const auto& node = slurm_cluster.nodes.at(0);
  EXPECT_EQ(node.gres, (std::vector<Gres>{{"gpu", "a100", 4}}));
  EXPECT_EQ(node.used, (std::vector<Gres>{{"gpu", "a100", 1}}));
  EXPECT_EQ(node.features, (std::vector<std::string>{"f1", "f2"}));
  EXPECT_EQ(node.idle_cpus, 6);
  EXPECT_EQ(node.memory.count, std::int64_t{3000} << 20);
  EXPECT_EQ(slurm_cluster.partitions.at(0).limit->value, 7200);
}

TEST(SlurmCluster, ANodeOfTwoPartitionsIsOneNode) {
  auto answers = one_node("idle", "IDLE");
  answers.partitions += "PartitionName=q State=DOWN MaxTime=UNLIMITED\n";
  answers.nodes += "n1|q|up|idle|8|3000|gpu:a100:4|f1|0/8/0/8\n";
  const auto slurm_cluster = read_slurm_cluster(answers);
  EXPECT_EQ(slurm_cluster.nodes.size(), 1u);
  EXPECT_EQ(slurm_cluster.partitions.at(1).nodes, (std::vector<std::size_t>{0}));
  EXPECT_FALSE(slurm_cluster.partitions.at(1).open);
  EXPECT_FALSE(slurm_cluster.partitions.at(1).limit);
}

TEST(SlurmCluster, ListsOfNodesInOneLine) {
  auto answers = one_node("idle", "IDLE");
  answers.nodes = "n[1-3,07]-ib|p|up|idle|8|3000|(null)|(null)|8/24/0/32\n";
  const auto slurm_cluster = read_slurm_cluster(answers);
  ASSERT_EQ(slurm_cluster.nodes.size(), 4u);
  EXPECT_EQ(slurm_cluster.nodes[3].name, "n07-ib");
  EXPECT_EQ(slurm_cluster.nodes[3].idle_cpus, 6);
}

TEST(SlurmCluster, GresAsSitesWriteIt) {
  EXPECT_EQ(parse_gres("(null)"), std::vector<Gres>{});
  EXPECT_EQ(parse_gres("gpu:4"), (std::vector<Gres>{{"gpu", "", 4}}));
  EXPECT_EQ(parse_gres("gpu"), (std::vector<Gres>{{"gpu", "", 1}}));
  EXPECT_EQ(parse_gres("gpu:a100:2(S:0,2),gpu:a100:2(S:1,3),nvme:no_consume:2K"),
            (std::vector<Gres>{{"gpu", "a100", 4}, {"nvme", "", 2048}}));
  EXPECT_EQ(parse_gres("gpu:nvidia_a100_80gb_pcie:8(S:0-1)"), (std::vector<Gres>{{"gpu", "nvidia_a100_80gb_pcie", 8}}));
  EXPECT_EQ(parse_gres("gres:gpu:v100:1"), (std::vector<Gres>{{"gpu", "v100", 1}}));
  EXPECT_THROW(parse_gres("gpu:a:b:4"), Error);
  EXPECT_EQ(parse_gres(":4,gpu:2,bandwidth:lustre:no_consume:4G,a:b:c:4"),
            (std::vector<Gres>{{"gpu", "", 2}, {"bandwidth", "lustre", 4294967296}}));
  EXPECT_EQ(parse_gres("gpu:(null):8(IDX:0-7)"), (std::vector<Gres>{{"gpu", "", 8}}));
  EXPECT_EQ(parse_gres("gpu:(null):0(IDX:N/A),tmp:18446744073709551615,x:2P"),
            (std::vector<Gres>{{"gpu", "", 0}, {"tmp", "", 9223372036854774784}, {"x", "", std::int64_t{2} << 50}}));
}

TEST(SlurmCluster, BillingWeights) {
  const auto weights = parse_billing_weights("CPU=1.0,Mem=0.25G,GRES/gpu=2.0,GRES/gpu:a100=4,Node=3");
  EXPECT_EQ(weights.cpu, 1);
  EXPECT_EQ(weights.gibibyte, 0.25);
  EXPECT_EQ(weights.node, 3);
  EXPECT_EQ(weights.gres.at("gpu:a100"), 4);
  EXPECT_EQ(parse_billing_weights("mem=1").gibibyte, 1024);
  EXPECT_EQ(parse_billing_weights("mem=1T").gibibyte, 1.0 / 1024);
  EXPECT_THROW(parse_billing_weights("CPU"), Error);
  EXPECT_THROW(parse_billing_weights("CPU=-1"), Error);
}

TEST(SlurmCluster, WhatPeopleWroteTakesNoKeysPlace) {
  auto answers = one_node("idle", "IDLE");
  answers.details = "NodeName=n1 State=IDLE+DRAIN Reason=see State=IDLE GresUsed=gpu:0 NodeName=n2\n";
  EXPECT_FALSE(read_slurm_cluster(answers).nodes.at(0).usable);
}

TEST(SlurmCluster, RefusalsSayWhere) {
  auto answers = one_node("idle", "IDLE");
  answers.nodes += "n2|p|up\n";
  EXPECT_NE(refusal_of(answers).find("sinfo, line 2: expected 9 columns"), std::string::npos) << refusal_of(answers);
  answers = one_node("idle", "IDLE");
  answers.nodes += "n2|other|up|idle|8|3000|(null)|(null)|0/8/0/8\n";
  EXPECT_NE(refusal_of(answers).find("partition 'other'"), std::string::npos) << refusal_of(answers);
  answers = one_node("idle", "IDLE");
  answers.partitions += "PartitionName=p\n";
  EXPECT_NE(refusal_of(answers).find("line 2: partition 'p' is listed twice"), std::string::npos) << refusal_of(answers);
}

TEST(Reservations, NodesAndTimes) {
  const auto all = read_reservations(
      "ReservationName=maint StartTime=2026-11-22T10:00:00 EndTime=2026-11-22T12:00:00 Duration=02:00:00 Nodes=n[1-2] NodeCnt=2 "
      "PartitionName=(null) Flags=MAINT,SPEC_NODES State=INACTIVE\n"
      "ReservationName=licences StartTime=2026-11-22T10:00:00 Nodes=(null) State=ACTIVE\n"
      "ReservationName=course StartTime=2026-11-20T10:00:00 EndTime=2026-12-20T10:00:00 Nodes=n7 State=ACTIVE\n");
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].nodes, (std::vector<std::string>{"n1", "n2"}));
  const auto time = [](const char* words) { return parse_wall_clock(words); };
  EXPECT_FALSE(all[0].meets(time("2026-11-22T07:00:00"), Seconds{3 * 3600}));
  EXPECT_TRUE(all[0].meets(time("2026-11-22T07:00:01"), Seconds{3 * 3600}));
  EXPECT_TRUE(all[0].meets(time("2026-11-22T07:00:00"), std::nullopt)) << "a job without end";
  EXPECT_FALSE(all[0].meets(time("2026-11-22T12:00:00"), std::nullopt)) << "it is over";
  EXPECT_FALSE(all[0].meets(std::nullopt, std::nullopt)) << "no clock";
  EXPECT_TRUE(all[1].meets(std::nullopt, Seconds{60})) << "on now";
  EXPECT_TRUE(read_reservations("No reservations in the system\n").empty());
  EXPECT_THROW(read_reservations("ReservationName=x Nodes=n[1-\n"), Error);
}

TEST(Reservations, WallClock) {
  EXPECT_EQ(parse_wall_clock("1970-01-02T00:00:01")->value, 86401);
  for (const char* words : {"", "Unknown", "2026-13-01T00:00:00", "2026-11-22T10:00", "2026-11-22T10:00:00Z"})
    EXPECT_FALSE(parse_wall_clock(words)) << words;
  auto answers = one_node("idle", "IDLE");
  answers.configuration = "Configuration data as of 2026-11-22T07:00:00\nSLURM_VERSION = 22.05.8\n";
  EXPECT_EQ(read_slurm_cluster(answers).time, parse_wall_clock("2026-11-22T07:00:00"));
}

TEST(LimitsOfAccounts, WhatIsSetNearerToTheJobGoesFirst) {
  auto answers = one_node("idle", "IDLE");
  answers.accounts =
      "physics|physics||normal|cpu=128,gres/gpu=16,node=8|1-00:00:00||gres/gpu=32\nphysics|chemistry|||node=2|||\n"
      "physics|physics|p|high|gres/gpu=4|||\n";
  answers.qualities = "normal||2:00:00||\nhigh|gres/gpu=12||gres/gpu=6|node=100\npart|cpu=64|||\n";
  auto slurm_cluster = read_slurm_cluster(answers);
  const auto at = [&](const char* account, const char* qos) {
    return limits_for(slurm_cluster, slurm_cluster.partitions.at(0), account, qos);
  };
  EXPECT_EQ(at("", "").job.gres.at("gpu"), 12) << "the QOS of the association for this partition";
  EXPECT_EQ(at("", "").all.gres.at("gpu"), 6);
  EXPECT_EQ(at("", "").all.nodes, 100);
  EXPECT_EQ(at("chemistry", "").job.nodes, 2);
  EXPECT_FALSE(at("chemistry", "").job.time);
  EXPECT_EQ(at("chemistry", "normal").job.time->value, 7200);
  EXPECT_EQ(at("nobody", ""), JobLimits{});
  slurm_cluster.partitions[0].qos = "part";
  EXPECT_EQ(at("chemistry", "").job.cpus, 64);
  slurm_cluster.partitions[0].name = "other";
  EXPECT_EQ(at("", "").job.gres.at("gpu"), 16);
  EXPECT_EQ(at("", "").job.time->value, 7200) << "the QOS goes before the account";
}

TEST(LimitsOfAccounts, NoAccountingIsNoLimit) {
  EXPECT_TRUE(read_account_limits("You are not running a supported accounting_storage plugin\n").empty());
  EXPECT_TRUE(read_qos_limits("").empty());
  EXPECT_THROW(read_qos_limits("normal||2:00:00||\nhigh|x\n"), Error);
  tests::expect_refused([] { read_qos_limits("normal||2:00:00||\nhigh|cpu=many|||\n"); },
                        "sacctmgr show qos, line 2: 'cpu=many': expected a number");
  tests::expect_refused([] { read_qos_limits("normal||2:00:00||\nhigh|x\n"); }, "sacctmgr show qos, line 2: expected 5 columns");
  EXPECT_THROW(parse_tres_limits("cpu=many"), Error);
  EXPECT_THROW(parse_tres_limits("cpu"), Error);
  EXPECT_EQ(parse_tres_limits("mem=500G,billing=9,cpu=3").cpus, 3);
}

TEST(Jobs, ComponentsInOrder) {
  const auto jobs = read_jobs(
      "JobId=5 HetJobId=4 HetJobOffset=1 JobName=we ird JobState=PENDING Partition=v100 NumNodes=2-4 TresPerNode=gres:gpu:v100:2 "
      "Features=(null)\n"
      "JobId=4 HetJobId=4 HetJobOffset=0 JobName=x JobState=RUNNING Partition=a100 NumNodes=1 TresPerNode=N/A\n");
  ASSERT_EQ(jobs.size(), 2u);
  EXPECT_EQ(jobs[0].id, "4");
  EXPECT_EQ(jobs[1].fewest_nodes, 2);
  EXPECT_EQ(jobs[1].most_nodes, 4);
  EXPECT_EQ(jobs[1].gres, (std::vector<Gres>{{"gpu", "v100", 2}}));
  EXPECT_THROW(read_jobs("slurm_load_jobs error: Invalid job id specified\n"), Error);
}

}  // namespace
}  // namespace flotilla::slurm
