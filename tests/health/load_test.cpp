// Hours at work in seconds, and what is read of heat, energy and errors, from folders that are made up.
#include <gtest/gtest.h>

#include <filesystem>

#include "flotilla/base/clock.hpp"
#include "flotilla/health/energy.hpp"
#include "flotilla/health/other_work.hpp"
#include "flotilla/health/soak.hpp"
#include "flotilla/topology/topology.hpp"
#include "support/temporary_folder.hpp"
#include "support/waiting.hpp"
#include "wear.hpp"

namespace flotilla::health {
namespace {

using tests::TemporaryFolder;

/// A file of the kernel's, with the folders above it.
void kernel_says(const TemporaryFolder& sys, const std::string& file, const std::string& words) {
  std::filesystem::create_directories((sys / file).parent_path());
  sys.write(file, words);
}

TEST(Soak, EndsByTimeWithTheSameBitsOnAllThreads) {
  const auto threads = static_cast<std::int64_t>(topology::this_node().usable.size());
  int told = 0;
  Seconds length;
  const auto attempt = [&](Seconds wanted) {
    SoakTest test;
    test.length = length = wanted;
    told = 0;
    test.progress = [&](const bench::Soak&) { ++told; };
    return health::soak(test);
  };
  // So long that every thread has made a step.
  const auto soak =
      tests::with_deadlines(attempt, [&](const bench::Soak& one) { return one.steps < threads || told < 2; }, {{2.5}, {20}, {160}});
  EXPECT_EQ(soak.ended, "time");
  EXPECT_GE(soak.lasted, length);
  EXPECT_EQ(soak.wrong_steps, 0) << soak.wrong.front().digest << ", not " << soak.wrong.front().expected;
  EXPECT_GE(soak.steps, threads);
  EXPECT_GE(told, 2);
  EXPECT_FALSE(soak.windows.empty());
  for (const auto& window : soak.windows) EXPECT_LE(window.others, 1);
}

TEST(Soak, EndsByASignalsWord) {
  SoakTest test;
  test.length = {3600};
  const Seconds end = now() + Seconds{0.5};
  test.stopped = [&] { return now() < end ? std::nullopt : std::optional<std::string>{"SIGTERM"}; };
  const auto soak = health::soak(test);
  EXPECT_EQ(soak.ended, "SIGTERM");
  EXPECT_LT(soak.lasted, test.length);
}

TEST(OtherWork, OfAMachineThatWorkedForOthers) {
  const TemporaryFolder proc;
  proc.write("stat", "cpu 100 0 100 1000 0 0 0 0 0 0\ncpu0 100 0 100 1000 0 0 0 0 0 0\n");
  const OtherWork work{proc.path()};
  EXPECT_FALSE(work.share().has_value()) << "no time has passed";
  proc.write("stat", "cpu 500100 0 100100 1001000 0 0 0 400000 0 0\n");
  ASSERT_TRUE(work.share().has_value());
  EXPECT_NEAR(*work.share(), 0.5, 0.01) << "stolen time counts, this test's own does not";
  EXPECT_FALSE(OtherWork{proc / "nowhere"}.share().has_value());
}

TEST(OtherWork, WhatIsLeftOutDoesNotCount) {
  const TemporaryFolder proc;
  proc.write("stat", "cpu 100 0 100 1000 0 0 0 0 0 0\n");
  OtherWork work{proc.path()};
  work.leave_out([&] { proc.write("stat", "cpu 500100 0 100 501000 0 0 0 0 0 0\n"); });
  EXPECT_FALSE(work.share().has_value()) << "no other time has passed";
  proc.write("stat", "cpu 600100 0 100 801000 0 0 0 0 0 0\n");
  ASSERT_TRUE(work.share().has_value());
  EXPECT_NEAR(*work.share(), 0.25, 0.01);
}

TEST(Energy, IsCountedAcrossTheEndOfACounter) {
  const TemporaryFolder sys;
  kernel_says(sys, "class/powercap/intel-rapl:0/name", "package-0\n");
  kernel_says(sys, "class/powercap/intel-rapl:0/energy_uj", "9000000\n");
  kernel_says(sys, "class/powercap/intel-rapl:0/max_energy_range_uj", "10000000\n");
  kernel_says(sys, "class/powercap/intel-rapl:0:0/name", "core\n");
  kernel_says(sys, "class/powercap/intel-rapl:0:0/energy_uj", "5\n");
  kernel_says(sys, "class/powercap/intel-rapl:0:1/name", "dram\n");
  kernel_says(sys, "class/powercap/intel-rapl:0:1/energy_uj", "1000000\n");
  kernel_says(sys, "class/powercap/intel-rapl:1/name", "psys\n");
  kernel_says(sys, "class/powercap/intel-rapl:1/energy_uj", "7\n");
  EnergyMeter meter{sys.path()};
  EXPECT_TRUE(meter.counts());
  EXPECT_NE(meter.words().find("RAPL"), std::string::npos);
  kernel_says(sys, "class/powercap/intel-rapl:0/energy_uj", "2000000\n");
  kernel_says(sys, "class/powercap/intel-rapl:0:0/energy_uj", "900000\n");
  kernel_says(sys, "class/powercap/intel-rapl:0:1/energy_uj", "1500000\n");
  meter.sample();
  EXPECT_NEAR(meter.joules(), 3.5, 1e-9);
}

TEST(Energy, SaysWhyItIsNotKnown) {
  const TemporaryFolder sys;
  const EnergyMeter none{sys.path()};
  if (none.counts()) GTEST_SKIP() << "a GPU of this machine tells its power";
  EXPECT_NE(none.words().find("no RAPL"), std::string::npos) << none.words();
}

TEST(Wear, IsReadWhereTheKernelTellsIt) {
  const TemporaryFolder sys;
  EXPECT_FALSE(wear_counters(sys.path()).throttled.has_value());
  EXPECT_FALSE(wear_counters(sys.path()).corrected.has_value());
  EXPECT_EQ(processor_temperature(sys.path()), 0);
  EXPECT_EQ(clock_of({0, 1}, sys.path()), 0);
  for (const int cpu : {0, 1}) {
    const auto folder = "devices/system/cpu/cpu" + std::to_string(cpu);
    kernel_says(sys, folder + "/thermal_throttle/core_throttle_count", cpu == 0 ? "2\n" : "3\n");
    kernel_says(sys, folder + "/thermal_throttle/package_throttle_count", "10\n");
    kernel_says(sys, folder + "/cpufreq/scaling_cur_freq", cpu == 0 ? "2000000\n" : "3000000\n");
  }
  kernel_says(sys, "devices/system/edac/mc/mc0/ce_count", "4\n");
  kernel_says(sys, "devices/system/edac/mc/mc1/ce_count", "1\n");
  kernel_says(sys, "devices/system/edac/mc/mc0/ue_count", "0\n");
  kernel_says(sys, "class/hwmon/hwmon0/name", "nvme\n");
  kernel_says(sys, "class/hwmon/hwmon0/temp1_input", "90000\n");
  kernel_says(sys, "class/hwmon/hwmon1/name", "k10temp\n");
  kernel_says(sys, "class/hwmon/hwmon1/temp1_input", "61500\n");
  kernel_says(sys, "class/hwmon/hwmon1/temp3_input", "58000\n");
  const auto counters = wear_counters(sys.path());
  EXPECT_EQ(counters.throttled, 15);
  EXPECT_EQ(counters.corrected, 5);
  EXPECT_EQ(counters.uncorrected, 0);
  EXPECT_DOUBLE_EQ(processor_temperature(sys.path()), 61.5);
  EXPECT_DOUBLE_EQ(clock_of({0, 1}, sys.path()), 2.5e9);
}

}  // namespace
}  // namespace flotilla::health
