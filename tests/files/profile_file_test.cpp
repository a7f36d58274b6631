#include "flotilla/files/fabric_links_file.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>

#include "flotilla/files/text_file.hpp"
#include "support/refusal.hpp"
#include "support/temporary_folder.hpp"
#include "support/text.hpp"

namespace flotilla::files::profile_file_test {
namespace {

using tests::expect_refused;
using tests::replaced;

cluster::Profile random_profile(std::mt19937_64& random) {
  const auto positive = [&] { return std::ldexp(1 + std::uniform_real_distribution{}(random), static_cast<int>(random() % 80) - 40); };
  cluster::Profile p{"0123456789abcdef", "oneDNN 2.6.3; Open MPI 4.1.4", "2026-01-02T03:04:05Z", {}, {}, {}, {}};
  for (const char* name : {"cpu:Some \"CPU\":2t", "A100-40"})
    p.device_types.push_back({name,
                              random() % 2 ? cluster::DeviceKind::cpu : cluster::DeviceKind::gpu,
                              {static_cast<std::int64_t>(random() >> 2) + 1},
                              {positive()},
                              {0},
                              {positive()},
                              "probe"});
  for (int r = 0; r < static_cast<int>(random() % 5); ++r)
    p.devices.push_back({Rank{r}, p.device_types[random() % 2].name, "n1", "zone", r, 1 + static_cast<int>(random() % 64)});
  for (int l = 0; l < 3; ++l) {
    cluster::Link link{static_cast<cluster::LinkLevel>(l), "n1", "n2", {}, positive()};
    for (std::int64_t from = 0; from < 3000; from += 1 + static_cast<std::int64_t>(random() % 1000))
      link.pieces.push_back({{from}, {positive()}, {positive()}});
    p.links.push_back(link);
  }
  for (int t = 0; t < 5; ++t)
    p.operation_times.push_back(
        {"A100-40", "mlp_forward", 1 + t, 2, 128, t % 2 ? Precision::fp32 : Precision::bf16, {positive()}, positive()});
  for (std::size_t u = 0; u < random() % 3; ++u) p.uplinks.push_back({"zone" + std::to_string(u), {positive()}});
  return p;
}

cluster::Profile example() {
  cluster::Profile p{"f", "s", "t", {}, {}, {}, {}};
  p.device_types = {{"cpu", cluster::DeviceKind::cpu, {1 << 30}, {1e11}, {2e11}, {1e10}, "probe"}};
  p.devices = {{Rank{0}, "cpu", "n1", "", 0, 1}, {Rank{1}, "cpu", "n1", "", 1, 1}};
  p.links = {{cluster::LinkLevel::node, "n1", "n1", {{{0}, {1e-6}, {1e9}}, {{4096}, {2e-6}, {4e9}}}, 0.05}};
  p.operation_times = {{"cpu", "adamw", 1, 1, 1, Precision::fp32, {0.001}, 0.01}};
  return p;
}

void refused(std::string_view from, std::string_view to, std::string_view part, std::string_view other) {
  const std::string text = replaced(profile_to_json(example()), from, to);
  expect_refused([&] { profile_from_json(text, "c.json"); }, part, other, "c.json");
}

TEST(ProfileFile, RandomProfilesRoundTripBitByBit) {
  std::mt19937_64 random{2};
  for (int i = 0; i < 200; ++i) {
    const cluster::Profile profile = random_profile(random);
    const std::string text = profile_to_json(profile);
    const cluster::Profile back = profile_from_json(text, "p");
    ASSERT_EQ(back, profile) << text;
    for (std::size_t t = 0; t < profile.operation_times.size(); ++t)
      ASSERT_EQ(std::bit_cast<std::uint64_t>(back.operation_times[t].time.value),
                std::bit_cast<std::uint64_t>(profile.operation_times[t].time.value));
  }
}

TEST(ProfileFile, AFittedLinkIsReadBack) {
  cluster::Profile p = example();
  std::vector<cluster::LinkSample> samples;
  for (int e = 3; e < 22; ++e) samples.push_back({{1 << e}, {e < 12 ? 1e-6 * e : 1e-6 * (1 << (e - 9))}});
  p.links[0].pieces = cluster::fit_pieces(samples);
  p.links[0].sum_pieces = p.links[0].pieces;
  ASSERT_GT(p.links[0].pieces.size(), 1u);
  EXPECT_EQ(profile_from_json(profile_to_json(p), "p"), p);
}

TEST(ProfileFile, ReadsWhatItWritesOnDisk) {
  const tests::TemporaryFolder folder;
  const auto path = folder / "profile.json";
  write_profile(path, example());
  EXPECT_EQ(read_profile(path), example());
}

TEST(ProfileFile, RefusesToWriteWhatIsNotFinite) {
  cluster::Profile p = example();
  p.operation_times[0].relative_scatter = std::nan("");
  EXPECT_THROW(profile_to_json(p), Error);
}

TEST(ProfileFile, ThePageShowsAValidProfile) {
  const std::string page = read_text(std::filesystem::path{FLOTILLA_FORMATS} / "profile.md");
  const cluster::Profile profile = profile_from_json(tests::json_block(page), "profile.md");
  EXPECT_FALSE(profile.operation_times.empty());
  for (const std::string& key : Json::parse(profile_to_json(profile), "p").keys())
    EXPECT_NE(page.find("`" + key + "`"), std::string::npos) << key;
}

/// Expects that the text with one part replaced is refused, in words that hold both parts and the file's name.
auto refusing(const std::string& json) {
  return [&json](std::string_view from, std::string_view to, std::string_view part, std::string_view other) {
    const std::string text = replaced(json, from, to);
    expect_refused([&] { profile_from_json(text, "c.json"); }, part, other, "c.json");
  };
}

TEST(ProfileFile, UplinksAreOptionalAndChecked) {
  cluster::Profile p = example();
  EXPECT_EQ(profile_to_json(p).find("uplinks"), std::string::npos);
  p.uplinks = {{"a", {1e8}}, {"", {2e8}}};
  const std::string json = profile_to_json(p);
  EXPECT_EQ(profile_from_json(json, "p"), p);
  const auto refuse = refusing(json);
  refuse("{\"zone\": \"\"", "{\"zone\": \"a\"", "/uplinks/1/zone: ", "'a' has an uplink already");
  refuse("\"bandwidth_bytes_per_s\": 1e+08", "\"bandwidth_bytes_per_s\": 0", "/uplinks/0/bandwidth_bytes_per_s: ", "at least");
  refuse("\"bandwidth_bytes_per_s\": 1e+08", "\"bandwidth_bytes_per_s\": \"fast\"", "/uplinks/0/bandwidth_bytes_per_s: ", "number");
  refuse("\"bandwidth_bytes_per_s\": 1e+08", "\"rate\": 1", "/uplinks/0: unknown key 'rate'", "zone, bandwidth_bytes_per_s");
}

TEST(ProfileFile, InterferenceIsOptionalAndChecked) {
  cluster::Profile p = example();
  EXPECT_EQ(profile_to_json(p).find("interference"), std::string::npos);
  p.device_types.front().interference = {0.25, {0.002}};
  const std::string json = profile_to_json(p);
  EXPECT_EQ(profile_from_json(json, "p"), p);
  const auto refuse = refusing(json);
  refuse("\"compute_share\": 0.25", "\"compute_share\": 1.5", "/device_types/0/interference/compute_share: ", "at most");
  refuse("\"message_delay_s\": 0.002", "\"message_delay_s\": -1", "/device_types/0/interference/message_delay_s: ", "at least");
}

TEST(ProfileFile, LinksBetweenGpusAreOptionalAndChecked) {
  cluster::Profile p = example();
  EXPECT_EQ(profile_to_json(p).find("device_links"), std::string::npos);
  p.device_types.front().nccl_memory = {12'000'000};
  p.device_types.front().device_mpi_memory = {3'000'000};
  p.device_types.front().switch_sums = {3e11};
  p.device_links = {{cluster::Transport::nccl, p.links.front(), ""},
                    {cluster::Transport::nccl, {cluster::LinkLevel::zone, "n1", "n2", {}}, "rank 1 on n2: wrong sum"},
                    {cluster::Transport::device_mpi, p.links.front(), ""}};
  const std::string json = profile_to_json(p);
  EXPECT_EQ(profile_from_json(json, "p"), p);
  const auto refuse = refusing(json);
  refuse("\"transport\": \"nccl\"", "\"transport\": \"host\"", "/device_links/0/transport: ", "expected another transport");
  refuse("\"transport\": \"nccl\"", "\"transport\": \"tcp\"", "/device_links/0/transport: ", "host, nccl, device-mpi");
  refuse("\"rank 1 on n2: wrong sum\"", "\"\"", "/device_links/1/refusal: ", "expected a reason");
}

TEST(ProfileFile, SumsOverGroupsOfGpusAreOptionalAndChecked) {
  cluster::Profile p = example();
  EXPECT_EQ(profile_to_json(p).find("group_sums"), std::string::npos);
  const std::vector<cluster::DevicePlace> members{{"n1", 0}, {"n1", 1}, {"n2", 0}};
  p.group_sums = {{cluster::Transport::nccl, members, p.links.front().pieces, 0.02, ""},
                  {cluster::Transport::nccl, members, {}, 0, "rank 2 on n2: wrong sum"},
                  {cluster::Transport::device_mpi, members, p.links.front().pieces, 0.05, ""},
                  {cluster::Transport::nccl, {members[0], members[2]}, p.links.front().pieces, 0.01, "", true}};
  const std::string json = profile_to_json(p);
  EXPECT_EQ(profile_from_json(json, "p"), p);
  p.group_sums[3].by_library = false;
  expect_refused([&] { profile_from_json(profile_to_json(p), "c.json"); },
                 "/group_sums/3/members: ", "expected at least 3: pairs have links", "c.json");
  p.group_sums[3].by_library = true, p.group_sums[3].transport = cluster::Transport::device_mpi;
  expect_refused([&] { profile_from_json(profile_to_json(p), "c.json"); }, "/group_sums/3/reduction: ", "the transport is another",
                 "c.json");
  const auto refuse = refusing(json);
  refuse("\"transport\": \"nccl\"", "\"transport\": \"host\"", "/group_sums/0/transport: ", "expected another transport");
  refuse("\"local_rank\": 1}", "\"local_rank\": 0}", "/group_sums/0/members/1: ", "is a member already");
  refuse("\"rank 2 on n2: wrong sum\"", "\"\"", "/group_sums/1/refusal: ", "expected a reason");
  refuse("\"reduction\": \"nccl\"", "\"reduction\": \"fast\"", "/group_sums/3/reduction: ", "ordered, nccl");
}

TEST(ProfileFile, RefusesByPointer) {
  refused("\"flotilla-profile\"", "3", "/format: ", "string");
  refused("\"version\": 1", "\"version\": 0", "/version: version 0 is unknown", "reads version 1");
  refused("\"kind\": \"cpu\"", "\"kind\": \"tpu\"", "/device_types/0/kind: ", "cpu, gpu");
  refused("\"memory_bytes\": 1073741824", "\"memory_bytes\": -1", "/device_types/0/memory_bytes: ", "at least 1");
  refused("\"memory_bytes\": 1073741824", "\"memory_byte\": 1", "/device_types/0: unknown key", "'memory_bytes'");
  refused("\"rank\": 1", "\"rank\": 0", "/devices/1/rank: ", "at least 1");
  refused("\"type\": \"cpu\"", "\"type\": \"gpu9\"", "/devices/0/type: ", "gpu9");
  refused("\"threads\": 1", "\"threads\": 0", "/devices/0/threads: ", "at least 1");
  refused("\"from_bytes\": 4096", "\"from_bytes\": 0", "/links/0/pieces/1/from_bytes: ", "increasing");
  refused("\"from_bytes\": 0", "\"from_bytes\": 1", "/links/0/pieces/0/from_bytes: ", "expected 0");
  refused("\"bandwidth_bytes_per_s\": 1e+09", "\"bandwidth_bytes_per_s\": 0", "/links/0/pieces/0/bandwidth_bytes_per_s: ", "at least");
  refused("\"latency_s\": 1e-06", "\"latency_s\": -1", "/links/0/pieces/0/latency_s: ", "less than no time");
  refused("\"level\": \"node\"", "\"level\": \"far\"", "/links/0/level: ", "node, zone, wide");
  refused("\"time_s\": 0.001", "\"time_s\": -0.001", "/operation_times/0/time_s: ", "at least 0");
  refused("\"length\": 1", "\"length\": 0", "/operation_times/0/length: ", "at least 1");
  refused("\"precision\": \"fp32\"", "\"precision\": \"fp64\"", "/operation_times/0/precision: ", "fp64");
}

std::vector<bench::FabricLink> fabric_example() {
  return {{"n1", "n2", {{{8}, {2e-6}, {1.1e-5}, {4e6}, {7e5}}, {{1 << 20}, {9e-5}, {1.2e-4}, {1.2e10}, {9e9}}}, ""},
          {"n1", "n1", {{{8}, {3e-7}, {1e-6}, {2e7}, {8e6}}}, ""},
          {"n2", "n3", {}, "n3: UCX finds no transport"}};
}

std::string with_fabric() { return library_to_json({example(), {}}, fabric_example()); }

TEST(FabricLinks, AreReadBackBesideAProfileThatStaysAsItWas) {
  const auto text = with_fabric();
  EXPECT_EQ(fabric_links_of(Json::parse(text, "p")), fabric_example()) << text;
  EXPECT_EQ(profile_from_json(text, "p"), example());
  EXPECT_NE(text.find("\"mpi_share\": 0.75"), std::string::npos) << text;
  EXPECT_EQ(library_to_json({example(), {}}, {}), profile_to_json(example()));
  EXPECT_TRUE(fabric_links_of(Json::parse(profile_to_json(example()), "p")).empty());
  tests::TemporaryFolder folder;
  write_profile(folder.path() / "p.json", example(), fabric_example());
  EXPECT_EQ(read_text(folder.path() / "p.json"), text);
}

void fabric_refused(std::string_view from, std::string_view to, std::string_view part, std::string_view other) {
  const std::string text = replaced(with_fabric(), from, to);
  expect_refused([&] { profile_from_json(text, "c.json"); }, part, other, "c.json");
}

TEST(FabricLinks, DamagedOnesAreRefusedAtTheirPlace) {
  fabric_refused("\"mpi_share\": 0.75", "\"mpi_share\": 0.9", "/fabric_links/0/mpi_share", "the largest size says 0.75");
  fabric_refused("\"size_bytes\": 1048576", "\"size_bytes\": 8", "/fabric_links/0/points/1/size_bytes", "expected increasing sizes");
  fabric_refused("\"ucx_latency_s\": 2e-06", "\"ucx_latency_s\": 0.0", "/fabric_links/0/points/0/ucx_latency_s", "above 0");
  fabric_refused("\"n3: UCX finds no transport\"", "\"\"", "/fabric_links/2/refusal", "expected a reason");
  fabric_refused("\"mpi_latency_s\": 1.1e-05", "\"mpi_latency_s\": -1.0", "/fabric_links/0/points/0/mpi_latency_s", "mpi_latency_s");
}

}  // namespace
}  // namespace flotilla::files::profile_file_test
