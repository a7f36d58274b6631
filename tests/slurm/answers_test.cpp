#include "flotilla/slurm/slurm_cluster.hpp"

#include <gtest/gtest.h>

#include "answer_fields.hpp"
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

/// What node_state_string() (sinfo %T) and node_state_flag_string() (scontrol) write of one node; in 20.02 the flags "+POWER", "+DRAIN".
TEST(PrintedBySlurm, NodeStates) {
  struct Row {
    const char *state, *flags, *right;
  };
  for (const auto& [state, flags, right] : std::initializer_list<Row>{
           {"idle", "IDLE", "idle"},
           {"idle~", "IDLE+CLOUD+POWER", "idle"},   // 20.02: asleep
           {"idle~", "IDLE+POWERED_DOWN", "idle"},  // 21.08
           {"idle", "IDLE+DYNAMIC_NORM", "idle"},   // 22.05: a node that came by itself
           {"mixed", "MIXED+CLOUD", "shared"},
           {"mixed+", "MIXED+COMPLETING", "later"},
           {"allocated+", "ALLOCATED+COMPLETING", "later"},  // "ALLOCATED+" of node_state_string()
           {"completing*", "IDLE+COMPLETING+NOT_RESPONDING", "unusable"},
           {"perfctrs", "IDLE+PERFCTRS", "later"},  // NODE_STATE_NET: performance counters
           {"planned", "IDLE+PLANNED", "later"},
           {"mixed-", "MIXED+PLANNED", "later"},
           {"idle!", "IDLE+POWER_DOWN", "later"},  // asked to power down
           {"idle%", "IDLE+POWERING_DOWN", "later"},
           {"idle@", "IDLE+REBOOT_REQUESTED", "later"},
           {"idle^", "IDLE+REBOOT_ISSUED", "booting"},
           {"idle#", "IDLE+POWERING_UP", "booting"},
           {"idle", "IDLE+POWER_UP", "booting"},  // asked to power up
           {"reserved", "IDLE+RESERVED", "unusable"},
           {"idle$", "IDLE+MAINTENANCE", "unusable"},
           {"mixed$", "MIXED+MAINTENANCE", "unusable"},
           {"draining", "MIXED+DRAIN", "unusable"},
           {"drained*", "IDLE*+DRAIN", "unusable"},  // 20.02
           {"failing", "ALLOCATED+FAIL", "unusable"},
           {"fail", "IDLE+FAIL", "unusable"},
           {"inval", "IDLE+DRAIN+INVALID_REG", "unusable"},  // 21.08
           {"blocked", "IDLE+BLOCKED", "unusable"},          // 23.11: another job has the whole topology block
           {"future", "FUTURE+DYNAMIC_FUTURE", "unusable"},
           {"unknown*", "UNKNOWN+NOT_RESPONDING", "unusable"},
           {"down~", "DOWN+CLOUD+POWERED_DOWN", "unusable"},
           {"error", "ERROR", "unusable"},
       }) {
    const auto node = read_slurm_cluster(one_node(state, flags)).nodes.at(0);
    const char* is = !node.usable ? "unusable" : node.booting ? "booting" : node.idle ? "idle" : node.shared ? "shared" : "later";
    EXPECT_STREQ(is, right) << state << " " << flags;
  }
}

/// gres_node_config_pack()'s words in sinfo %G, gres_get_node_used() in GresUsed: "(null)" for no type until 24.05, shares by card.
TEST(PrintedBySlurm, Gres) {
  struct Row {
    const char* words;
    std::vector<Gres> right;
    int shared;
  };
  for (const auto& [words, right, shared] : std::initializer_list<Row>{
           {"gpu:(null):0(IDX:N/A)", {{"gpu", "", 0}}, 0},
           {"gpu:(null):16(IDX:0-15)", {{"gpu", "", 16}}, 0},
           {"gpu:a100:3(IDX:0,2-3),gpu:t4:0(IDX:N/A)", {{"gpu", "a100", 3}, {"gpu", "t4", 0}}, 0},
           {"gpu:h100:8(S:0-1),gpu:h100_1g.10gb:7(S:0)", {{"gpu", "h100", 8}, {"gpu", "h100_1g.10gb", 7}}, 0},
           {"gpu:4,shard:(null):3(1/8,0/8,2/8,0/8)", {{"gpu", "", 4}, {"shard", "", 3}}, 2},  // 22.05
           {"gpu:0,mps:100(100/100,0/100)", {{"gpu", "", 0}, {"mps", "", 100}}, 1},           // 19.05
           {"gpu:l40s:2(IDX:1,3),shard:l40s:0(0/8,0/8,0/8,0/8)", {{"gpu", "l40s", 2}, {"shard", "l40s", 0}}, 0},
           {"nic:mlx5:2(S:0),tmpdisk:3.50T", {{"nic", "mlx5", 2}, {"tmpdisk", "", 3848290697216}}, 0},
           {"craynetwork:4,hbm:0", {{"craynetwork", "", 4}, {"hbm", "", 0}}, 0},
           {"gpu:gtx1080:2(S:0-1),ram:no_consume:128G", {{"gpu", "gtx1080", 2}, {"ram", "", std::int64_t{128} << 30}}, 0},
           {"one_sg,gpu:a40", {{"one_sg", "", 1}, {"gpu", "a40", 1}}, 0},
       }) {
    EXPECT_EQ(parse_gres(words), right) << words;
    EXPECT_EQ(gpus_in_shares(words), shared) << words;
  }
}

