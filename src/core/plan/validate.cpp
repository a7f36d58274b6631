#include <algorithm>
#include <cstdint>
#include <limits>
#include <unordered_map>

#include "flotilla/base/error.hpp"
#include "flotilla/plan/plan.hpp"

namespace flotilla::plan {
namespace {

/// A field of a replica. Spelled only for what is wrong: a plan may have 100,000 replicas.
struct Field {
  std::size_t stage, replica;
  const char* name;
};
std::string spell(const Field& f) { return text("stages[", f.stage, "].replicas[", f.replica, "].", f.name); }
const std::string& spell(const std::string& where) { return where; }

/// Collects problems; `where` is spelled like the path to the field.
struct Findings {
  std::vector<PlanProblem> problems;

  template <class Where, class... Parts>
  void expect(bool good, const Where& where, const Parts&... what) {
    if (!good) problems.push_back({spell(where), text(what...)});
  }
};

std::string at(const std::string& where, std::size_t index) { return text(where, "[", index, "]"); }

/// A model that cannot be would make every other message nonsense.
bool model_is_possible(const Plan& plan, Findings& found) {
  try {
    model::check(plan.model, "model");
    return true;
  } catch (const Error& error) {
    const std::string what = error.what(), lead = "model: ";
    found.problems.push_back({"model", what.starts_with(lead) ? what.substr(lead.size()) : what});
    return false;
  }
}

bool batch_is_possible(const Plan& plan, Findings& found) {
  found.expect(plan.length >= 1 && plan.length <= plan.model.positions, "length", "is ", plan.length, ", expected 1 to ",
               plan.model.positions, ", the model's positions");
  found.expect(plan.global_batch >= 1, "global_batch", "is ", plan.global_batch, ", expected at least 1 sequence");
  found.expect(plan.quantum >= 1 && plan.global_batch % std::max(plan.quantum, 1) == 0, "quantum", "is ", plan.quantum,
               ", expected a divisor of the global batch, ", plan.global_batch);
  return plan.global_batch >= 1 && plan.quantum >= 1 && plan.global_batch % plan.quantum == 0;
}

void check_layers(const Plan& plan, Findings& found) {
  const int layers = plan.model.layers();
  int next = 0;
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const Stage& stage = plan.stages[s];
    const std::string where = at("stages", s) + ".layers";
    found.expect(stage.first_layer == next, where, "starts at layer ", stage.first_layer, ", expected ", next,
                 s == 0 ? ", the embedding" : ", where the stage before it ends");
    found.expect(stage.last_layer > stage.first_layer && stage.last_layer <= layers, where, "ends before layer ", stage.last_layer,
                 ", expected ", std::int64_t{stage.first_layer} + 1, " to ", layers);
    next = stage.last_layer;
  }
  if (!plan.stages.empty())
    found.expect(next == layers, at("stages", plan.stages.size() - 1) + ".layers", "ends before layer ", next, ", but the model has ",
                 layers, " layers and the last stage must reach the head");
}

void check_degree(const Plan& plan, std::size_t stage, std::size_t r, Findings& found) {
  const Replica& replica = plan.stages[stage].replicas[r];
  const int most = model::largest_tensor_parallel(plan.model);
  found.expect(replica.tensor_parallel >= 1 && replica.tensor_parallel <= most, Field{stage, r, "tensor_parallel"}, "is ",
               replica.tensor_parallel, ", expected 1 to ", most, ", ", model::limit_of_tensor_parallel(plan.model));
}

void check_shares(const Plan& plan, std::size_t stage, std::size_t r, Findings& found) {
  const Replica& replica = plan.stages[stage].replicas[r];
  found.expect(replica.quanta >= 1 && replica.quanta <= plan.global_batch / plan.quantum, Field{stage, r, "quanta"}, "is ", replica.quanta,
               ", expected 1 to ", plan.global_batch / plan.quantum, ", the quanta of the global batch");
  found.expect(replica.sequences >= 1 && replica.sequences <= plan.global_batch && replica.sequences % plan.quantum == 0,
               Field{stage, r, "sequences"}, "is ", replica.sequences, ", expected a multiple of the quantum, ", plan.quantum, ", from ",
               plan.quantum, " to ", plan.global_batch);
}

void check_sum(const Plan& plan, const Stage& stage, const std::string& where, Findings& found) {
  std::int64_t sum = 0;
  for (const Replica& replica : stage.replicas) sum += replica.sequences;
  found.expect(sum == plan.global_batch, where, "handle ", sum, " sequences together, expected the global batch, ", plan.global_batch);
}

/// Devices: all bound or none; ranks 0 … n-1, each once.
class Devices {
 public:
  Devices(const Plan& plan, Findings& found) : found_{found} {
    std::int64_t named = 0;
    for (int s = 0; s < own_stages(plan); ++s)
      for (const Replica& replica : plan.stages[static_cast<std::size_t>(s)].replicas) {
        needed_ += replica.tensor_parallel;
        named += static_cast<std::int64_t>(replica.devices.size());
      }
    any_bound_ = named > 0;
    seen_.resize(static_cast<std::size_t>(std::clamp<std::int64_t>(needed_, 0, named)));
    found_.expect(needed_ <= std::numeric_limits<int>::max(), "stages", "need ", needed_, " devices together, expected at most ",
                  std::numeric_limits<int>::max());
  }

