// On stand-in GPUs (tests/standin): an H100 and an A100 a host, for one, two and three ranks.
#include <gtest/gtest.h>

#include <cstdlib>

#include "few_blocks.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/base/utc.hpp"
#include "flotilla/cluster/transports.hpp"
#include "flotilla/files/profile_file.hpp"
#include "flotilla/model/operations.hpp"
#include "flotilla/nccl/library.hpp"
#include "flotilla/probe/gpu_choice.hpp"
#include "freshness.hpp"
#include "probe/tiny_probe.hpp"
#include "support/refusal.hpp"

namespace flotilla::probe {
namespace {

ProbeRequest on_gpus(bool takes_part = true) {
  auto request = tiny();
  const auto choice = choose_gpu(world(), takes_part, patience);
  if (choice.ordinal) request.device = {cluster::DeviceKind::gpu, *choice.ordinal};
  return request;
}

/// As the environment makes it: "all", "1", with a fault.
bool mpi_is(const std::string& aware, bool faulty = false) {
  const char* ranks = std::getenv("FLOTILLA_STANDIN_CUDA_AWARE");
  return ranks != nullptr && ranks == aware && (std::getenv("FLOTILLA_STANDIN_MPI_FAULTS") != nullptr) == faulty;
}

bool joins_standins() { return std::getenv("FLOTILLA_STANDIN_NCCL_MEMORY") != nullptr; }
constexpr const char* real_library = "NVIDIA's library cannot join stand-ins of GPUs";

void expect_everything_of(const cluster::Profile& profile, const cluster::DeviceType& type) {
  for (int o = 0; o < model::operation_count; ++o) {
    const std::string name{model::to_string(static_cast<model::Operation>(o))};
    EXPECT_GT(cluster::operation_time(profile, type.name, name, 1, 1, 32, Precision::fp32).value_or(Seconds{}).value, 0)
        << type.name << name;
  }
  for (const char* name : {"adamw", "squared_norm", "cast", "add", "mlp_backward_input", "head_backward_weights"})
    EXPECT_TRUE(
        std::ranges::any_of(profile.operation_times, [&](const auto& t) { return t.device_type == type.name && t.operation == name; }))
        << type.name << ' ' << name;
  EXPECT_GT(type.peak_fp32.value, 0);
  EXPECT_GT(type.memory_bandwidth.value, 0);
}

void expect_gpu(const cluster::DeviceType& type, int sharers) {
  EXPECT_EQ(type.kind, cluster::DeviceKind::gpu);
  EXPECT_EQ(type.memory, Bytes{(1 << 30) / sharers});
  EXPECT_GT(type.peak_bf16.value, 0);
  EXPECT_TRUE(type.to_device.known() && type.to_host.known());
  EXPECT_GT(type.to_host.latency.value, 0);
  EXPECT_GT(type.context.count, 0);
  EXPECT_LT(type.context, Bytes{1 << 20}) << "no arena is in it";
  EXPECT_GT(type.host_memory.count, 0);
  EXPECT_NE(type.source.find(", cuBLASLt 13.1.0, driver of CUDA 13.0 (580.65.06)"), std::string::npos) << type.source;
}

TEST(Gpus, AreMeasuredByTheRanksThatComputeOnThem) {
  const auto request = on_gpus();
  const auto profile = measure(world(), request);
  ASSERT_EQ(profile.devices.size(), static_cast<std::size_t>(world().size()));
  const std::vector<std::string> expected[] = {{"H100"}, {"H100", "A100-80"}, {"H100:1/2", "A100-80", "H100:1/2"}};
  for (std::size_t r = 0; r < profile.devices.size(); ++r) {
    const auto& type = *cluster::find_type(profile, profile.devices[r].type);
    EXPECT_EQ(type.name, expected[profile.devices.size() - 1][r]) << "as in the catalogue; of three ranks, two share";
    expect_gpu(type, type.name.ends_with(":1/2") ? 2 : 1);
    expect_everything_of(profile, type);
  }
  EXPECT_EQ(files::profile_from_json(files::profile_to_json(profile), "itself"), profile);
  EXPECT_EQ(why_not_fresh(profile, discover(world(), request), request, Seconds{3600}, utc_now()), "");
  EXPECT_NE(why_not_fresh(profile, discover(world(), tiny()), tiny(), Seconds{3600}, utc_now()), "") << "the ranks compute on CPUs now";
}

/// Shapes that share a GPU's memory compute what each computes in memory of its own, also when a larger one has moved it.
TEST(Gpus, MemoryIsTakenInTurns) {
  const auto request = on_gpus();
  const auto turns = std::make_shared<TakenInTurns>();
  const auto shape = [&](int sequences, bool shares) {
    return FewBlocks{request.model, request.length, {Precision::fp32, 1, sequences, true}, 1, 2, request.device, shares ? turns : nullptr};
  };
  const auto digest = [](FewBlocks& blocks) {
    std::vector<std::vector<double>> samples;
    blocks.prepare();
    blocks.pass(samples);
    blocks.halves(samples);
    blocks.update();
    const auto result = blocks.digest();
    blocks.release();
    return result;
  };
  std::vector<std::uint64_t> expected;
  for (const int sequences : {1, 3}) {
    auto own = shape(sequences, false);
    expected.push_back(digest(own));
  }
  EXPECT_NE(expected[0], expected[1]);
  auto small = shape(1, true), large = shape(3, true);
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(digest(small), expected[0]) << "round " << round;
    EXPECT_EQ(digest(large), expected[1]) << "round " << round;
  }
  mpi::barrier(world().control(), patience);
}

TEST(Gpus, AndCpusAreTypesOfOneProfile) {
  const auto profile = measure(world(), on_gpus(world().rank() == Rank{0}));
  for (const auto& device : profile.devices) {
    const auto& type = *cluster::find_type(profile, device.type);
    expect_everything_of(profile, type);
    if (device.rank == Rank{0}) {
      expect_gpu(type, 1);
    } else {
      EXPECT_EQ(type.kind, cluster::DeviceKind::cpu);
      EXPECT_FALSE(type.to_device.known());
    }
  }
}

/// It passed its proof and takes longer for more bytes.
void expect_rises(const cluster::GroupSum& sum) {
  EXPECT_EQ(sum.refusal, "");
  cluster::Link as_link;
  as_link.pieces = sum.pieces;
  ASSERT_FALSE(sum.pieces.empty());
  EXPECT_GT(cluster::transfer_time(as_link, {8 << 20}), cluster::transfer_time(as_link, {8 << 10}));
}

/// Where there is NCCL (its stand-in): pairs are proved and measured, and its memory.
TEST(GpusOverNccl, AreMeasuredFromDeviceToDevice) {
  const auto profile = measure(world(), on_gpus());
  if (!nccl::presence().any()) {
    EXPECT_TRUE(profile.device_links.empty());
    return;
  }
  if (!joins_standins()) GTEST_SKIP() << real_library;
  ASSERT_EQ(profile.group_sums.size(), 1u) << "a group of two is a pair, but to NCCL's own sum";
  EXPECT_TRUE(profile.group_sums.front().by_library && profile.group_sums.front().members.size() == 2);
  expect_rises(profile.group_sums.front());
  ASSERT_EQ(profile.device_links.size(), 1u);
  const auto& known = profile.device_links.front();
  EXPECT_EQ(known.refusal, "");
  EXPECT_EQ(known.transport, cluster::Transport::nccl);
  EXPECT_EQ(known.link.level, cluster::LinkLevel::node);
  EXPECT_GT(cluster::transfer_time(known.link, {8 << 20}), cluster::transfer_time(known.link, {8}));
  EXPECT_FALSE(known.link.sum_pieces.empty());
  for (const auto& type : profile.device_types) EXPECT_EQ(type.nccl_memory, Bytes{128 << 10}) << "as the stand-in takes it";
  EXPECT_NE(profile.software.find("NCCL 2."), std::string::npos) << profile.software;
  EXPECT_EQ(files::profile_from_json(files::profile_to_json(profile), "itself"), profile);
}

/// After the proof of the pair (FLOTILLA_STANDIN_NCCL_FAULTS): memory is given back though an operation of NCCL stands on the device.
TEST(FailingGpusOverNccl, EndTheProbeOnAllRanks) {
  if (std::getenv("FLOTILLA_STANDIN_NCCL_FAULTS") == nullptr) GTEST_SKIP() << "needs a fault";
  auto request = on_gpus();
  request.deadline = Seconds{5};
  tests::expect_contains(tests::refusal(ErrorKind::communication, [&] { measure(world(), request); }), "rank ");
}

/// Where MPI takes device memory (FLOTILLA_STANDIN_CUDA_AWARE): pairs are proved, messages compared.
TEST(GpusOverDeviceMpi, AreMeasuredFromDeviceToDevice) {
  if (!mpi_is("all")) GTEST_SKIP() << "MPI takes no device memory";
  auto request = on_gpus();
  const auto profile = measure(world(), request);
  const auto known = std::ranges::find(profile.device_links, cluster::Transport::device_mpi, &cluster::DeviceLink::transport);
  ASSERT_NE(known, profile.device_links.end());
  EXPECT_EQ(std::ranges::count(profile.device_links, cluster::Transport::device_mpi, &cluster::DeviceLink::transport), 1);
  EXPECT_EQ(known->refusal, "");
  EXPECT_GT(cluster::transfer_time(known->link, {8 << 20}), cluster::transfer_time(known->link, {8}));
  EXPECT_FALSE(known->link.sum_pieces.empty());
  EXPECT_TRUE(cluster::joins(profile, cluster::Transport::device_mpi, {Rank{0}, Rank{1}}));
  EXPECT_EQ(files::profile_from_json(files::profile_to_json(profile), "itself"), profile);
  EXPECT_EQ(why_not_fresh(profile, discover(world(), request), request, Seconds{3600}, utc_now()), "");
  auto older = profile;
  std::erase_if(older.device_links, [](const auto& link) { return link.transport == cluster::Transport::device_mpi; });
  EXPECT_EQ(why_not_fresh(older, discover(world(), request), request, Seconds{3600}, utc_now()),
            "it has no links between GPUs by MPI on device memory");
}

/// Three GPUs of a host; what MPI takes of a device for each other one (FLOTILLA_STANDIN_MPI_MEMORY).
TEST(WholeGroupsOverDeviceMpi, AreProvedAndMeasured) {
  if (!mpi_is("all")) GTEST_SKIP() << "MPI takes no device memory";
  auto request = on_gpus();
  request.transport = cluster::Transport::device_mpi;
  const auto profile = measure(world(), request);
  ASSERT_EQ(profile.group_sums.size(), 1u) << "MPI has no sum of its own here";
  const auto& sum = profile.group_sums.front();
  EXPECT_EQ(sum.transport, cluster::Transport::device_mpi);
  EXPECT_FALSE(sum.by_library);
  EXPECT_EQ(sum.members.size(), 3u);
  expect_rises(sum);
  for (const auto& type : profile.device_types) EXPECT_EQ(type.device_mpi_memory, Bytes{192 << 10}) << "as the stand-in takes it";
  EXPECT_EQ(files::profile_from_json(files::profile_to_json(profile), "itself"), profile);
}

/// A library that sends other bytes than stand there (FLOTILLA_STANDIN_MPI_FAULTS).
TEST(GpusOverDeviceMpi, AreRefusedWhereTheProofFails) {
  if (!mpi_is("all", true)) GTEST_SKIP() << "MPI takes no device memory, or takes it as it should";
  const auto profile = measure(world(), on_gpus());
  const auto known = std::ranges::find(profile.device_links, cluster::Transport::device_mpi, &cluster::DeviceLink::transport);
  ASSERT_NE(known, profile.device_links.end());
  EXPECT_NE(known->refusal.find("rank "), std::string::npos) << known->refusal;
  EXPECT_FALSE(cluster::joins(profile, cluster::Transport::device_mpi, {Rank{0}, Rank{1}}));
}

/// One rank of two: nothing to measure, no refusal.
TEST(GpusOverDeviceMpi, AreNotWhereOneLibraryTakesNone) {
  if (!mpi_is("1")) GTEST_SKIP() << "needs a library that takes rank 1's device memory alone";
  const auto here = discover(world(), on_gpus());
  EXPECT_EQ(here.device_mpi, std::vector<Rank>{Rank{1}});
  const auto profile = measure(world(), on_gpus());
  EXPECT_EQ(std::ranges::count(profile.device_links, cluster::Transport::device_mpi, &cluster::DeviceLink::transport), 0);
}

/// Three GPUs of a host, each with a rank.
TEST(WholeGroupsOverNccl, AreProvedAndMeasured) {
  if (!joins_standins()) GTEST_SKIP() << real_library;
  const auto profile = measure(world(), on_gpus());
  ASSERT_EQ(profile.group_sums.size(), 3u) << "ours; NCCL's own of a pair, and of all";
  for (const auto& sum : profile.group_sums) {
    EXPECT_EQ(sum.transport, cluster::Transport::nccl);
    expect_rises(sum);
    for (std::size_t m = 0; m < sum.members.size(); ++m) EXPECT_EQ(sum.members[m], cluster::place_of(profile.devices[m]));
  }
  EXPECT_EQ(profile.group_sums[0].members.size(), 3u);
  EXPECT_FALSE(profile.group_sums[0].by_library);
  EXPECT_EQ(profile.group_sums[1].members.size(), 2u);
  EXPECT_EQ(profile.group_sums[2].members.size(), 3u);
  EXPECT_TRUE(profile.group_sums[1].by_library && profile.group_sums[2].by_library);
  EXPECT_EQ(files::profile_from_json(files::profile_to_json(profile), "itself"), profile);
}

/// The pair passes its proof, the group of three does not (FLOTILLA_STANDIN_NCCL_FAULTS).
TEST(WholeGroupsOverNccl, ThatFailTheirProofAreRefused) {
  if (!joins_standins()) GTEST_SKIP() << real_library;
  const auto profile = measure(world(), on_gpus());
  ASSERT_EQ(profile.group_sums.size(), 3u);
  const std::vector<Rank> three{Rank{0}, Rank{1}, Rank{2}};
  EXPECT_NE(profile.group_sums.back().refusal.find("rank "), std::string::npos) << "NCCL's own sum is wrong, too";
  EXPECT_NE(profile.group_sums.front().refusal.find(" (GPU "), std::string::npos) << profile.group_sums.front().refusal;
  EXPECT_NE(profile.group_sums.front().refusal.find("rank "), std::string::npos) << profile.group_sums.front().refusal;
  EXPECT_FALSE(cluster::joins(profile, cluster::Transport::nccl, three));
  EXPECT_TRUE(cluster::joins(profile, cluster::Transport::nccl, {Rank{0}, Rank{1}}));
}

TEST(GpusOverNccl, AreNotWhereNobodyWantsIt) {
  auto request = on_gpus();
  request.transport = cluster::Transport::host;
  const auto profile = measure(world(), request);
  EXPECT_TRUE(profile.device_links.empty());
  EXPECT_EQ(why_not_fresh(profile, discover(world(), request), request, Seconds{3600}, utc_now()), "");
  const bool lacks = nccl::presence().any() && world().size() > 1;
  EXPECT_EQ(why_not_fresh(profile, discover(world(), on_gpus()), on_gpus(), Seconds{3600}, utc_now()),
            lacks ? "it has no links between GPUs by NCCL" : "");
}

}  // namespace
}  // namespace flotilla::probe