/// slurm_sprint_node_table(): CPUEfctv since 22.05; CoreSpecCount, CPUSpecList and MemSpecLimit before too; sinfo's %c by
/// convert_num_unit().
TEST(PrintedBySlurm, CpusAndMemory) {
  struct Row {
    const char *in_sinfo, *details;
    int cpus, idle, threads;
    std::int64_t idle_mebibytes;
  };
  for (const auto& row : std::initializer_list<Row>{
           {"64", "CPUAlloc=8 CPUTot=64 CPULoad=0.02 RealMemory=512000 AllocMem=64000", 64, 56, 1, 448000},  // 20.02
           {"128", "CoresPerSocket=32 CPUAlloc=0 CPUTot=128 AllocMem=0 Sockets=2 CoreSpecCount=2 ThreadsPerCore=2", 124, 124, 2, 512000},
           {"64", "CPUAlloc=0 CPUTot=64 CPUSpecList=0-1,32 MemSpecLimit=12000 ThreadsPerCore=1", 61, 61, 1, 500000},  // 21.08
           {"128", "CoresPerSocket=64 CPUAlloc=14 CPUEfctv=112 CPUTot=128 CoreSpecCount=8 CPUSpecList=0,8,16 Sockets=1 ThreadsPerCore=2",
            112, 98, 2, 512000},  // LUMI-G: cores are kept in two ways
           {"64", "CoresPerSocket=32 CPUAlloc=0 CPUEfctv=63 CPUTot=64 Sockets=2 CoreSpecCount=1 ThreadsPerCore=2", 63, 63, 1, 512000},
           {"1.50K", "CPUAlloc=512 CPUEfctv=1536 CPUTot=1536 CPULoad=3.5", 1536, 1024, 1, 512000},
           {"2K", "", 2048, 6, 1, 512000},
           {"96", "CPUAlloc=96 CPUEfctv=96 CPUTot=96 AllocMem=512000", 96, 0, 1, 0},
           {"96", "CPUAlloc=0 CPUTot=96 CPUSpecList=(null) MemSpecLimit=600000", 96, 96, 1, 0},
       }) {
    auto answers = one_node("mixed", "MIXED");
    answers.nodes = flotilla::text("n1|p|up|mixed|", row.in_sinfo, "|512000|gpu:a100:4|(null)|2/6/0/8\n");
    answers.details =
        flotilla::text("NodeName=n1 Arch=x86_64 ", row.details, " State=MIXED Owner=N/A Reason=CPUTot=1 [root@2026-11-28T00:00:00]\n");
    const auto node = read_slurm_cluster(answers).nodes.at(0);
    EXPECT_EQ(node.cpus, row.cpus) << row.details;
    EXPECT_EQ(node.idle_cpus, row.idle) << row.details;
    EXPECT_EQ(node.threads, row.threads) << row.details;
    EXPECT_EQ(node.idle_memory.count >> 20, row.idle_mebibytes) << row.details;
  }
}

