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

/// Microbatches to measure, by importance: 1, 2, the largest, then powers of two between them, each in the middle of the widest gap (by
/// ratio) that is left. One and two sequences show what does not grow with their number. The largest follows, since times between two
/// measured sizes are known better than those beyond. `largest`: of a CPU 8 and of a GPU 64 sequences, from which on times grow in
/// proportion, or what plans use if that is less (0: not known).
std::vector<int> microbatches(int largest, bool on_gpu);

/// Shapes in the order in which they are measured: every precision and degree with one sequence first, since a degree that was never
/// measured cannot be forecast well, then those of the further microbatches().
std::vector<MeasuredShape> shapes(const ProbeRequest&, int ranks, bool on_gpu);

/// Tells whoever wants to know.
inline void report_progress(const ProbeRequest& request, const std::string& what) {
  if (request.progress) request.progress(what);
}

/// Throws Error{bad_input} naming the value that cannot be measured.
void check(const ProbeRequest&);

}  // namespace flotilla::probe
