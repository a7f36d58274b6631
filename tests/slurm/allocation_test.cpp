#include "flotilla/slurm/allocation.hpp"

#include <gtest/gtest.h>

#include "flotilla/base/error.hpp"
#include "flotilla/slurm/time.hpp"
#include "support/refusal.hpp"

namespace flotilla::slurm {
namespace {

using Words = std::vector<std::string>;

/// What Slurm 22.05 gave a task on n3 of a job over three partitions; the partition without suffix is another component's, as seen.
const Words het{"PATH=/usr/bin",
                "SLURM_JOB_ID=41",
                "SLURM_HET_SIZE=3",
                "SLURM_JOB_ID_HET_GROUP_0=41",
                "SLURM_JOB_ID_HET_GROUP_1=42",
                "SLURM_JOB_ID_HET_GROUP_2=43",
                "SLURM_JOB_NODELIST_HET_GROUP_0=n[1-2]",
                "SLURM_JOB_NODELIST_HET_GROUP_1=n3",
                "SLURM_JOB_NODELIST_HET_GROUP_2=n5",
                "SLURM_JOB_PARTITION_HET_GROUP_0=a100",
                "SLURM_JOB_PARTITION_HET_GROUP_1=v100",
                "SLURM_JOB_PARTITION_HET_GROUP_2=cpu",
                "SLURM_JOB_NODELIST=n[1-3,5]",
                "SLURM_JOB_PARTITION=a100",
                "SLURMD_NODENAME=n3",
                "SLURM_PROCID=2"};

Words with(Words environment, const std::string& entry) {
  environment.insert(environment.begin(), entry);  // the first of a name counts
  return environment;
}

TEST(Allocation, NothingOutsideOfAJob) {
  EXPECT_FALSE(read_allocation({}));
  EXPECT_FALSE(read_allocation(Words{"SLURM_CONF=/etc/slurm.conf", "SLURM_JOB_ID="}));
}

TEST(Allocation, PlainJob) {
  const auto found = read_allocation(Words{"SLURM_JOB_ID=7", "SLURM_JOB_PARTITION=a100", "SLURM_JOB_NODELIST=n[1-2]", "SLURMD_NODENAME=n2",
                                           "SLURM_RESTART_COUNT=3", "SLURM_JOB_END_TIME=1790000000"});
  ASSERT_TRUE(found);
  EXPECT_EQ(found->job, "7");
  EXPECT_FALSE(found->heterogeneous());
  EXPECT_EQ(found->restarts, 3);
  EXPECT_EQ(found->ends_at, 1790000000.0);
  EXPECT_EQ(found->components, (std::vector<Component>{{"7", "a100", {"n1", "n2"}}}));
  EXPECT_EQ(partition_here(*found), "a100");
}

TEST(Allocation, ComponentComesFromTheNodeLists) {
  const auto found = read_allocation(het);
  ASSERT_TRUE(found);
  EXPECT_TRUE(found->heterogeneous());
  EXPECT_EQ(found->restarts, 0) << "unset on the first run";
  EXPECT_EQ(component_of(*found, "n2"), 0u);
  EXPECT_EQ(component_of(*found, "n3"), 1u);
  EXPECT_EQ(component_of(*found, "n5"), 2u);
  EXPECT_FALSE(component_of(*found, "n6"));
  EXPECT_EQ(partition_here(*found), "v100") << "not SLURM_JOB_PARTITION, which says a100";
  EXPECT_EQ(partition_here(*read_allocation(with(het, "SLURMD_NODENAME=n9"))), "");
  EXPECT_FALSE(component_of(*read_allocation(with(het, "SLURM_JOB_NODELIST_HET_GROUP_2=n[3-5]")), "n3")) << "in two: cannot be told";
}

TEST(Allocation, HostileValuesAreRefusedByName) {
  for (const std::string bad : {"SLURM_HET_SIZE=-1", "SLURM_HET_SIZE=1e9", "SLURM_HET_SIZE=99999999999999999999", "SLURM_HET_SIZE=2000",
                                "SLURM_RESTART_COUNT=x", "SLURM_JOB_END_TIME=tomorrow", "SLURM_JOB_ID=1\n2", "SLURMD_NODENAME=a b",
                                "SLURM_JOB_NODELIST_HET_GROUP_1=n[1-", "SLURM_JOB_PARTITION_HET_GROUP_1=a\tb"}) {
    const auto name = bad.substr(0, bad.find('='));
    SCOPED_TRACE(bad);
    const std::string message = tests::refusal([&] { read_allocation(with(het, bad)); });
    EXPECT_EQ(message.rfind(name + " is ", 0), 0u) << message;
  }
}

TEST(Time, AsSlurmWritesIt) {
  const auto seconds = [](const char* text) {
    const auto time = parse_time(text);
    return time ? time->value : -1;
  };
  EXPECT_EQ(seconds("30"), 1800);
  EXPECT_EQ(seconds("2:05"), 125);
  EXPECT_EQ(seconds("0:00"), 0);
  EXPECT_EQ(seconds("1:00:01"), 3601);
  EXPECT_EQ(seconds("2-3"), (48 + 3) * 3600);
  EXPECT_EQ(seconds("1-00:30"), 86400 + 1800);
  EXPECT_EQ(seconds("1-00:00:09"), 86409);
  for (const char* none : {"", "UNLIMITED", "INVALID", "NOT_SET", "N/A", ":", "1:", "1-", "-1", "1:2:3:4", "1.5", "0x10", "9999999999"})
    EXPECT_EQ(seconds(none), -1) << none;
}

}  // namespace
}  // namespace flotilla::slurm
