#pragma once
#include <span>
#include <vector>

#include "flotilla/cluster/corrections.hpp"

/// Which figures of a profile a run proves wrong: functions of numbers.
namespace flotilla::monitor {

/// What a rank's instructions show of one figure, in seconds of an iteration.
struct Evidence {
  cluster::Correction figure{};    ///< which; `error_bar` is the scatter that the profile states of it
  int group = -1;                  ///< of sums: index into Program::groups
  double runs = 0;                 ///< instructions in an iteration
  double forecast = 0;             ///< of these together
  double allowance = 0;            ///< by which they may take longer for another reason that the profile states
  std::vector<double> measured{};  ///< by iteration
};

struct ProofLimits {
  double iteration = 0;  ///< forecast seconds
  double error_bar = 0;  ///< relative, of the forecast
};

inline constexpr std::size_t least_iterations = 10;      ///< fewer prove nothing
inline constexpr double least_part_of_iteration = 0.01;  ///< that a figure must be wrong by, to matter

/// By what at least three quarters of a rank's iterations show: a figure is wrong where the lower quartile of measured / forecast is above
/// 1 + the error bar, or the upper one below 1 - the error bar; the stated one of the forecast or that of the figure, whatever is wider.
/// Its new value is the median. Of the ranks of a type, the senders of a level and the groups of a level the lower median decides: a slow
/// one among them is a finding of the self-check. Of a group the member counts that waits least. Operations of a type that no rank of it
/// ran are inferred from those that ran, if the median of these is outside the error bar. In order of what they cost.
std::vector<cluster::Correction> wrong_figures(std::span<const std::vector<Evidence>> by_rank, const ProofLimits&, const cluster::Profile&);

}  // namespace flotilla::monitor
