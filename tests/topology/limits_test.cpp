#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "flotilla/topology/topology.hpp"
#include "support/temporary_folder.hpp"

namespace flotilla::topology::limits_test {
namespace {

using flotilla::Bytes;
using flotilla::topology::ControlGroupLimits;
using flotilla::topology::read_limits;
namespace fs = std::filesystem;

/// A folder that looks like /sys/fs/cgroup.
class LimitsTest : public ::testing::Test {
 protected:
  void put(const std::string& path, const std::string& contents) {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream{root_ / path} << contents << "\n";
  }
  ControlGroupLimits read(const std::string& membership) { return read_limits(membership, root_.path().string()); }
  flotilla::tests::TemporaryFolder root_;
};

TEST_F(LimitsTest, NothingMountedLimitsNothing) {
  EXPECT_EQ(read("0::/\n"), ControlGroupLimits{});
  EXPECT_EQ(read("4:memory:/a/b\n1:cpu,cpuacct:/a\n"), ControlGroupLimits{});
  EXPECT_EQ(read(""), ControlGroupLimits{});
  EXPECT_EQ(read("rubbish\n:::\n0:nothing\n0::relative\n"), ControlGroupLimits{});
}

TEST_F(LimitsTest, Version2TakesTheTightestOnTheWayUp) {
  put("job/cpu.max", "600000 100000");
  put("job/step/cpu.max", "max 100000");
  put("job/memory.max", "8000");
  put("job/memory.current", "3000");
  put("job/memory.stat", "anon 1\ninactive_file 1000\nactive_file 5");
  put("job/step/memory.max", "max");
  const ControlGroupLimits limits = read("0::/job/step\n");
  EXPECT_DOUBLE_EQ(limits.cpus, 6.0);
  EXPECT_EQ(limits.memory, Bytes{8000});
  EXPECT_EQ(limits.memory_used, Bytes{2000}) << "cache that can be dropped is not in use";
}

TEST_F(LimitsTest, Version2InnerLimitCanBeTighter) {
  put("job/cpu.max", "600000 100000");
  put("job/step/cpu.max", "150000 100000");
  EXPECT_DOUBLE_EQ(read("0::/job/step\n").cpus, 1.5);
}

TEST_F(LimitsTest, Version1Limits) {
  put("cpu,cpuacct/slurm/job_1/cpu.cfs_quota_us", "400000");
  put("cpu,cpuacct/slurm/job_1/cpu.cfs_period_us", "100000");
  put("cpu,cpuacct/cpu.cfs_quota_us", "-1");
  put("cpu,cpuacct/cpu.cfs_period_us", "100000");
  put("memory/slurm/job_1/memory.limit_in_bytes", "1000000");
  put("memory/slurm/job_1/memory.usage_in_bytes", "500000");
  put("memory/slurm/job_1/memory.stat", "cache 7\ntotal_inactive_file 100000");
  put("memory/memory.limit_in_bytes", "9223372036854771712");
  const ControlGroupLimits limits = read("4:memory:/slurm/job_1\n2:cpu,cpuacct:/slurm/job_1\n0::/\n");
  EXPECT_DOUBLE_EQ(limits.cpus, 4.0);
  EXPECT_EQ(limits.memory, Bytes{1000000});
  EXPECT_EQ(limits.memory_used, Bytes{400000});
}

TEST_F(LimitsTest, Version1ControllerMountedAlone) {
  put("cpu/a/cpu.cfs_quota_us", "50000");
  put("cpu/a/cpu.cfs_period_us", "100000");
  EXPECT_DOUBLE_EQ(read("1:cpu:/a\n").cpus, 0.5);
}

TEST_F(LimitsTest, AGroupOutsideTheNamespaceIsNotFollowed) {
  put("cpu.max", "200000 100000");
  put("job/cpu.max", "100000 100000");
  EXPECT_DOUBLE_EQ(read("0::/../job\n").cpus, 2.0);
}

}  // namespace
}  // namespace flotilla::topology::limits_test
