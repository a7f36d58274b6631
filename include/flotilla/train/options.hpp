#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "flotilla/base/units.hpp"
#include "flotilla/cluster/cluster.hpp"
#include "flotilla/compute/backend.hpp"
#include "flotilla/program/launch_order.hpp"
#include "flotilla/train/learning_rate.hpp"

namespace flotilla::train {

/// How what GPUs exchange moves.
struct ChosenTransports {
  std::vector<cluster::Transport> groups;                   ///< by the training program's groups
  std::map<std::pair<int, int>, cluster::Transport> pairs;  ///< messages, by sender and receiver; through the hosts' memory where absent
};

/// What a trainer does with a program; nothing here changes which instructions run.
struct Options {
  std::uint64_t seed = 1;
  std::map<std::int64_t, LearningRate> learning_rates{{0, {}}};  ///< by the step from which each counts
  double beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8, weight_decay = 0.1;
  double clip = 1.0;                ///< largest gradient norm, 0: no clipping
  std::int64_t loss_scale = 65536;  ///< of the first step in fp16: a power of two
  bool skip_non_finite = false;     ///< leave out the update of a step whose loss or gradient is not finite, and go on
  compute::ComputeDevice device{};  ///< of this rank
  int threads = 1;                  ///< compute threads
  /// Between GPUs, where it passes its proof; else through the hosts' memory. The same on all ranks, as what was chosen in its place.
  cluster::Transport transport = cluster::Transport::nccl;
  std::optional<ChosenTransports> transports{};
  Seconds deadline{600};  ///< a message or collective that does not move for longer is an error
  bool poison = false;    ///< for tests: temporaries become NaN as soon as the program is done with them
  bool record = false;    ///< keep when each instruction ran, for a timeline
  std::function<void(program::LaunchOrder&)> change_launches;  ///< for tests: another order of what GPUs launch; the same on all ranks
  bool prove_launches = true;                                  ///< for tests: false takes an order without its proof
};

}  // namespace flotilla::train
