#include "gpus.hpp"

#include <algorithm>
#include <map>
#include <optional>

#include "flotilla/base/error.hpp"
#include "flotilla/cluster/catalogue.hpp"
#include "flotilla/comm/agree.hpp"
#include "flotilla/files/catalogue_file.hpp"
#include "flotilla/files/json.hpp"
#include "flotilla/gpu/assignment.hpp"
#include "flotilla/topology/topology.hpp"
#include "samples.hpp"

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

std::string seen_here() {
  const topology::Node node = topology::this_node();
  std::string devices;
  for (const auto& device : gpu::presence().devices) {
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

/// This rank's device, if it is to measure one.
std::optional<int> device_to_measure(const comm::World& world, const std::vector<std::string>& all) {
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
  if (assigned[me] < 0) return std::nullopt;
  const std::string& mine = views[me].visible[static_cast<std::size_t>(assigned[me])];
  const auto shared = gpu::shared_devices(views, assigned);
  const auto users = shared.find(mine);
  if (users != shared.end() && users->second.front() != static_cast<int>(me)) return std::nullopt;
  return assigned[me];
}

std::string measure_here(const std::optional<int>& ordinal, Seconds budget) {
  if (!ordinal) return {};
  const gpu::Device device = gpu::Device::open(*ordinal);
  const auto& facts = device.facts();
  return to_text({facts.name, gpu::driver_name(gpu::presence()), facts.memory, compute::measure_rates(device, budget)});
}

/// Files and texts that another rank sent are read by all alike: an error is everybody's.
template <class Work>
auto agreed(const comm::World& world, const ProbeRequest& request, const char* what, Work&& work) {
  return comm::agree_on(world, what, std::forward<Work>(work), request.deadline + 10 * request.budget);
}

}  // namespace

std::string to_text(const MeasuredGpu& gpu) {
  files::JsonLine line;
  line.add("name", gpu.name).add("driver", gpu.driver).add("memory", gpu.memory.count).add("library", gpu.rates.library);
  line.add("to_device", gpu.rates.to_device.value).add("to_host", gpu.rates.to_host.value).add("rate", gpu.rates.memory.value);
  return line.add("fp32", gpu.rates.fp32.value).add("bf16", gpu.rates.bf16.value).text();
}

MeasuredGpu gpu_from_text(const std::string& text) {
  const auto d = files::Json::parse(text, "a measured GPU");
  return {d.get_string("name"), d.get_string("driver"), Bytes{d.get_int64("memory", 0)},
          {{d.get_double("to_device", 0)}, {d.get_double("to_host", 0)}, {d.get_double("rate", 0)}, {d.get_double("fp32", 0)},
           {d.get_double("bf16", 0)}, d.get_string("library")}};
}

std::vector<cluster::DeviceType> types_of(const std::vector<MeasuredGpu>& measured) {
  const auto catalogue = files::built_in_catalogue();
  std::map<std::string, std::vector<const MeasuredGpu*>> by_name;
  for (const auto& gpu : measured) {
    const auto* known = cluster::find(catalogue, gpu.name);
    by_name[known ? known->name : gpu.name].push_back(&gpu);
  }
  std::vector<cluster::DeviceType> types;
  for (const auto& [name, gpus] : by_name) {
    const auto middle = [&](auto&& number) {
      std::vector<double> values;
      for (const auto* gpu : gpus) values.push_back(number(gpu->rates));
      return median(values);
    };
    cluster::DeviceType type;
    type.name = name;
    type.kind = cluster::DeviceKind::gpu;
    type.memory = std::ranges::min(gpus, {}, &MeasuredGpu::memory)->memory;
    type.peak_fp32 = {middle([](const auto& r) { return r.fp32.value; })};
    type.peak_bf16 = {middle([](const auto& r) { return r.bf16.value; })};
    type.memory_bandwidth = {middle([](const auto& r) { return r.memory.value; })};
    const MeasuredGpu& first = *gpus.front();
    type.source = text("probe of ", first.name, ", ", first.driver, ", ", first.rates.library, "; pinned copies to the device at ",
                       BytesPerSecond{middle([](const auto& r) { return r.to_device.value; })}, ", to the host at ",
                       BytesPerSecond{middle([](const auto& r) { return r.to_host.value; })});
    types.push_back(std::move(type));
  }
  return types;
}

std::vector<cluster::DeviceType> measure_gpus(const comm::World& world, const ProbeRequest& request, Seconds budget) {
  const std::string mine = agreed(world, request, "looking for GPUs", seen_here);
  const auto seen = mpi::all_gather_strings(world.control(), mine, request.deadline);
  const auto none = [](const std::string& json) { return seen_from(json).view.visible.empty(); };
  if (agreed(world, request, "reading the ranks' GPUs", [&] { return std::ranges::all_of(seen, none); })) return {};
  const std::string measured =
      agreed(world, request, "measuring GPUs", [&] { return measure_here(device_to_measure(world, seen), budget); });
  const auto all = mpi::all_gather_strings(world.control(), measured, request.deadline);
  return agreed(world, request, "reading the GPUs' figures", [&] {
    std::vector<MeasuredGpu> gpus;
    for (const auto& line : all)
      if (!line.empty()) gpus.push_back(gpu_from_text(line));
    return types_of(gpus);
  });
}

}  // namespace flotilla::probe
