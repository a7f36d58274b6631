#include "flotilla/files/measurements.hpp"

#include <gtest/gtest.h>

#include "support/refusal.hpp"
#include "support/temporary_folder.hpp"

/// The seeds of the fuzzer are the examples.
namespace flotilla::files::measurements_test {
namespace {

using bench::Series;
using tests::refusal;
using tests::TemporaryFolder;

std::filesystem::path example(const char* name) { return std::filesystem::path{FLOTILLA_INTACT} / name; }

std::vector<std::string> quantities(const std::vector<Series>& all) {
  std::vector<std::string> names;
  for (const auto& series : all) names.push_back(series.program + ": " + series.quantity);
  return names;
}

TEST(NcclTests, TimesAndBusBandwidthsInBothPlacements) {
  const auto all = read_nccl_tests(example("nccl.json"));
  EXPECT_EQ(quantities(all),
            (std::vector<std::string>{"all_reduce_perf: time, out of place", "all_reduce_perf: bus bandwidth, out of place",
                                      "all_reduce_perf: time, in place", "all_reduce_perf: bus bandwidth, in place"}));
  EXPECT_EQ(all[0].version, "NCCL 2.21.5");
  EXPECT_EQ(all[0].hosts, (std::vector<std::string>{"n1", "n2"}));
  EXPECT_EQ(all[0].unit, bench::unit::seconds);
  EXPECT_DOUBLE_EQ(all[0].points[0].value, 12.5e-6);
  EXPECT_EQ(all[1].points[1].size, Bytes{1 << 20});
  EXPECT_DOUBLE_EQ(all[1].points[1].value, 45.5e9);
  EXPECT_EQ(all[2].points.size(), 1u) << "nan is no measurement";
  EXPECT_EQ(all[3].fault, "");
}

TEST(NcclTests, WrongValuesAreAFault) {
  const TemporaryFolder folder;
  const auto path = folder.write(
      "wrong.json",
      R"({"results": [{"size": 8, "out_of_place": null, "in_place": {"time": 1, "bus_bw": 2}}], "out_of_bounds": {"count": 3}})");
  const auto all = read_nccl_tests(path);
  EXPECT_EQ(quantities(all), (std::vector<std::string>{"nccl-tests: time, in place", "nccl-tests: bus bandwidth, in place"}));
  EXPECT_EQ(all[0].fault, "3 wrong values");
}

TEST(NcclTests, WithoutAMeasurementItIsRefused) {
  const TemporaryFolder folder;
  const auto path = folder.write("empty.json", R"({"results": [{"size": 8, "out_of_place": null, "in_place": null}]})");
  tests::expect_contains(refusal([&] { read_nccl_tests(path); }), "-J");
  tests::expect_contains(refusal([&] { read_nccl_tests(folder.write("x.json", R"({"results": [{"size": -8}]})")); }), "/results");
}

TEST(Nvbandwidth, ASeriesForEachTestThatRanAPointForEachCell) {
  const auto all = read_nvbandwidth(example("nvbandwidth.json"));
  ASSERT_EQ(all.size(), 4u) << "waived tests are no measurements";
  EXPECT_EQ(all[0].quantity, "host_to_device_memcpy_ce");
  EXPECT_EQ(all[0].version, "v0.7");
  EXPECT_EQ(all[0].hosts, std::vector<std::string>{"n1"});
  EXPECT_EQ(all[1].points, (std::vector<bench::SeriesPoint>{{{}, "row 0, column 1", 395e9}, {{}, "row 1, column 0", 396e9}}));
  EXPECT_EQ(all[2].unit, bench::unit::seconds);
  EXPECT_DOUBLE_EQ(all[2].points[1].value, 655.5e-9);
  EXPECT_EQ(all[3].fault, "out of memory");
}

TEST(Nvbandwidth, ACellThatIsNoNumberIsRefusedWithItsPlace) {
  const TemporaryFolder folder;
  const auto path =
      folder.write("bad.json", R"({"nvbandwidth": {"testcases": [{"name": "a", "status": "Passed", "bandwidth_description": "",
    "bandwidth_matrix": [["1", "fast"]]}]}})");
  tests::expect_contains(refusal([&] { read_nvbandwidth(path); }), "/nvbandwidth/testcases/0/bandwidth_matrix/0/1");
}

TEST(Osu, LogsOfSeveralBenchmarksAfterEachOther) {
  const auto all = read_osu(example("osu.txt"));
  EXPECT_EQ(quantities(all), (std::vector<std::string>{"osu_latency: latency", "osu_bw: one way", "osu_bibw, MPI-CUDA: both ways",
                                                       "osu_allreduce: all-reduce"}));
  EXPECT_EQ(all[0].version, "7.5");
  EXPECT_EQ(all[0].points.size(), 2u);
  EXPECT_DOUBLE_EQ(all[0].points[0].value, 1.25e-6);
  EXPECT_DOUBLE_EQ(all[1].points[1].value, 12254.16e6);
  EXPECT_EQ(all[2].points.size(), 1u) << "rows of a benchmark that is not read count nowhere";
  EXPECT_DOUBLE_EQ(all[3].points[0].value, 9.5e-6);
}

TEST(Osu, ARowWithoutAValueIsRefusedWithItsLine) {
  const TemporaryFolder folder;
  tests::expect_contains(refusal([&] { read_osu(folder.write("cut.txt", "# OSU MPI Latency Test v7.5\n8 1.25\n16 \n")); }), "line 3");
  tests::expect_contains(refusal([&] { read_osu(folder.write("none.txt", "hello\n8 1.25\n")); }), "osu_latency");
}

}  // namespace
}  // namespace flotilla::files::measurements_test
