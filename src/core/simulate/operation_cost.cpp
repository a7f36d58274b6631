#include "operation_cost.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include "flotilla/base/error.hpp"

namespace flotilla::simulate {
namespace {

bool is_time(Seconds s) { return std::isfinite(s.value) && s.value > 0; }

/// Scatter of the nearest size that was measured.
double scatter_of(const cluster::Profile& profile, const std::string& type, const std::string& operation, int degree,
                  const model::LayerShape& shape) {
  const cluster::OperationTime* nearest = nullptr;
  const auto distance = [&](const cluster::OperationTime& t) { return std::abs(std::int64_t{t.sequences} * t.length - shape.tokens()); };
  for (const auto& t : profile.operation_times)
    if (t.tensor_parallel == degree && t.precision == shape.precision && t.operation == operation && t.device_type == type &&
        (!nearest || distance(t) < distance(*nearest)))
      nearest = &t;
  return nearest && std::isfinite(nearest->relative_scatter) ? std::max(0.0, nearest->relative_scatter) : 0;
}

Seconds roofline_of(const cluster::Profile& profile, const model::Config& model, const std::string& type, model::Operation operation,
                    const model::LayerShape& shape) {
  return roofline(profile, type, shape.precision, model::flops(model, shape, operation), model::traffic(model, shape, operation));
}

/// Degrees measured for this operation, nearest to the wanted one first (by ratio, the smaller one of two).
std::vector<int> measured_degrees(const cluster::Profile& profile, const std::string& type, const std::string& operation,
                                  const model::LayerShape& shape) {
  std::set<int> degrees;
  for (const auto& t : profile.operation_times)
    if (t.precision == shape.precision && t.operation == operation && t.device_type == type && t.tensor_parallel >= 1)
      degrees.insert(t.tensor_parallel);
  std::vector<int> order{degrees.begin(), degrees.end()};
  const auto distance = [&](int degree) { return std::abs(std::log(static_cast<double>(degree) / shape.tensor_parallel)); };
  std::ranges::stable_sort(order, {}, distance);
  return order;
}

std::optional<Cost> scaled_cost(const cluster::Profile& profile, const model::Config& model, const std::string& type,
                                model::Operation operation, const model::LayerShape& shape) {
  const std::string name{model::to_string(operation)};
  const cluster::DeviceType* about = cluster::find_type(profile, type);
  if (!about || !(about->memory_bandwidth.value > 0)) return std::nullopt;
  for (int degree : measured_degrees(profile, type, name, shape)) {
    if (degree > std::min({model.heads, model.feed_forward, model.vocabulary})) continue;
    model::LayerShape there = shape;
    there.tensor_parallel = degree;
    there.tensor_index = 0;
    const auto measured = cluster::operation_time(profile, type, name, degree, shape.sequences, shape.length, shape.precision);
    const Seconds ideal = roofline_of(profile, model, type, operation, there), wanted = roofline_of(profile, model, type, operation, shape);
    if (measured && is_time(*measured) && is_time(ideal) && is_time(wanted))
      return Cost{*measured * (wanted / ideal), scaled_error + scatter_of(profile, type, name, degree, shape), true};
  }
  return std::nullopt;
}

}  // namespace

Seconds roofline(const cluster::Profile& profile, const std::string& device_type, Precision precision, double flops, Bytes traffic) {
  const cluster::DeviceType* type = cluster::find_type(profile, device_type);
  FLOTILLA_REQUIRE(type, ErrorKind::bad_input, "the cluster profile has neither times nor peak rates of device type '", device_type,
                   "'; measure it with 'flotilla probe'");
  const FlopsPerSecond peak = precision == Precision::bf16 ? type->peak_bf16 : type->peak_fp32;
  const auto usable = [](double rate) { return std::isfinite(rate) && rate > 0; };
  FLOTILLA_REQUIRE(usable(type->memory_bandwidth.value) && (flops <= 0 || usable(peak.value)), ErrorKind::bad_input,
                   "the cluster profile has no measured time and no peak rate in ", to_string(precision), " or no memory bandwidth of '",
                   device_type, "'; measure it with 'flotilla probe'");
  return {std::max(flops > 0 ? flops / peak.value : 0, (traffic / type->memory_bandwidth).value)};
}

Cost operation_cost(const cluster::Profile& profile, const model::Config& model, const std::string& device_type, model::Operation operation,
                    const model::LayerShape& shape) {
  const std::string name{model::to_string(operation)};
  const auto measured =
      cluster::operation_time(profile, device_type, name, shape.tensor_parallel, shape.sequences, shape.length, shape.precision);
  if (measured && is_time(*measured)) return {*measured, scatter_of(profile, device_type, name, shape.tensor_parallel, shape), false};
  if (const auto scaled = scaled_cost(profile, model, device_type, operation, shape)) return *scaled;
  return {roofline_of(profile, model, device_type, operation, shape), roofline_error, true};
}

std::optional<Cost> element_cost(const cluster::Profile& profile, const std::string& device_type, const std::string& operation,
                                 Precision precision) {
  const cluster::OperationTime* best = nullptr;
  for (const auto& t : profile.operation_times) {
    if (t.operation != operation || t.device_type != device_type || !is_time(t.time)) continue;
    if (!best || (best->precision != precision && t.precision == precision)) best = &t;
  }
  if (!best) return std::nullopt;
  return Cost{best->time / 1e6, std::isfinite(best->relative_scatter) ? std::max(0.0, best->relative_scatter) : 0, false};
}

}  // namespace flotilla::simulate