/// slurm_sprint_partition_info() of 20.02 to 26.05.
TEST(PrintedBySlurm, Partitions) {
  SlurmNode two_sockets;
  two_sockets.sockets = 2, two_sockets.cpus = 64;
  const auto partition = [](const std::string& words) {
    auto answers = one_node("idle", "IDLE");
    answers.configuration =
        "DefMemPerCPU            = 2000\nSelectTypeParameters    = CR_CORE_MEMORY\nJobDefaults             = DefCpuPerGPU=8\n";
    answers.partitions = "PartitionName=p " + words + " State=UP\n";
    return read_slurm_cluster(answers).partitions.at(0);
  };
  EXPECT_TRUE(partition("OverSubscribe=EXCLUSIVE").exclusive);
  EXPECT_TRUE(partition("ExclusiveUser=YES OverSubscribe=YES:4").exclusive);
  EXPECT_TRUE(partition("Exclusive=TOPO OverSubscribe=NO").exclusive) << "26.05";
  EXPECT_FALSE(partition("ExclusiveUser=NO ExclusiveTopo=NO OverSubscribe=FORCE:2").exclusive) << "24.05";
  EXPECT_EQ(partition("DefaultTime=NONE MaxTime=UNLIMITED").limit, std::nullopt);
  EXPECT_EQ(partition("MaxTime=14-00:00:00").limit->value, 14 * 86400);
  EXPECT_EQ(partition("MaxTime=00:30:00 DefaultTime=00:05:00").standard_time->value, 300);
  EXPECT_EQ(partition("MaxNodes=UNLIMITED MinNodes=0").most_nodes, std::nullopt);
  EXPECT_EQ(partition("MaxNodes=16 MinNodes=2").fewest_nodes, 2);
  EXPECT_EQ(partition("MaxCPUsPerNode=UNLIMITED MaxCPUsPerSocket=UNLIMITED").socket_cpus, std::nullopt) << "23.02";
  EXPECT_EQ(cpus_for(partition("MaxCPUsPerSocket=20"), two_sockets), 40);
  EXPECT_EQ(cpus_for(partition("MaxCPUsPerNode=44 MaxCPUsPerSocket=32"), two_sockets), 44);
  EXPECT_EQ(partition("DefMemPerNode=UNLIMITED MaxMemPerNode=UNLIMITED").cpu_memory->count, std::int64_t{2000} << 20) << "the site's";
  EXPECT_EQ(partition("DefMemPerCPU=1930 MaxMemPerNode=UNLIMITED").cpu_memory->count, std::int64_t{1930} << 20);
  EXPECT_EQ(partition("DefMemPerNode=248000").cpu_memory, std::nullopt);
  const auto most = [&](const char* words, int cpus) {
    SlurmNode node;
    node.memory = {std::int64_t{512000} << 20};
    return memory_for(partition(words), node, cpus).count >> 20;
  };
  EXPECT_EQ(most("MaxMemPerNode=UNLIMITED", 64), 512000);
  EXPECT_EQ(most("MaxMemPerNode=248000", 64), 248000);
  EXPECT_EQ(most("MaxMemPerNode=900000", 64), 512000);
  EXPECT_EQ(most("MaxMemPerCPU=4000", 64), 256000);
  EXPECT_EQ(most("MaxMemPerCPU=4000 SelectTypeParameters=CR_CORE", 64), 512000) << "memory is not given out";
  EXPECT_EQ(most("MaxMemPerCPU=900000000000", 64), 512000);
  EXPECT_TRUE(partition("SelectTypeParameters=NONE").memory_counts);
  EXPECT_FALSE(partition("SelectTypeParameters=CR_SOCKET").memory_counts) << "a partition's own";
  EXPECT_EQ(partition("JobDefaults=(null)").gpu_cpus, 8) << "the site's";
  EXPECT_EQ(partition("JobDefaults=DefCpuPerGPU=12,DefMemPerGPU=65536").gpu_memory->count, std::int64_t{64} << 30);
  EXPECT_EQ(partition("QoS=N/A").qos, "");
  EXPECT_EQ(partition("AllowAccounts=Physics,chem DenyQos=x").accounts, (std::vector<std::string>{"physics", "chem"}));
  EXPECT_EQ(partition("DenyAccounts=none AllowQos=ALL").accounts, std::vector<std::string>{});
  EXPECT_EQ(partition("AllocNodes=login[1-2],head").submit_hosts, (std::vector<std::string>{"login1", "login2", "head"}));
  EXPECT_EQ(partition("PreemptMode=OFF GraceTime=0").preemptible(), false);
  EXPECT_EQ(partition("PreemptMode=GANG,SUSPEND GraceTime=120").grace.value, 120);
  for (const char* closed : {"State=DOWN", "State=DRAIN", "State=INACTIVE", "RootOnly=YES", "ReqResv=YES"})
    EXPECT_FALSE(partition(closed).open) << closed;
}

