#include "flotilla/health/node_test.hpp"

#include <gtest/gtest.h>

#include <set>

#include "cores.hpp"
#include "flotilla/health/disk.hpp"
#include "node_files.hpp"
#include "support/refusal.hpp"
#include "support/temporary_folder.hpp"

namespace flotilla::health {
namespace {

using flotilla::tests::refusal;
using flotilla::tests::TemporaryFolder;

NodeTest short_test(const TemporaryFolder& folder) {
  NodeTest test;
  test.disk = folder.path();
  test.disk_size = {4 << 20};
  test.budget = {0.5};
  return test;
}

TEST(NodeTest, ThisMachineAgreesWithItself) {
  const TemporaryFolder folder;
  auto test = short_test(folder);
  test.host = "n1";
  std::vector<std::string> told;
  test.progress = [&](const bench::NodeReport& report) { told.push_back(report.doing); };
  const auto first = test_node(test), again = test_node(test);
  EXPECT_TRUE(first.done);
  EXPECT_EQ(first.host, "n1");
  EXPECT_TRUE(first.failures.empty()) << first.failures.front().reason;
  EXPECT_EQ(first.answers, again.answers);
  EXPECT_EQ(first.type, again.type);
  std::set<std::string> digests;
  for (const auto& core : first.cores) digests.insert(core.digest);
  EXPECT_EQ(digests.size(), 1u) << "all hardware threads give the same bits";
  for (const char* figure : {"memory", "memory_bandwidth", "matmul_fp32", "step", "disk_write", "disk_read"})
    EXPECT_NE(find_figure(first, figure), nullptr) << figure;
  EXPECT_EQ(told.front(), "hardware threads");
  EXPECT_EQ(told.back(), "matrix products, bf16") << "which takes what the others leave of the time";
}

TEST(NodeTest, ADiskThatIsTooFullIsAFailureAndNothingElse) {
  const TemporaryFolder folder;
  auto test = short_test(folder);
  test.disk_size = {std::int64_t{1} << 60};
  const auto report = test_node(test);
  EXPECT_TRUE(report.done);
  ASSERT_EQ(report.failures.size(), 1u);
  EXPECT_EQ(report.failures[0].test, "disk");
  EXPECT_NE(report.failures[0].reason.find("are free on the file system of"), std::string::npos) << report.failures[0].reason;
  EXPECT_NE(find_figure(report, "matmul_fp32"), nullptr);
}

TEST(Disk, LeavesNothingBehind) {
  const TemporaryFolder folder;
  const auto rates = test_disk(folder, {8 << 20}, Seconds{60});
  EXPECT_GT(rates.write.value, 0);
  EXPECT_GT(rates.read.value, 0);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(Disk, AFileIsNoFolder) {
  const TemporaryFolder folder;
  const auto file = folder.write("file", "x");
  refusal([&] { test_disk(file, {8 << 20}, Seconds{1}); });
}

TEST(Cores, AHardwareThreadThatIsNotThereIsNamed) {
  const auto message = refusal(ErrorKind::unavailable, [] { test_cores({100000}, Seconds{0.1}); });
  EXPECT_NE(message.find("100000"), std::string::npos) << message;
}

TEST(KernelFiles, AreReadByTheirWords) {
  EXPECT_EQ(chosen_word("always [madvise] never"), "madvise");
  EXPECT_EQ(chosen_word("plain"), "plain");
  EXPECT_EQ(kernel_file("/proc/no/such/file"), "");
}

}  // namespace
}  // namespace flotilla::health
