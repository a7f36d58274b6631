#pragma once
#include <vector>

#include "flotilla/probe/probe.hpp"
#include "operations.hpp"

namespace flotilla::probe {

/// Everything one rank measured about its device. The same shapes and precisions on every rank.
struct RankMeasurements {
  DeviceRates rates;
  std::vector<ShapeTimes> shapes;
};

/// The numbers in it, in a fixed order; as many on every rank.
std::vector<double> numbers(const RankMeasurements&);
/// `values` put into a copy of `form`.
RankMeasurements with_numbers(RankMeasurements form, const std::vector<double>& values);

/// Device types and operation times from all ranks' measurements: of the ranks of a type the median, the least memory. A peak is never less
/// than the rate of an operation. Links, software and date are not filled in.
cluster::Profile merge(const ProbeRequest&, const Discovery&, const std::vector<RankMeasurements>& by_rank);

}  // namespace flotilla::probe
