#include "flotilla/session/device_choice.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "flotilla/base/error.hpp"
#include "flotilla/base/log.hpp"
#include "flotilla/comm/agree.hpp"
#include "flotilla/gpu/driver.hpp"
#include "flotilla/mpi/communicator.hpp"

namespace flotilla::session {
namespace {

using compute::DeviceKind;

/// Why this rank computes on none of the GPUs that it sees; empty: it can.
std::string why_not(const gpu::Presence& here) {
  return here.any() ? compute::why_no_backend(here.devices.front()) : text("no GPU here: ", here.why_none);
}

/// What a rank has to choose from, as text: whether it must have one of them, and the ids of the GPUs that it may compute on, one a line.
const std::string must = "must\n", may = "may\n";

std::string usable_gpus(const comm::World& world, std::optional<DeviceKind> kind) {
  if (kind == DeviceKind::cpu) return may;
  const auto here = gpu::presence();
  const std::string why = why_not(here);
  FLOTILLA_REQUIRE(why.empty() || kind != DeviceKind::gpu, ErrorKind::unavailable, why, " (--device.kind gpu)");
  if (!why.empty()) {
    if (here.any() && world.neighbours().front() == world.rank())
      log::warning("there are GPUs on ", world.host(world.rank()), ", but its ranks compute on CPUs: ", why);
    return may;
  }
  std::string ids = kind == DeviceKind::gpu ? must : may;
  for (const auto& device : here.devices) ids += device.uuid + '\n';
  return ids;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t begin = 0, end = 0; (end = text.find('\n', begin)) != text.npos; begin = end + 1)
    lines.push_back(text.substr(begin, end - begin));
  return lines;
}

}  // namespace

compute::Device choose_device(const comm::World& world, std::optional<DeviceKind> kind, Seconds deadline) {
  const auto mine = comm::agree_on(
      world, "looking for GPUs", [&] { return usable_gpus(world, kind); }, deadline);
  const auto all = mpi::all_gather_strings(world.control(), mine, deadline);
  std::map<std::string, int> ranks_of;
  for (const Rank rank : world.neighbours()) {
    const auto ids = lines_of(all.at(rank.index()));
    const auto least = std::min_element(ids.begin() + 1, ids.end(),
                                        [&](const std::string& a, const std::string& b) { return ranks_of[a] < ranks_of[b]; });
    const bool takes = least != ids.end() && (ids.front() + '\n' == must || ranks_of[*least] == 0);
    if (rank == world.rank()) {
      if (!takes) return {};
      if (ranks_of[*least] > 0) log::warning(world.name(rank), " shares a GPU with ", ranks_of[*least], " others");
      return {DeviceKind::gpu, static_cast<int>(least - ids.begin() - 1)};
    }
    if (takes) ++ranks_of[*least];
  }
  return {};
}

}  // namespace flotilla::session
