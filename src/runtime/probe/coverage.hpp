#pragma once
#include <vector>

#include "flotilla/probe/probe.hpp"

namespace flotilla::probe {

/// One shape at which every operation is measured.
struct MeasuredShape {
  Precision precision = Precision::fp32;
  int tensor_parallel = 1;
  int sequences = 1;
  bool required = true;  ///< measured whatever it takes; others while the budget lasts
  bool operator==(const MeasuredShape&) const = default;
};

/// The request's degrees, or 1, 2, 4, 8 up to the number of ranks and heads.
std::vector<int> degrees(const ProbeRequest&, int ranks);

/// Shapes in the order in which they are measured: every precision and degree with one sequence first, since a degree that was never
/// measured cannot be forecast well, then larger microbatches, to which times of one sequence extrapolate in proportion.
std::vector<MeasuredShape> shapes(const ProbeRequest&, int ranks);

/// Tells whoever wants to know.
inline void report_progress(const ProbeRequest& request, const std::string& what) {
  if (request.progress) request.progress(what);
}

/// Throws Error{bad_input} naming the value that cannot be measured.
void check(const ProbeRequest&);

}  // namespace flotilla::probe
