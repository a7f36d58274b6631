#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "flotilla/cluster/cluster.hpp"

namespace flotilla::cluster {

/// A figure of a profile that a run measured otherwise, with where the new value comes from. An operation of a device type is one at one
/// size; messages and sums are those of all links of a level, so that one slow device or link is nobody's figure.
struct Correction {
  enum class Figure : std::uint8_t { operation, messages, sums };
  Figure figure = Figure::operation;
  std::string device_type{};  ///< of an operation
  std::string operation{};    ///< OperationTime::operation
  int tensor_parallel = 1, sequences = 1, length = 1;
  Precision precision = Precision::fp32;
  LinkLevel level = LinkLevel::node;  ///< of messages and sums
  Seconds was{}, now{};               ///< seconds of one, as the run had them: forecast by the profile; median of the run's iterations
  double lower = 1, upper = 1;        ///< quartiles of the iterations' measured / forecast
  double error_bar = 0;               ///< relative, that the forecast stated
  int iterations = 0;                 ///< that were measured
  bool inferred = false;              ///< not run on this type: as its other operations in the median
  std::string run{};                  ///< directory
  std::int64_t step = 0;              ///< of the run, after the last of the iterations

  double factor() const { return was.value > 0 ? now / was : 1; }
  bool operator==(const Correction&) const = default;
};

/// "attention_forward on cpu:AMD EPYC 9654:2t", "messages within a host", "all-reduces between hosts", "all-reduces between zones".
std::string name_of(const Correction&);
/// Whether both say something of the same figure, at the same size.
bool same_figure(const Correction&, const Correction&);

/// The profile with those figures. Times of an operation that were measured at several sizes or tensor-parallel degrees all change, each
/// by the factor of the nearest that was corrected: a run sees one or two of them, and the planner compares all. What the profile had not
/// at all is added as it was measured. Links change in all their sizes; sums do in Link::sum_pieces, where a link has none in its messages.
Profile corrected(Profile, std::span<const Correction>);
/// Earlier corrections, but those that `later` ones replace, then these.
std::vector<Correction> merged(std::vector<Correction> earlier, std::span<const Correction> later);

}  // namespace flotilla::cluster
