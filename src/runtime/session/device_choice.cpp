#include "flotilla/session/device_choice.hpp"

#include <algorithm>
#include <array>
#include <string>

#include "flotilla/base/error.hpp"
#include "flotilla/base/log.hpp"
#include "flotilla/comm/agree.hpp"
#include "flotilla/compute/gpu_rates.hpp"
#include "flotilla/gpu/driver.hpp"
#include "flotilla/mpi/communicator.hpp"
#include "flotilla/probe/gpu_choice.hpp"

namespace flotilla::session {
namespace {

using cluster::DeviceKind;

/// Why this rank computes on none of the GPUs that it sees; empty: it can.
std::string why_not(const gpu::Presence& here) {
  return here.any() ? compute::why_no_backend(here.devices.front()) : text("no GPU here: ", here.why_none);
}

/// Whether this rank may compute on one. Throws Error{unavailable} where it must and cannot.
bool may_use_gpus(const comm::World& world, std::optional<DeviceKind> kind) {
  if (kind == DeviceKind::cpu) return false;
  const auto here = gpu::presence();
  const std::string why = why_not(here);
  FLOTILLA_REQUIRE(why.empty() || kind != DeviceKind::gpu, ErrorKind::unavailable, why, " (--device.kind gpu)");
  if (!why.empty() && here.any() && world.neighbours().front() == world.rank())
    log::warning("there are GPUs on ", world.host(world.rank()), ", but its ranks compute on CPUs: ", why);
  return why.empty();
}

/// Says so where the device has no TF32: it goes on in fp32.
bool has_tf32(const comm::World& world, const gpu::DeviceFacts& device) {
  const bool has = compute::multiplies_tf32(device);
  if (!has) log::warning(world.name(world.rank()), ": ", device.name, " does not multiply in TF32, and stays with fp32 (--device.tf32)");
  return has;
}

}  // namespace

compute::ComputeDevice choose_device(const comm::World& world, std::optional<DeviceKind> kind, const compute::ComputeDevice& how,
                                     Seconds deadline) {
  const bool takes_part = comm::agree_on(
      world, "looking for GPUs", [&] { return may_use_gpus(world, kind); }, deadline);
  const auto choice = probe::choose_gpu(world, takes_part, deadline);
  if (!choice.ordinal || (choice.sharer > 0 && kind != DeviceKind::gpu)) return {};
  if (choice.sharer > 0) log::warning(world.name(world.rank()), " shares a GPU with ", choice.sharers - 1, " others");
  compute::ComputeDevice device = how;
  device.kind = DeviceKind::gpu;
  device.ordinal = *choice.ordinal;
  device.tf32 = how.tf32 && has_tf32(world, gpu::presence().devices.at(static_cast<std::size_t>(*choice.ordinal)));
  return device;
}

Precision precision_of_devices(const comm::World& world, const compute::ComputeDevice& device, Seconds deadline) {
  // A GPU with units for bf16 multiplies fp16, too; the least of what ranks have is what all have.
  constexpr std::array ascending{Precision::fp32, Precision::fp16, Precision::bf16};
  const auto mine = device.kind == DeviceKind::gpu ? compute::made_for(gpu::presence().devices.at(static_cast<std::size_t>(device.ordinal)))
                                                   : Precision::fp32;
  const auto place = static_cast<int>(std::ranges::find(ascending, mine) - ascending.begin());
  return ascending.at(static_cast<std::size_t>(std::ranges::min(mpi::all_gather(world.control(), place, deadline))));
}

compute::ComputeDevice how_to_compute(const RunConfig& config) {
  compute::ComputeDevice how;
  how.tf32 = config.device.tf32;
  how.attention = config.device.attention;
  how.deterministic = config.training.deterministic;
  return how;
}

}  // namespace flotilla::session
