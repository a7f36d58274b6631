#pragma once
#include <string>
#include <vector>

#include "flotilla/base/units.hpp"

namespace flotilla::bench {

struct NodeReport;
struct BenchReport;

/// What training a model made of one node, with the plan that its own profile led to. 0: not known.
struct CardEntry {
  std::string model;
  std::string precision;
  int length = 0, batch = 0;     ///< tokens of a sequence, sequences of a step
  int ranks = 0;                 ///< processes that trained together, all on this node
  std::string plan;              ///< in words
  int steps = 0;                 ///< timed
  double tokens_per_second = 0;  ///< by the median step
  double forecast = 0;           ///< tokens/s that the simulator forecast for this plan
  double watts = 0;              ///< mean while the steps were timed, of what `power` names
  std::string power;             ///< "processors and memory (RAPL), GPUs (NVML)"; where watts are 0, why they are not known
  double billing = 0;            ///< Slurm's billing units of the node for an hour
  std::string billing_unknown;   ///< why there are none
  Bytes memory_left;             ///< of the node's memory, or of the fullest GPU's, while it trained
  std::string refusal;           ///< why it was not trained; then nothing above but the model counts
  bool operator==(const CardEntry&) const = default;
};

/// Of an entry's rates; 0 where they are not known.
double tokens_per_joule(const CardEntry&);
/// Tokens for one billing unit taken for an hour.
double tokens_per_billed_unit(const CardEntry&);
/// (measured - forecast) / forecast.
double beyond_forecast(const CardEntry&);

/// One node of every type: the first of those that no test failed on.
std::vector<std::string> card_hosts(const BenchReport&);
/// The card of a node, its rates and memory also as figures, which have baselines.
void add_card(NodeReport&, std::vector<CardEntry>);

}  // namespace flotilla::bench
