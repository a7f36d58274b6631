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

/// Linear between neighbours, proportional outside them. `samples` is in increasing order of tokens, which differ.
Seconds interpolate(const std::vector<CurveSample>& samples, std::int64_t wanted) {
  const auto above = std::ranges::lower_bound(samples, wanted, {}, &CurveSample::tokens);
  if (above != samples.end() && above->tokens == wanted) return above->time;
  if (above == samples.begin() || above == samples.end()) {
    const CurveSample& nearest = above == samples.end() ? samples.back() : *above;
    return nearest.time * (static_cast<double>(wanted) / static_cast<double>(nearest.tokens));
  }
  const CurveSample& below = *(above - 1);
  const double part = static_cast<double>(wanted - below.tokens) / static_cast<double>(above->tokens - below.tokens);
  return below.time * (1 - part) + above->time * part;
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

std::optional<Seconds> operation_time(const Profile& profile, const std::string& device_type, const std::string& operation,
                                      int tensor_parallel, int sequences, int length, Precision precision) {
  std::vector<CurveSample> same_length, all;
  for (const OperationTime& t : profile.operation_times) {
    if (t.tensor_parallel != tensor_parallel || t.precision != precision || t.operation != operation || t.device_type != device_type)
      continue;
    if (t.sequences == sequences && t.length == length) return t.time;
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
