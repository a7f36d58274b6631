#include "flotilla/probe/probe.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "flotilla/comm/agree.hpp"
#include "flotilla/files/profile_file.hpp"
#include "flotilla/model/operations.hpp"
#include "freshness.hpp"
#include "probe/tiny_probe.hpp"
#include "support/refusal.hpp"

namespace {

using namespace flotilla;
using probe::patience;
using probe::ProbeRequest;
using probe::tiny;
using probe::world;

TEST(Discover, EveryRankSeesEveryRank) {
  ProbeRequest request = tiny();
  request.threads = 0;
  request.zone = world().rank().value == 0 ? "first" : "rest";
  const auto found = probe::discover(world(), request);
  ASSERT_EQ(found.devices.size(), static_cast<std::size_t>(world().size()));
  for (int r = 0; r < world().size(); ++r) {
    const auto& d = found.devices[static_cast<std::size_t>(r)];
    EXPECT_EQ(d.rank, Rank{r});
    EXPECT_EQ(d.host, world().host(Rank{r}));
    EXPECT_EQ(d.local_rank, r) << "all of these run on one host";
    EXPECT_EQ(d.zone, r == 0 ? "first" : "rest");
    EXPECT_GE(d.threads, 1);
    EXPECT_EQ(d.type.rfind("cpu:", 0), 0u) << d.type;
    EXPECT_GT(found.memory[static_cast<std::size_t>(r)], Bytes{});
  }
  for (const char* part : {"oneDNN", "Open MPI", "UCX", "hwloc", "g++"})
    EXPECT_NE(found.software.find(part), std::string::npos) << found.software;
}

TEST(Discover, ARanksOwnMemoryLimitIsItsOwn) {
  ProbeRequest request = tiny();
  request.memory_limit = Bytes{(1 << 20) * (1 + std::int64_t{world().rank().value})};
  const auto found = probe::discover(world(), request);
  for (int r = 0; r < world().size(); ++r) EXPECT_EQ(found.memory[static_cast<std::size_t>(r)], Bytes{(1 << 20) * (1 + std::int64_t{r})});
}

TEST(Measure, EverythingIsThereAndTheSameOnEveryRank) {
  ProbeRequest request = tiny();
  request.precisions = {Precision::fp32, Precision::bf16};
  const auto profile = probe::measure(world(), request);
  const std::string json = files::profile_to_json(profile);
  EXPECT_NO_THROW(comm::require_same(world(), "the profile", json, patience));
  EXPECT_EQ(files::profile_from_json(json, "test"), profile);
  ASSERT_EQ(profile.device_types.size(), 1u);
  const auto& type = profile.device_types.front();
  EXPECT_GT(type.peak_fp32.value, 0);
  EXPECT_GT(type.peak_bf16.value, 0);
  EXPECT_GT(type.memory_bandwidth.value, 0);
  EXPECT_TRUE(world().size() > 1 || !type.interference.any()) << "nobody to exchange with";
  for (Precision precision : request.precisions) {
    for (int degree = 1; degree <= std::min(world().size(), 2); ++degree)
      for (int o = 0; o < model::all_operation_count; ++o) {
        const auto operation = static_cast<model::Operation>(o);
        if (o >= model::operation_count && !model::whole_of(operation)) continue;  // halves are measured, too
        const std::string name{model::to_string(operation)};
        const auto time = cluster::operation_time(profile, type.name, name, degree, 1, request.length, precision);
        ASSERT_TRUE(time) << name << " at degree " << degree;
        EXPECT_GT(time->value, 0) << name;
      }
    for (const char* name : {"adamw", "squared_norm", "cast", "add"}) {
      const auto time = cluster::operation_time(profile, type.name, name, 1, 1, 1, precision);
      ASSERT_TRUE(time) << name;
      EXPECT_GT(time->value, 0) << name;
    }
  }
  EXPECT_EQ(profile.links.size(), world().size() > 1 ? 1u : 0u);
  for (const auto& link : profile.links) {
    EXPECT_EQ(link.level, cluster::LinkLevel::node);
    EXPECT_GT(cluster::transfer_time(link, Bytes{8}).value, 0);
    EXPECT_GT(cluster::transfer_time(link, Bytes{8 << 20}), cluster::transfer_time(link, Bytes{8 << 10}));
  }
}

TEST(Measure, RanksThatAskForDifferentThingsAgreeThatTheyDo) {
  if (world().size() == 1) GTEST_SKIP() << "needs two ranks";
  ProbeRequest request = tiny();
  if (world().rank().value == world().size() - 1) request.length = 16;
  EXPECT_THROW(probe::measure(world(), request), comm::AgreedError);
}

TEST(Measure, AnImpossibleRequestOfOneRankEndsAll) {
  ProbeRequest request = tiny();
  if (world().rank().value == 0) request.length = request.model.positions + 1;
  tests::expect_contains(tests::refusal<comm::AgreedError>(ErrorKind::bad_input, [&] { probe::measure(world(), request); }), "positions");
}

TEST(Measure, WhatFitsNoDeviceIsUnavailable) {
  ProbeRequest request = tiny();
  request.memory_limit = Bytes{world().rank().value == 0 ? 4096 : 1 << 30};
  tests::expect_contains(tests::refusal<comm::AgreedError>(ErrorKind::unavailable, [&] { probe::measure(world(), request); }), "gpt2-tiny");
}

class Reuse : public ::testing::Test {
 protected:
  void SetUp() override { path_ = std::filesystem::temp_directory_path() / ("flotilla-profile-" + shared_number() + ".json"); }
  void TearDown() override {
    mpi::barrier(world().control(), patience);
    if (world().rank().value == 0) std::filesystem::remove(path_);
  }
  static std::string shared_number() { return mpi::broadcast_string(world().control(), std::to_string(getpid()), 0, patience); }
  std::filesystem::path path_;
};

TEST_F(Reuse, AFreshProfileIsReusedAndOthersAreNot) {
  ProbeRequest request = tiny();
  const auto first = probe::measure_or_reuse(world(), request, path_);
  EXPECT_FALSE(first.reused);
  EXPECT_NE(first.why_measured, "");
  const auto second = probe::measure_or_reuse(world(), request, path_);
  EXPECT_TRUE(second.reused) << second.why_measured;
  EXPECT_EQ(second.profile, first.profile);
  const auto asked = probe::measure_or_reuse(world(), request, path_, {Seconds{1e6}, true});
  EXPECT_FALSE(asked.reused);
  request.length = 16;
  const auto other = probe::measure_or_reuse(world(), request, path_);
  EXPECT_FALSE(other.reused);
  EXPECT_NE(other.why_measured.find("another shape"), std::string::npos) << other.why_measured;
  const std::string everywhere = files::profile_to_json(other.profile);
  EXPECT_NO_THROW(comm::require_same(world(), "the profile", everywhere, patience));
}

TEST_F(Reuse, ADamagedFileIsReplaced) {
  if (world().rank().value == 0) std::ofstream{path_} << "{ \"format\": ";
  mpi::barrier(world().control(), patience);
  const auto probed = probe::measure_or_reuse(world(), tiny(), path_);
  EXPECT_FALSE(probed.reused);
  EXPECT_NE(probed.why_measured.find(path_.filename().string()), std::string::npos) << probed.why_measured;
  if (world().rank().value == 0) {
    EXPECT_EQ(files::read_profile(path_), probed.profile);
  }
}

TEST_F(Reuse, AFolderThatCannotBeWrittenEndsAll) {
  EXPECT_THROW(probe::measure_or_reuse(world(), tiny(), path_ / "no" / "such" / "folder.json"), comm::AgreedError);
}

}  // namespace
