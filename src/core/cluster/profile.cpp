#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "flotilla/base/error.hpp"
#include "flotilla/cluster/cluster.hpp"

namespace flotilla::cluster {
namespace {

struct CurveSample {
  std::int64_t tokens = 0;
  int distance = 0;  // of its length from the wanted one
  Seconds time;
};

std::int64_t tokens(int sequences, int length) { return std::int64_t{sequences} * length; }

Seconds in_proportion(const CurveSample& sample, std::int64_t wanted) {
  return sample.time * (static_cast<double>(wanted) / static_cast<double>(sample.tokens));
}

/// On the line through both.
Seconds on_line(const CurveSample& a, const CurveSample& b, std::int64_t wanted) {
  const double part = static_cast<double>(wanted - a.tokens) / static_cast<double>(b.tokens - a.tokens);
  return a.time * (1 - part) + b.time * part;
}

/// Samples scatter, so that the ends may be the wrong way round.
SizedTime between(Seconds time, Seconds one, Seconds other) { return {time, std::min({time, one, other}), std::max({time, one, other})}; }

/// Linear between neighbours, proportional outside them. `samples` is in increasing order of tokens, which differ.
SizedTime interpolate(const std::vector<CurveSample>& samples, std::int64_t wanted) {
  const auto above = std::ranges::lower_bound(samples, wanted, {}, &CurveSample::tokens);
  if (above != samples.end() && above->tokens == wanted) return {above->time, above->time, above->time};
  if (above == samples.begin()) return between(in_proportion(*above, wanted), in_proportion(*above, wanted), above->time);
  const CurveSample& below = *(above - 1);
  if (above == samples.end()) {
    const Seconds as_steep = samples.size() > 1 ? on_line(*(above - 2), below, wanted) : below.time;
    return between(in_proportion(below, wanted), in_proportion(below, wanted), std::max(below.time, as_steep));
  }
  return between(on_line(below, *above, wanted), std::max(below.time, in_proportion(*above, wanted)),
                 std::min(above->time, in_proportion(below, wanted)));
}

/// In order of tokens; of several with as many tokens, the one of the nearest length.
void sort_and_thin(std::vector<CurveSample>& samples) {
  std::ranges::stable_sort(samples, [](const CurveSample& a, const CurveSample& b) {
    return a.tokens != b.tokens ? a.tokens < b.tokens : a.distance < b.distance;
  });
  const auto [first, last] = std::ranges::unique(samples, {}, &CurveSample::tokens);
  samples.erase(first, last);
}

std::string describe(const Device& d) {
  return text(d.type, " on ", d.host, d.zone.empty() ? "" : " in " + d.zone, " with ", d.threads, d.threads == 1 ? " thread" : " threads");
}

}  // namespace

const DeviceType* find_type(const Profile& profile, const std::string& name) {
  const auto found = std::ranges::find(profile.device_types, name, &DeviceType::name);
  return found == profile.device_types.end() ? nullptr : &*found;
}

bool is_per_element(const std::string& operation) {
  return operation == "adamw" || operation == "squared_norm" || operation == "cast" || operation == "add";
}

std::optional<SizedTime> sized_operation_time(const Profile& profile, const std::string& device_type, const std::string& operation,
                                              int tensor_parallel, int sequences, int length, Precision precision) {
  std::vector<CurveSample> same_length, all;
  for (const OperationTime& t : profile.operation_times) {
    if (t.tensor_parallel != tensor_parallel || t.precision != precision || t.operation != operation || t.device_type != device_type)
      continue;
    if (t.sequences == sequences && t.length == length) return SizedTime{t.time, t.time, t.time};
    const CurveSample sample{tokens(t.sequences, t.length), std::abs(t.length - length), t.time};
    all.push_back(sample);
    if (t.length == length) same_length.push_back(sample);
  }
  if (all.empty()) return std::nullopt;
  // Attention grows with the square of the length, so a size of the same length says more than one of as many tokens.
  std::vector<CurveSample>& samples = same_length.empty() ? all : same_length;
  sort_and_thin(samples);
  return interpolate(samples, tokens(sequences, length));
}

std::optional<Seconds> operation_time(const Profile& profile, const std::string& device_type, const std::string& operation,
                                      int tensor_parallel, int sequences, int length, Precision precision) {
  const auto sized = sized_operation_time(profile, device_type, operation, tensor_parallel, sequences, length, precision);
  return sized ? std::optional{sized->time} : std::nullopt;
}

std::string why_stale(const Profile& profile, const std::vector<Device>& devices, const std::string& software,
                      const std::string& model_fingerprint) {
  if (profile.devices.size() != devices.size())
    return text("it was measured on ", profile.devices.size(), " devices, there are now ", devices.size());
  for (std::size_t i = 0; i < devices.size(); ++i)
    if (profile.devices[i] != devices[i])
      return text("rank ", devices[i].rank, " was ", describe(profile.devices[i]), ", it is now ", describe(devices[i]));
  if (profile.software != software) return text("it was measured with ", profile.software, ", this is ", software);
  if (profile.model_fingerprint != model_fingerprint) return "it was measured for a model of another shape";
  return "";
}

}  // namespace flotilla::cluster
