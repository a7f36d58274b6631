#include "merge.hpp"

#include <algorithm>
#include <functional>
#include <map>

#include "flotilla/base/error.hpp"
#include "flotilla/model/operations.hpp"
#include "samples.hpp"

namespace flotilla::probe {
namespace {

/// Calls `shape_sample` on every number, in order; `M` is RankMeasurements, const or not.
template <class M, class ShapeSample>
void for_numbers(M& m, ShapeSample shape_sample) {
  shape_sample(m.rates.peak_fp32.value);
  shape_sample(m.rates.peak_bf16.value);
  shape_sample(m.rates.memory_bandwidth.value);
  shape_sample(m.rates.context_bytes);
  shape_sample(m.rates.nccl_bytes);
  shape_sample(m.rates.device_mpi_bytes);
  shape_sample(m.rates.interference.compute_share);
  shape_sample(m.rates.interference.message_delay.value);
  for (auto* copies : {&m.rates.to_device, &m.rates.to_host}) {
    shape_sample(copies->latency.value);
    shape_sample(copies->bandwidth.value);
  }
  for (auto& elements : m.rates.elements)
    for (auto& element : elements) {
      shape_sample(element.per_million.value);
      shape_sample(element.relative_scatter);
    }
  for (auto& shape : m.shapes) {
    for (auto& s : shape.seconds) shape_sample(s.value);
    for (auto& s : shape.scatter) shape_sample(s);
  }
}

using Ranks = std::vector<std::size_t>;
using Number = std::function<double(const RankMeasurements&)>;

double middle(const std::vector<RankMeasurements>& all, const Ranks& ranks, const Number& number) {
  std::vector<double> values;
  for (std::size_t r : ranks) values.push_back(number(all[r]));
  return median(values);
}

/// Scatter inside a rank, or between the ranks of the type where that is more.
double scatter(const std::vector<RankMeasurements>& all, const Ranks& ranks, const Number& time, const Number& inside) {
  std::vector<double> times;
  for (std::size_t r : ranks) times.push_back(time(all[r]));
  return std::max(middle(all, ranks, inside), relative_scatter(times));
}

/// One device type's part of the profile.
class TypeMerge {
 public:
  TypeMerge(const ProbeRequest& request, const std::string& name, const Ranks& ranks, const std::vector<RankMeasurements>& all,
            cluster::Profile& profile)
      : request_{request}, name_{name}, ranks_{ranks}, all_{all}, profile_{profile} {}

  void add(const Discovery& here) {
    type_.name = name_;
    type_.memory = least(here.memory);
    if (const auto& gpu = here.gpus[ranks_.front()]; !gpu.empty()) describe_gpu(gpu, least(here.host_memory));
    type_.peak_fp32 = {middle(all_, ranks_, [](const RankMeasurements& m) { return m.rates.peak_fp32.value; })};
    type_.peak_bf16 = {middle(all_, ranks_, [](const RankMeasurements& m) { return m.rates.peak_bf16.value; })};
    type_.memory_bandwidth = {middle(all_, ranks_, [](const RankMeasurements& m) { return m.rates.memory_bandwidth.value; })};
    type_.interference = {middle(all_, ranks_, [](const RankMeasurements& m) { return m.rates.interference.compute_share; }),
                          {middle(all_, ranks_, [](const RankMeasurements& m) { return m.rates.interference.message_delay.value; })}};
    type_.source = text("probe", type_.source);
    for (std::size_t s = 0; s < all_.front().shapes.size(); ++s)
      for (std::size_t o = 0; o < all_.front().shapes[s].seconds.size(); ++o) add_operation(s, o);
    for (std::size_t p = 0; p < request_.precisions.size(); ++p)
      for (std::size_t e = 0; e < all_.front().rates.elements[p].size(); ++e) add_element(p, e);
    profile_.device_types.push_back(type_);
  }

 private:
  Bytes least(const std::vector<Bytes>& memory) const {
    Bytes least = memory[ranks_.front()];
    for (std::size_t r : ranks_) least = std::min(least, memory[r]);
    return least;
  }