/// print_fields_str() of sacctmgr --parsable2 for users' associations and QOS; TRES strings of slurmdb_make_tres_string().
TEST(PrintedBySlurm, Limits) {
  struct Row {
    const char* tres;
    std::optional<int> nodes, cpus, gpus;
  };
  for (const auto& row : std::initializer_list<Row>{{"", {}, {}, {}},
                                                    {"cpu=640,gres/gpu=32,mem=4T,node=16", 16, 640, 32},
                                                    {"billing=100000,energy=18446744073709551615", {}, {}, {}},
                                                    {"gres/gpu:a100=4,gres/gpu=8", {}, {}, 8},
                                                    {"GRES/GPU=4,CPU=1K", {}, 1024, 4},
                                                    {"license/matlab=2,bb/datawarp=10G,fs/disk=1T,node=2", 2, {}, {}},
                                                    {"gres/shard=16,gres/gpumem=80G,node=0", 0, {}, {}}}) {
    const auto limits = parse_tres_limits(row.tres);
    EXPECT_EQ(limits.nodes, row.nodes) << row.tres;
    EXPECT_EQ(limits.cpus, row.cpus) << row.tres;
    const auto gpus = limits.gres.find("gpu");
    EXPECT_EQ(gpus == limits.gres.end() ? std::nullopt : std::optional{gpus->second}, row.gpus) << row.tres;
  }
  EXPECT_EQ(read_account_limits("a|a||||1-12:00:00||\n").at(0).job.time->value, 36 * 3600);
  EXPECT_EQ(read_account_limits("a|a|||||4|\n").at(0).job.nodes, 4) << "MaxNodes has a column of its own";
  EXPECT_EQ(read_account_limits("a|a||n1,n2||||\na|a|gpu|n3||||\n").size(), 2u) << "one for a partition beside one for all";
  EXPECT_EQ(read_account_limits("a|b|||node=2|||\na|b|||node=8|||\n").at(0).job.nodes, 8) << "of two clusters";
  EXPECT_EQ(read_qos_limits("normal||UNLIMITED||\n").at(0).job.time, std::nullopt);
}

/// slurm_sprint_reservation_info(), and TRESBillingWeights as slurm.conf(5) gives them.
TEST(PrintedBySlurm, ReservationsAndWeights) {
  const auto one = [](const std::string& words) { return read_reservations("ReservationName=r " + words + " State=INACTIVE\n"); };
  EXPECT_EQ(one("StartTime=2026-12-01T08:00:00 EndTime=2026-12-01T18:00:00 Nodes=n[01-02],g7 NodeCnt=3").at(0).nodes.size(), 3u);
  EXPECT_TRUE(one("StartTime=2026-12-01T08:00:00 Nodes=(null) NodeCnt=0 Flags=ANY_NODES,LICENSE_ONLY").empty());
  EXPECT_TRUE(one("StartTime=Tomorr 08:00 EndTime=Unknown Nodes=n1").at(0).unreadable);
  EXPECT_FALSE(one("StartTime=2026-12-01T08:00:00 EndTime=2027-12-01T08:00:00 Nodes=n1 Flags=DAILY,REPLACE_DOWN").at(0).active);
  EXPECT_TRUE(read_reservations(
                  "ReservationName=m StartTime=2026-11-01T08:00:00 Nodes=n1 Flags=MAINT,IGNORE_JOBS State=ACTIVE BurstBuffer=(null)\n")
                  .at(0)
                  .active);
  EXPECT_EQ(parse_billing_weights("CPU=1.0,Mem=0.25G,GRES/gpu=2.0,license/matlab=1.5").gibibyte, 0.25);
  EXPECT_EQ(parse_billing_weights("cpu=1.0,mem=1T").gibibyte, 1.0 / 1024);
  EXPECT_EQ(parse_billing_weights("gres/GPU:A100=64,Gres/Gpu=1").gres.at("gpu:a100"), 64);
  EXPECT_EQ(parse_billing_weights("BB/datawarp=1.0G,Energy=0,FS/Disk=2,GRES/shard=0.5").gres.size(), 1u);
  EXPECT_EQ(parse_billing_weights("CPU=.5,Node=1e1").node, 10);
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
