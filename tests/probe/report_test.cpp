#include "flotilla/probe/report.hpp"

#include <gtest/gtest.h>

#include <sstream>

#include "flotilla/model/operations.hpp"

namespace {

using flotilla::Bytes;
using flotilla::Precision;
using flotilla::Rank;
using flotilla::Seconds;
using flotilla::cluster::LinkLevel;
using flotilla::cluster::Profile;

TEST(Table, NamesCopiesOfGpusOnly) {
  Profile profile;
  profile.device_types = {{"cpu:x:2t", flotilla::cluster::DeviceKind::cpu, Bytes{1 << 30}, {1e9}, {0}, {1e10}, "probe"}};
  const auto model = flotilla::model::built_in("gpt2-tiny");
  EXPECT_EQ(flotilla::probe::table(profile, model).find("Copies"), std::string::npos);
  profile.device_types.push_back({"H100", flotilla::cluster::DeviceKind::gpu, Bytes{1 << 30}, {1e12}, {1e13}, {1e12}, "probe"});
  profile.device_types.back().to_device = {Seconds{2e-6}, {4e9}};
  profile.device_types.back().to_host = {Seconds{9e-6}, {3e9}};
  const auto table = flotilla::probe::table(profile, model);
  const auto row = table.substr(table.find("\n  H100", table.find("Copies")));
  for (const auto& cell : {flotilla::to_string(flotilla::BytesPerSecond{4e9}), flotilla::to_string(flotilla::BytesPerSecond{3e9})})
    EXPECT_LT(row.find(cell), row.find('\n', 1)) << table;
}

TEST(Table, ShowsInterferenceWhereItWasMeasured) {
  Profile profile;
  profile.device_types = {{"cpu:x:2t", flotilla::cluster::DeviceKind::cpu, Bytes{1 << 30}, {1e9}, {0}, {1e10}, "probe"}};
  const auto model = flotilla::model::built_in("gpt2-tiny");
  EXPECT_EQ(flotilla::probe::table(profile, model).find("Interference"), std::string::npos);
  profile.device_types.front().interference = {0.034, Seconds{0.002}};
  const auto table = flotilla::probe::table(profile, model);
  const auto row = table.substr(table.find("\n  cpu:x", table.find("Interference")));
  for (const auto* cell : {"3.4 %", "2.00 ms"}) EXPECT_LT(row.find(cell), row.find('\n', 1)) << table;
}

TEST(Table, HoldsDevicesLinksRatesAndShares) {
  const auto model = flotilla::model::built_in("gpt2-tiny");
  const flotilla::model::LayerShape shape{2, 16, 1, 0, Precision::fp32};
  const double flops = flotilla::model::flops(model, shape, flotilla::model::Operation::mlp_forward);
  Profile profile;
  profile.software = "oneDNN 2.6";
  profile.model_fingerprint = "hidden 64";
  profile.measured_at = "2026-11-20T12:00:00Z";
  profile.device_types = {{"cpu:x:2t", flotilla::cluster::DeviceKind::cpu, Bytes{1 << 30}, {4 * flops}, {0}, {1e10}, "probe"}};
  profile.devices = {{Rank{0}, "cpu:x:2t", "n1", "", 0, 2}, {Rank{1}, "cpu:x:2t", "n1", "", 1, 2}};
  profile.links = {{LinkLevel::node, "n1", "n1", {{Bytes{0}, Seconds{2e-6}, {4e9}}}, 0.25}};
  profile.operation_times = {{"cpu:x:2t", "mlp_forward", 1, 2, 16, Precision::fp32, Seconds{0.5}, 0.07},
                             {"cpu:x:2t", "head_loss", 1, 2, 16, Precision::fp32, Seconds{0.25}, 0},
                             {"cpu:x:2t", "adamw", 1, 1, 1, Precision::fp32, Seconds{0.002}, 0.5}};
  const std::string table = flotilla::probe::table(profile, model);
  std::istringstream lines{table};
  std::string mlp, loss, adamw, link, devices;
  for (std::string line; std::getline(lines, line);) {
    if (line.find("mlp_forward") != std::string::npos) mlp = line;
    if (line.find("head_loss") != std::string::npos) loss = line;
    if (line.find("adamw") != std::string::npos) adamw = line;
    if (line.find("node") != std::string::npos) link = line;
    if (line.find("0 ... 1 (2)") != std::string::npos) devices = line;
  }
  EXPECT_NE(mlp.find("50 %"), std::string::npos) << "twice the FLOPs a second of half the peak:\n" << table;
  EXPECT_NE(mlp.find("7 %"), std::string::npos) << table;
  EXPECT_NE(loss.find(" - "), std::string::npos) << "no products, no rate:\n" << table;
  EXPECT_NE(adamw.find("2.00 ms"), std::string::npos) << table;
  EXPECT_NE(link.find("GB/s"), std::string::npos) << table;
  EXPECT_NE(link.find("25 %"), std::string::npos) << table;
  EXPECT_NE(devices.find("n1"), std::string::npos) << table;
  EXPECT_EQ(table.find('\r'), std::string::npos);
}

TEST(Table, NamesGroupsOfGpusAndThoseThatFailed) {
  using flotilla::cluster::Transport;
  Profile profile;
  const std::vector<flotilla::cluster::DevicePlace> members{{"n1", 0}, {"n1", 1}, {"n2", 0}};
  profile.group_sums = {{Transport::nccl, members, {{Bytes{0}, Seconds{1e-3}, {1e10}}}, 0.02, ""},
                        {Transport::nccl, members, {}, 0, "rank 2 on n2: wrong sum"},
                        {Transport::device_mpi, members, {{Bytes{0}, Seconds{2e-3}, {1e10}}}, 0.02, ""},
                        {Transport::nccl, members, {{Bytes{0}, Seconds{4e-3}, {1e10}}}, 0.02, "", true},
                        {Transport::nccl, members, {}, 0, "rank 0 on n1: wrong sum", true}};
  const auto text = flotilla::probe::table(profile, flotilla::model::built_in("gpt2-tiny"));
  EXPECT_NE(text.find("All-reduces over groups of GPUs by NCCL"), std::string::npos) << text;
  EXPECT_NE(text.find("n1 x 2, n2 x 1  1.01 ms"), std::string::npos) << text;
  EXPECT_NE(text.find("All-reduces over groups of GPUs by MPI on device memory"), std::string::npos) << text;
  EXPECT_NE(text.find("n1 x 2, n2 x 1  2.01 ms"), std::string::npos) << text;
  EXPECT_NE(text.find("NCCL's own all-reduces over groups of GPUs"), std::string::npos) << text;
  EXPECT_NE(text.find("n1 x 2, n2 x 1  4.01 ms"), std::string::npos) << text;
  EXPECT_NE(text.find("NCCL's own all-reduce over the GPUs of n1 x 2, n2 x 1: rank 0 on n1: wrong sum\n"), std::string::npos) << text;
  EXPECT_NE(text.find("NCCL does not join the GPUs of n1 x 2, n2 x 1 as a group: rank 2 on n2: wrong sum\n"), std::string::npos) << text;
}

TEST(Table, WithoutLinksThereIsNoEmptyTable) {
  EXPECT_EQ(flotilla::probe::table({}, {}).find("Links"), std::string::npos);
  EXPECT_EQ(flotilla::probe::table({}, {}).find("Uplinks"), std::string::npos);
}

TEST(Table, NamesZonesWhoseHostsShareTheWay) {
  Profile profile;
  profile.uplinks = {{"east", {5e6}}};
  const std::string table = flotilla::probe::table(profile, {});
  EXPECT_NE(table.find("Uplinks"), std::string::npos) << table;
  EXPECT_NE(table.find("5.00 MB/s"), std::string::npos) << table;
}

}  // namespace
