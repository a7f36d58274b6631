// What a rank on a stand-in GPU (tests/standin) takes of both memories is what was forecast, to the byte; over NCCL and by MPI on device
// memory, too.
#include <gtest/gtest.h>

#include <cstdlib>

#include "flotilla/base/error.hpp"
#include "flotilla/cluster/transports.hpp"
#include "flotilla/gpu/device.hpp"
#include "flotilla/simulate/forecaster.hpp"
#include "train/fixture.hpp"

namespace flotilla::tests {
namespace {

constexpr std::int64_t granule = 512;  // of the stand-in's memory

Bytes used_on_gpu() {
  const auto device = gpu::DeviceContext::open(0);
  return device.facts().memory - device.free_memory();
}

/// A backend without an arena, as the probe measures it.
Bytes context(const plan::Plan& plan) {
  const Bytes before = used_on_gpu();
  const auto backend = compute::make_backend({plan.model, plan.length, 1, 0, plan.precision, 1, 0, false, {cluster::DeviceKind::gpu, 0}});
  return used_on_gpu() - before;
}

std::optional<Bytes> bytes_in(const char* variable) {
  const char* bytes = std::getenv(variable);
  return bytes == nullptr ? std::nullopt : std::optional{Bytes{std::atoll(bytes)}};
}
/// What the stand-in for NCCL takes for each other member of a communicator; absent: there is none.
std::optional<Bytes> nccl_memory() { return bytes_in("FLOTILLA_STANDIN_NCCL_MEMORY"); }
/// What the stand-in for a CUDA-aware MPI library takes for each other rank, to the end of the process.
std::optional<Bytes> mpi_memory() { return bytes_in("FLOTILLA_STANDIN_MPI_MEMORY"); }

/// Two GPUs of a host, measured: only memory matters.
cluster::Profile two_gpus(Bytes context) {
  cluster::DeviceType gpu{"gpu", cluster::DeviceKind::gpu, {1 << 30}, {1e12}, {1e12}, {1e11}, "made up"};
  gpu.context = context;
  gpu.to_device = gpu.to_host = {Seconds{1e-6}, {1e10}};
  gpu.host_memory = Bytes{1 << 30};
  cluster::Profile profile;
  profile.device_types = {gpu};
  for (int r = 0; r < 2; ++r) profile.devices.push_back({Rank{r}, "gpu", "here", "", r, 1});
  profile.links = {{cluster::LinkLevel::node, "here", "here", {{Bytes{0}, Seconds{1e-6}, {1e9}}}}};
  if (!nccl_memory() && !mpi_memory()) return profile;
  const auto transport = nccl_memory() ? cluster::Transport::nccl : cluster::Transport::device_mpi;
  profile.device_types[0].nccl_memory = nccl_memory().value_or(Bytes{});
  profile.device_types[0].device_mpi_memory = mpi_memory().value_or(Bytes{});
  profile.device_links = {{transport, profile.links[0], ""}};
  return cluster::wanting(std::move(profile), transport);
}

void expect_forecast(plan::Plan plan) {
  for (auto& stage : plan.stages)
    for (auto& replica : stage.replicas) replica.device_type = "gpu";
  const Bytes beside = context(plan);
  static bool first = true;
  ASSERT_EQ(used_on_gpu(), first ? Bytes{} : mpi_memory().value_or(Bytes{})) << "what MPI keeps is left of the last plan";
  first = false;
  constexpr Bytes process{100 << 20};
  const auto profile = two_gpus(beside);
  const auto forecast = simulate::ProgramForecaster{profile, runtime(), process}.forecast(plan);
  const auto here =
      std::ranges::find_if(forecast.kinds, [](const auto& k) { return std::ranges::count(k.ranks, everybody().rank()) == 1; });
  ASSERT_NE(here, forecast.kinds.end());
  const auto& memory = here->memory;
  const auto trains = trainer(everybody(), plan);
  EXPECT_EQ(memory.runtime_constant > beside, nccl_memory() || mpi_memory()) << "connections of every plan count";
  EXPECT_EQ(used_on_gpu(), align_up(memory.arena, granule) + memory.runtime_constant) << plan::summary(plan);
  EXPECT_EQ(trains->host_memory().pinned, memory.on_host.pinned);
  EXPECT_EQ(trains->host_memory().state, memory.on_host.state);
  EXPECT_EQ(memory.on_host.process, process);
  static_cast<void>(trains->step(0));
  static_cast<void>(trains->evaluate());
  static_cast<void>(trains->state());
  EXPECT_EQ(used_on_gpu(), align_up(memory.arena, granule) + memory.runtime_constant) << "steps, evaluations and copies take no more";
  EXPECT_EQ(trains->host_memory().state, memory.on_host.state);
}

TEST(GpuMemory, IsWhatWasForecast) {
  const auto tiny = model::built_in("gpt2-tiny");
  for (const auto precision : {Precision::fp32, Precision::bf16}) {
    expect_forecast(plan::even_plan(tiny, 16, 4, precision, 2, 1, 1, 1));
    expect_forecast(plan::even_plan(tiny, 16, 4, precision, 1, 2, 1, 1));
    expect_forecast(plan::even_plan(tiny, 16, 4, precision, 1, 1, 2, 2));
    auto sharded = plan::even_plan(tiny, 16, 4, precision, 2, 1, 1, 2);
    sharded.shard_optimizer = true;
    expect_forecast(sharded);
  }
}

}  // namespace
}  // namespace flotilla::tests
