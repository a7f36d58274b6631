#include "gpus.hpp"

#include <algorithm>
#include <map>
#include <optional>

#include "flotilla/base/error.hpp"
#include "flotilla/cluster/catalogue.hpp"
#include "flotilla/comm/agree.hpp"
#include "flotilla/files/catalogue_file.hpp"
#include "flotilla/files/json.hpp"
#include "flotilla/probe/gpu_choice.hpp"
#include "samples.hpp"

namespace flotilla::probe {
namespace {

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
  return {d.get_string("name"),
          d.get_string("driver"),
          Bytes{d.get_int64("memory", 0)},
          {{d.get_double("to_device", 0)},
           {d.get_double("to_host", 0)},
           {d.get_double("rate", 0)},
           {d.get_double("fp32", 0)},
           {d.get_double("bf16", 0)},
           d.get_string("library")}};
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
  const auto choice = choose_gpu(world, true, request.deadline + 10 * request.budget);
  if (!choice.any) return {};
  const bool mine = choice.ordinal && choice.sharer == 0;
  const std::string measured =
      agreed(world, request, "measuring GPUs", [&] { return measure_here(mine ? choice.ordinal : std::nullopt, budget); });
  const auto all = mpi::all_gather_strings(world.control(), measured, request.deadline);
  return agreed(world, request, "reading the GPUs' figures", [&] {
    std::vector<MeasuredGpu> gpus;
    for (const auto& line : all)
      if (!line.empty()) gpus.push_back(gpu_from_text(line));
    return types_of(gpus);
  });
}

}  // namespace flotilla::probe
