#pragma once
#include <map>
#include <span>
#include <string>
#include <vector>

#include "flotilla/cluster/cluster.hpp"
#include "flotilla/monitor/wrong_figures.hpp"
#include "flotilla/program/program.hpp"
#include "flotilla/simulate/forecast.hpp"
#include "flotilla/train/trainer.hpp"

namespace flotilla::monitor {

/// One run of an instruction of a rank.
struct TimedRun {
  int instruction = 0, microbatch = 0;
  double seconds = 0;
};

/// Messages smaller than this may be complete for their sender when the network has taken them, long before they arrive: four times the
/// largest limit that MPI libraries have for that by default (64 kB over TCP).
inline constexpr Bytes least_proving_message{256 << 10};

/// The figures of the profile that a rank's instructions show, and which instruction shows which.
class RankFigures {
 public:
  /// `me`: of the program; `active_ranks`: the job's ranks, in which the profile counts, by rank of the program. The program outlives this.
  RankFigures(const program::Program&, Rank me, const cluster::Profile&, const std::vector<Rank>& active_ranks);

  /// Without what was measured and forecast.
  const std::vector<Evidence>& figures() const { return figures_; }
  /// Seconds of each figure in an iteration: the sum over its instructions of their runs times the median run, so that a moment in which
  /// the rank was kept from running does not count.
  std::vector<double> seconds(std::span<const TimedRun>) const;
  std::vector<double> seconds(std::span<const train::InstructionSpan>) const;
  /// The same of a forecast timeline's spans of this rank's kind: of operations and updates. Messages and collectives start in it when data
  /// move, in a run when this end is ready: traffic() has them.
  std::vector<double> seconds(std::span<const simulate::Span>) const;
  /// Forecast seconds of messages and sums in an iteration; 0 for other figures, and where the profile knows no link.
  std::vector<double> traffic(const cluster::Profile&, const std::vector<Rank>& active_ranks) const;
  /// Runs of each figure's instructions in an iteration.
  std::vector<double> runs() const;

 private:
  int figure_of(int instruction, int microbatch) const;
  void add(int instruction, bool last, const Evidence&);
  Evidence operation(const program::LayerOperation&, int sequences, const cluster::Profile&) const;

  const program::Program& program_;
  const program::RankClass& class_;
  const Rank me_;
  std::string type_;
  std::vector<Evidence> figures_;
  std::vector<std::array<int, 2>> of_instruction_;  ///< of full microbatches, or once a step; of the last one; -1: none
};

}  // namespace flotilla::monitor
