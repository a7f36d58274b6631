#include "outcome.hpp"

#include <algorithm>
#include <iomanip>
#include <numeric>
#include <sstream>

#include "flotilla/base/text.hpp"

namespace flotilla::search::rules {
namespace {

constexpr double gibibyte = 1024.0 * 1024 * 1024;

std::string rounded(double value) {
  std::ostringstream out;
  out << std::setprecision(4) << value;
  return out.str();
}

/// What would have to be: times of its memory, for a plan of one kind and one pipeline.
struct MemoryMiss {
  double factor = never;
  int kind = 0, sequences = 0, stages = 0;
};

/// Stages from the end, each as long as `factor` times the memory allows: the fewest stages.
int stages_within(const FormulaProblem& p, int kind, int sequences, double factor) {
  const ReplicaKind& k = p.kinds[at(kind)];
  const double limit = p.groups[at(k.group)].memory * factor;
  int last = p.tables.layers(), stages = 0;
  while (last > 0) {
    int first = last;
    const auto needed = [&](int from) {
      return static_cast<double>(sailor::sailor_memory(p.tables, k.tensor, sequences, from, last, 0, stages + 1)->peak().count);
    };
    while (first > 0 && needed(first - 1) <= limit) --first;
    if (first == last) return 0;
    last = first;
    ++stages;
  }
  return stages;
}

MemoryMiss nearest_miss(const FormulaProblem& p) {
  MemoryMiss best;
  const Links links{p};
  for (const int sequences : p.sequences) {
    const Measures m{p, links, sequences};
    for (int k = 0; k < static_cast<int>(p.kinds.size()); ++k) {
      if (!m.usable(k) || p.groups[at(p.kinds[at(k)].group)].memory <= 0) continue;
      const int room = p.groups[at(p.kinds[at(k)].group)].count / p.kinds[at(k)].tensor;
      double low = 0, high = 1;
      const auto enough = [&](double factor) {
        const int stages = stages_within(p, k, m.sequences(), factor);
        return stages > 0 && stages <= room;
      };
      while (!enough(high) && high < 1e6) low = high, high *= 2;
      for (int i = 0; i < 40; ++i) (enough((low + high) / 2) ? high : low) = (low + high) / 2;
      if (high < best.factor) best = {high, k, m.sequences(), stages_within(p, k, m.sequences(), high)};
    }
  }
  return best;
}

}  // namespace

plan::Plan plan_of(const FormulaProblem& p, const sailor::SailorPlan& from) {
  plan::Plan plan;
  plan.model = p.request.model;
  plan.length = p.request.length;
  plan.global_batch = from.global_batch;
  plan.quantum = std::gcd(from.sequences, from.global_batch);
  const int replicas = sailor::degree(from.stages.front()), quanta = plan.global_batch / plan.quantum;
  for (const auto& stage : from.stages) {
    plan.stages.push_back({stage.first_layer, stage.last_layer, plan::Recompute::none, {}});
    int number = 0;
    for (const auto& run : stage.replicas)
      for (int i = 0; i < run.count; ++i, ++number) {
        plan::Replica replica;
        replica.device_type = p.tables.type(run.kind.type).name;
        replica.zone = run.kind.zone < 0 ? "" : p.tables.zone_name(run.kind.zone);
        replica.tensor_parallel = run.kind.tensor_parallel;
        replica.quanta = from.sequences / plan.quantum;
        replica.sequences = plan.quantum * (quanta / replicas + (number < quanta % replicas ? 1 : 0));
        plan.stages.back().replicas.push_back(replica);
      }
  }
  return plan;
}

std::string space_of(const FormulaProblem& p) {
  const Restrictions& r = p.request.restrictions;
  std::string space = "one microbatch size, equally many replicas in every stage, layers cut ";
  space += r.even_layers ? "evenly" : "anywhere";
  space += r.one_device_type ? ", one device type, any zone" : ", any device type and zone for every replica";
  space += r.one_tensor_degree_per_stage ? ", one tensor degree in a stage" : ", any tensor degree for every replica";
  return space + " (powers of two that divide the node)";
}

std::string why_none(const FormulaProblem& p, const std::optional<PlanAnswer>& free) {
  if (free && free->best) {
    const auto& usd = free->best->usd;
    const bool fastest = p.request.objective.limits.iterations_per_second || !usd;
    return text("no plan keeps the limits; without them the ", fastest ? "fastest" : "cheapest", " makes ",
                rounded(1 / free->best->iteration.value), " iterations/s", usd ? text(" for ", rounded(*usd), " USD each") : "",
                "; loosen a limit or enlarge the pool");
  }
  if (free) return free->no_plan_reason;
  const MemoryMiss miss = nearest_miss(p);
  if (miss.factor >= never) return "no type of the pool was measured with this model at a microbatch that fits the batch; give other types";
  if (miss.factor <= 1) return "no plan is as it was asked for; leave degrees, cuts or the microbatch open, or enlarge the pool";
  const ReplicaKind& kind = p.kinds[at(miss.kind)];
  const TypeInRegion& group = p.groups[at(kind.group)];
  return text("the model fits nowhere; nearest: ", miss.stages, " stages on ", p.tables.type(group.type).name, " at tensor degree ",
              kind.tensor, " and microbatches of ", miss.sequences, " need ", rounded(group.memory * miss.factor / gibibyte),
              " GiB of a device that has ", rounded(group.memory / gibibyte), " GiB; take devices with more memory, or more of them");
}

}  // namespace flotilla::search::rules
