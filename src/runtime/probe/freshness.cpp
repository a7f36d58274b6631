#include "freshness.hpp"

#include <algorithm>

#include "coverage.hpp"
#include "device_links.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/base/utc.hpp"
#include "flotilla/cluster/transports.hpp"
#include "flotilla/model/operations.hpp"

namespace flotilla::probe {
namespace {

/// The first required thing that the profile does not hold.
std::string missing(const cluster::Profile& profile, const ProbeRequest& request) {
  for (const auto& type : profile.device_types)
    for (const MeasuredShape& shape : shapes(request, static_cast<int>(profile.devices.size()), false)) {
      if (!shape.required) continue;
      for (int o = 0; o < model::operation_count; ++o) {
        const std::string name{model::to_string(static_cast<model::Operation>(o))};
        if (!cluster::operation_time(profile, type.name, name, shape.tensor_parallel, shape.sequences, request.length, shape.precision))
          return text("it lacks ", name, " at tensor-parallel degree ", shape.tensor_parallel, " in ", to_string(shape.precision));
      }
    }
  return "";
}

std::string too_old(const cluster::Profile& profile, Seconds longest_age, const std::string& now) {
  const auto then = parse_utc(profile.measured_at), current = parse_utc(now);
  if (!then || !current) return "it does not say when it was measured";
  const Seconds age{*current - *then};
  if (age.value < -60) return text("it was measured at ", profile.measured_at, ", which is yet to come");
  return age > longest_age ? text("it is ", age, " old, older than ", longest_age) : "";
}

}  // namespace

std::string model_fingerprint(const model::Config& m, int length) { return model::fingerprint(m, length); }

std::string why_not_fresh(const cluster::Profile& profile, const Discovery& here, const ProbeRequest& request, Seconds longest_age,
                          const std::string& now) {
  if (auto why = cluster::why_stale(profile, here.devices, here.software, here.model_fingerprint); !why.empty()) return why;
  if (auto why = missing(profile, request); !why.empty()) return why;
  for (const auto transport : cluster::device_transports)
    if (!ranks_to_measure(request, here, transport).empty() &&
        std::ranges::count(profile.device_links, transport, &cluster::DeviceLink::transport) == 0)
      return text("it has no links between GPUs by ", cluster::in_words(transport));
  return too_old(profile, longest_age, now);
}

}  // namespace flotilla::probe