  void check(const Replica& replica, int stage, int index) {
    if (!any_bound_) return;
    if (static_cast<std::int64_t>(replica.devices.size()) != replica.tensor_parallel) {
      found_.expect(false, where({stage, index, -1}), "names ", replica.devices.size(), " ranks, expected ", replica.tensor_parallel,
                    ", the tensor-parallel degree (or no devices anywhere in the plan)");
      return;
    }
    for (int i = 0; i < replica.tensor_parallel; ++i) check(replica.devices[static_cast<std::size_t>(i)], {stage, index, i});
  }

 private:
  static std::string where(const RankCoordinates& place) {
    const std::string devices = text("stages[", place.stage, "].replicas[", place.replica, "].devices");
    return place.tensor_index < 0 ? devices : text(devices, "[", place.tensor_index, "]");
  }

  void check(Rank rank, const RankCoordinates& place) {
    if (!rank.valid() || rank.value >= needed_)
      found_.expect(false, where(place), "is rank ", rank, ", expected 0 to ", needed_ - 1, ": a plan of n devices uses ranks 0 to n-1");
    RankCoordinates& earlier = rank.valid() && rank.index() < seen_.size() ? seen_[rank.index()] : strays_[rank];
    if (earlier.stage >= 0)
      found_.expect(false, where(place), "is rank ", rank, " again; it already stands at ", where(earlier));
    else
      earlier = place;
  }

  Findings& found_;
  std::vector<RankCoordinates> seen_;                 // by rank, as far as ranks of this plan go
  std::unordered_map<Rank, RankCoordinates> strays_;  // where other ranks stand
  std::int64_t needed_ = 0;
  bool any_bound_ = false;
};

void check_chunks(const Plan& plan, Findings& found) {
  const bool interleaved = plan.schedule == ScheduleKind::interleaved;
  const auto stages = static_cast<int>(plan.stages.size());
  found.expect(plan.chunks >= 1 && plan.chunks <= std::max(stages, 1) && stages % std::max(plan.chunks, 1) == 0, "chunks", "is ",
               plan.chunks, ", expected a divisor of the number of stages, ", stages);
  found.expect(interleaved || plan.chunks == 1, "chunks", "is ", plan.chunks, ", expected 1 unless the schedule is interleaved");
  if (!found.problems.empty()) return;
  for (int s = own_stages(plan); s < stages; ++s) {
    const int owner = s % own_stages(plan);
    found.expect(plan.stages[static_cast<std::size_t>(s)].replicas == plan.stages[static_cast<std::size_t>(owner)].replicas,
                 at("stages", static_cast<std::size_t>(s)) + ".replicas", "differ from those of stage ", owner,
                 ", expected the same: both stand on the same devices");
  }
}

void check_replicas(const Plan& plan, bool batch_possible, Findings& found) {
  Devices devices{plan, found};
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const Stage& stage = plan.stages[s];
    const std::string replicas = at("stages", s) + ".replicas";
    found.expect(!stage.replicas.empty(), replicas, "is empty, expected at least one replica");
    for (std::size_t r = 0; r < stage.replicas.size(); ++r) {
      check_degree(plan, s, r, found);
      if (batch_possible) check_shares(plan, s, r, found);
      if (static_cast<int>(s) < own_stages(plan)) devices.check(stage.replicas[r], static_cast<int>(s), static_cast<int>(r));
    }
    if (batch_possible && !stage.replicas.empty()) check_sum(plan, stage, replicas, found);
  }
}

}  // namespace

std::vector<PlanProblem> validate(const Plan& plan) {
  Findings found;
  if (!model_is_possible(plan, found)) return found.problems;
  const bool batch_possible = batch_is_possible(plan, found);
  found.expect(!plan.stages.empty(), "stages", "is empty, expected at least one stage");
  check_layers(plan, found);
  check_chunks(plan, found);
  check_replicas(plan, batch_possible, found);
  return found.problems;
}

void require_valid(const Plan& plan, const std::string& source) {
  const std::vector<PlanProblem> problems = validate(plan);
  FLOTILLA_REQUIRE(problems.empty(), ErrorKind::bad_input, source, ": ", problems.front().where, ": ", problems.front().what);
}

}  // namespace flotilla::plan
