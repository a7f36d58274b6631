#include "explain.hpp"

#include <algorithm>
#include <cmath>

#include "flotilla/base/text.hpp"

namespace flotilla::search {
namespace {

std::string words(simulate::Activity activity) {
  return activity == simulate::Activity::bubble ? "pipeline-bubble and idle time" : in_words(activity);
}

std::string cuts_of(const plan::Plan& plan) {
  std::string cuts = "0";
  for (const auto& stage : plan.stages) cuts += text("-", stage.last_layer);
  return cuts;
}

std::string percent(double ratio) {
  const double rounded = std::round(ratio * 1000) / 10;
  return text(rounded, " %");
}

}  // namespace

std::string why_lost(const Evaluated& other, const Evaluated& best) {
  if (!other.fits())
    return text("does not fit: rank ", other.tightest, " would need ", to_string(other.needed), " of ", to_string(other.limit));
  const auto &theirs = other.forecast.breakdown, &ours = best.forecast.breakdown;
  std::size_t worst = 0;
  const auto more = [&](std::size_t a) { return theirs.seconds[a] - ours.seconds[a]; };
  for (std::size_t a = 1; a < theirs.seconds.size(); ++a)
    if (more(a) > more(worst)) worst = a;
  const double slower = other.forecast.iteration / best.forecast.iteration - 1;
  if (!(slower > 0)) return text("equally fast with ", other.devices, " devices instead of ", best.devices);
  return text(percent(slower), " slower: ", to_string(more(worst)), " more ", words(static_cast<simulate::Activity>(worst)), " per device");
}

std::string describe(const plan::Plan& plan) {
  const auto& stage = plan.stages.front();
  const auto& replica = stage.replicas.front();
  std::string line = text("data ", stage.replicas.size(), " x pipeline ", plan::own_stages(plan), " x tensor ", replica.tensor_parallel,
                          ", microbatch ", replica.quanta * plan.quantum, ", ", to_string(plan.schedule), ", ",
                          stage.recompute == plan::Recompute::none ? "no" : to_string(stage.recompute), " recomputation");
  if (plan.chunks > 1) line += text(", ", plan.chunks, " stages a device");
  if (plan.sequence_parallel) line += ", sequence parallel";
  if (plan.shard_optimizer) line += ", sharded optimizer";
  if (plan.stages.size() > 1) line += ", layers " + cuts_of(plan);
  return line;
}

}  // namespace flotilla::search