  void describe_gpu(const std::string& gpu, Bytes host_memory) {
    type_.kind = cluster::DeviceKind::gpu;
    type_.source = " of " + gpu;
    type_.host_memory = host_memory;
    type_.to_device = copies([](const RankMeasurements& m) -> const auto& { return m.rates.to_device; });
    type_.to_host = copies([](const RankMeasurements& m) -> const auto& { return m.rates.to_host; });
    type_.context = most([](const RankMeasurements& m) { return m.rates.context_bytes; });
    type_.nccl_memory = most([](const RankMeasurements& m) { return m.rates.nccl_bytes; });
    type_.device_mpi_memory = most([](const RankMeasurements& m) { return m.rates.device_mpi_bytes; });
  }

  Bytes most(const Number& bytes) const {
    double most = 0;
    for (std::size_t r : ranks_) most = std::max(most, bytes(all_[r]));
    return {static_cast<std::int64_t>(most)};
  }

  template <class Way>
  cluster::CopyRate copies(Way way) const {
    return {{middle(all_, ranks_, [&](const RankMeasurements& m) { return way(m).latency.value; })},
            {middle(all_, ranks_, [&](const RankMeasurements& m) { return way(m).bandwidth.value; })}};
  }

  void add_operation(std::size_t s, std::size_t o) {
    const Number time = [=](const RankMeasurements& m) { return m.shapes[s].seconds[o].value; };
    const Number inside = [=](const RankMeasurements& m) { return m.shapes[s].scatter[o]; };
    const MeasuredShape& shape = all_.front().shapes[s].shape;
    const model::Operation operation = measured_operation(o);
    const Seconds seconds{middle(all_, ranks_, time)};
    if (o >= whole_count && !(seconds.value > 0)) return;  // halves that no visit measured
    profile_.operation_times.push_back({name_, std::string{model::to_string(operation)}, shape.tensor_parallel, shape.sequences,
                                        request_.length, shape.precision, seconds, scatter(all_, ranks_, time, inside)});
    const model::LayerShape layer{shape.sequences, request_.length, shape.tensor_parallel, 0, shape.precision};
    raise_peak(shape.precision, model::flops(request_.model, layer, operation) / std::max(seconds.value, 1e-9));
  }

  void raise_peak(Precision precision, double rate) {
    FlopsPerSecond& peak = precision == Precision::fp32   ? type_.peak_fp32
                           : precision == Precision::bf16 ? type_.peak_bf16
                                                          : type_.peak_fp16;
    peak.value = std::max(peak.value, rate);
  }

  void add_element(std::size_t p, std::size_t e) {
    const Number time = [=](const RankMeasurements& m) { return m.rates.elements[p][e].per_million.value; };
    const Number inside = [=](const RankMeasurements& m) { return m.rates.elements[p][e].relative_scatter; };
    profile_.operation_times.push_back({name_,
                                        all_.front().rates.elements[p][e].operation,
                                        1,
                                        1,
                                        1,
                                        request_.precisions[p],
                                        {middle(all_, ranks_, time)},
                                        scatter(all_, ranks_, time, inside)});
  }

  const ProbeRequest& request_;
  const std::string& name_;
  const Ranks& ranks_;
  const std::vector<RankMeasurements>& all_;
  cluster::Profile& profile_;
  cluster::DeviceType type_;
};

}  // namespace

std::vector<double> numbers(const RankMeasurements& measured) {
  std::vector<double> values;
  for_numbers(measured, [&](double v) { values.push_back(v); });
  return values;
}

RankMeasurements with_numbers(RankMeasurements form, const std::vector<double>& values) {
  std::size_t next = 0;
  for_numbers(form, [&](double& v) {
    FLOTILLA_ASSERT(next < values.size(), next, " of ", values.size());
    v = values[next++];
  });
  return form;
}

cluster::Profile merge(const ProbeRequest& request, const Discovery& here, const std::vector<RankMeasurements>& by_rank) {
  cluster::Profile profile;
  profile.devices = here.devices;
  std::map<std::string, Ranks> types;
  for (const auto& device : here.devices) types[device.type].push_back(device.rank.index());
  for (const auto& [name, ranks] : types) TypeMerge{request, name, ranks, by_rank, profile}.add(here);
  return profile;
}

}  // namespace flotilla::probe
