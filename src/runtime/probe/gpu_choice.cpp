#include "flotilla/probe/gpu_choice.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "flotilla/comm/agree.hpp"
#include "flotilla/files/json.hpp"
#include "flotilla/gpu/assignment.hpp"
#include "flotilla/gpu/driver.hpp"
#include "flotilla/mpi/communicator.hpp"
#include "flotilla/topology/topology.hpp"

namespace flotilla::probe {
namespace {

/// What a rank tells the others of its host, to choose a device by.
struct Seen {
  gpu::RankView view;
  gpu::DevicePlaces places;
};

std::string numbers_json(const std::vector<int>& numbers) {
  return files::json_array(std::vector<std::int64_t>{numbers.begin(), numbers.end()});
}

std::vector<int> numbers_from(const files::Json& list) {
  std::vector<int> numbers;
  for (const auto& number : list.items()) numbers.push_back(number.as_int(0));
  return numbers;
}

std::string seen_here(bool takes_part) {
  const topology::NodeTopology node = topology::this_node();
  std::string devices;
  for (const auto& device : takes_part ? gpu::presence().devices : std::vector<gpu::DeviceFacts>{}) {
    const auto on_bus = [&](const topology::Gpu& gpu) { return gpu::same_bus(gpu.bus_id, device.pci_bus_id); };
    const auto place = std::ranges::find_if(node.gpus, on_bus);
    files::JsonLine line;
    line.add("uuid", device.uuid).add_json("near", numbers_json(place == node.gpus.end() ? std::vector<int>{} : place->near));
    devices += (devices.empty() ? "" : ", ") + line.text();
  }
  files::JsonLine all;
  return all.add_json("usable", numbers_json(node.usable)).add_json("devices", "[" + devices + "]").text();
}

Seen seen_from(const std::string& json) {
  const auto document = files::Json::parse(json, "a rank's GPUs");
  Seen seen;
  seen.view.usable = numbers_from(document.at("usable"));
  for (const auto& device : document.at("devices").items()) {
    seen.view.visible.push_back(device.get_string("uuid"));
    seen.places[seen.view.visible.back()] = numbers_from(device.at("near"));
  }
  return seen;
}

GpuChoice choose(const comm::World& world, const std::vector<std::string>& all) {
  GpuChoice choice;
  choice.any = std::ranges::any_of(all, [](const std::string& json) { return !seen_from(json).view.visible.empty(); });
  std::vector<gpu::RankView> views;
  gpu::DevicePlaces places;
  std::size_t me = 0;
  for (const Rank rank : world.neighbours()) {
    if (rank == world.rank()) me = views.size();
    Seen seen = seen_from(all[rank.index()]);
    views.push_back(std::move(seen.view));
    places.merge(seen.places);
  }
  const auto assigned = gpu::assign_devices(views, places);
  if (assigned[me] < 0) return choice;
  choice.ordinal = assigned[me];
  choice.sharers = 1;
  const auto shared = gpu::shared_devices(views, assigned);
  const auto users = shared.find(views[me].visible[static_cast<std::size_t>(assigned[me])]);
  if (users == shared.end()) return choice;
  choice.sharers = static_cast<int>(users->second.size());
  choice.sharer = static_cast<int>(std::ranges::find(users->second, static_cast<int>(me)) - users->second.begin());
  return choice;
}

}  // namespace

GpuChoice choose_gpu(const comm::World& world, bool takes_part, Seconds deadline) {
  const auto mine = comm::agree_on(
      world, "looking for GPUs", [&] { return seen_here(takes_part); }, deadline);
  const auto all = mpi::all_gather_strings(world.control(), mine, deadline);
  return comm::agree_on(
      world, "choosing GPUs", [&] { return choose(world, all); }, deadline);
}

}  // namespace flotilla::probe
