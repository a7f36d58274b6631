#include <algorithm>
#include <numeric>

#include "document.hpp"
#include "flotilla/base/foreign_text.hpp"
#include "flotilla/files/sailor.hpp"

namespace flotilla::files {
namespace {

constexpr int most_devices = 1 << 20;
constexpr int most_sequences = 1 << 24;

/// The names that one spelling has for the parts of a pipeline.
struct Spelling {
  const char *pipelines, *replicas, *degrees;
};
constexpr Spelling planner_spelling{"pipeline_list", "tmp_per_stage", "dp"};
constexpr Spelling simulator_spelling{"pipelines", "tmp_stages", "dp_degrees"};

/// What a document says, before the batch is dealt.
struct Grid {
  std::vector<plan::Stage> stages;  ///< replicas without shares
  int sequences = 0;                ///< of a microbatch
};

std::vector<Json> listed(const Json& place, std::size_t most) {
  if (place.is_array() && place.size() > most) place.refuse(text("has ", place.size(), " elements; expected at most ", most));
  return place.items();
}

/// Puts layers, as the artifact counts them, into stages of ours.
class Layers {
 public:
  explicit Layers(const model::Config& model) : model_{model}, count_{model.layers() + (sailor_counts_final_norm(model) ? 1 : 0)} {}

  int count() const { return count_; }

  /// The next stage, whose first and last layers are these.
  plan::Stage stage(const Json& place, int first, int last) {
    if (first != next_)
      place.refuse(text("starts at layer ", first, "; expected ", next_, next_ == 0 ? "" : ", where the stage before ends"));
    if (last < first || last >= count_)
      place.refuse(text("ends at layer ", last, "; expected ", first, " to ", count_ - 1, " of ", model_.name));
    next_ = last + 1;
    plan::Stage stage;
    stage.first_layer = ours(first);
    stage.last_layer = next_ == count_ ? model_.layers() : ours(next_);
    if (stage.last_layer <= stage.first_layer)
      place.refuse(text("holds the norm before the head alone, which is part of the head here; give it to a neighbour"));
    return stage;
  }

  void require_whole(const Json& place) const {
    if (next_ != count_)
      place.refuse(text("ends at layer ", next_ - 1, "; expected all ", count_, " of ", model_.name, ": is --model.name right?"));
  }

 private:
  /// A norm that stands alone before the head goes with the head.
  int ours(int layer) const { return std::min(layer, model_.layers() - 1); }

  const model::Config& model_;
  int count_ = 0;
  int next_ = 0;
};

/// [[[type, per node, zone], ...], degree]
plan::Replica replica_in(const Json& place) {
  const auto parts = place.items();
  if (parts.size() != 2) place.refuse("expected [[[type, devices per node, zone], ...], tensor-parallel degree]");
  plan::Replica replica;
  replica.tensor_parallel = parts[1].as_int(1, most_devices);
  const auto nodes = listed(parts[0], most_devices);
  if (nodes.empty()) parts[0].refuse("is empty; expected at least one [type, devices per node, zone]");
  for (const Json& node : nodes) {
    const auto words = node.items();
    if (words.size() != 3) node.refuse("expected [type, devices per node, zone]");
    const std::string type = words[0].as_string(), zone = words[2].as_string();
    words[1].as_int(1, most_devices);
    if (&node != &nodes.front() && (type != replica.device_type || zone != replica.zone))
      node.refuse(
          text("a replica of ", replica.device_type, "@", replica.zone, " and ", type, "@", zone, "; expected one type in one zone"));
    replica.device_type = type;
    replica.zone = zone;
  }
  return replica;
}

std::vector<plan::Replica> replicas_in(const Json& place, const Json& degree) {
  std::vector<plan::Replica> replicas;
  for (const Json& replica : listed(place, most_devices)) replicas.push_back(replica_in(replica));
  if (replicas.empty()) place.refuse("is empty; expected at least one replica");
  if (degree.as_int() != static_cast<int>(replicas.size()))
    degree.refuse(text("is ", degree.as_int(), ", but the stage lists ", replicas.size(), " replicas"));
  return replicas;
}

plan::Stage listed_stage(const Json& ids, Layers& layers) {
  const auto numbers = listed(ids, most_sequences);
  if (numbers.empty()) ids.refuse("is empty; expected at least one layer");
  int next = numbers.front().as_int(0);
  for (const Json& number : numbers)
    if (number.as_int() != next++) number.refuse(text("expected ", next - 1, ": the layers of a stage follow one another"));
  return layers.stage(ids, numbers.front().as_int(), next - 1);
}

Grid pipeline_in(const Json& document, const Spelling& spelling, const model::Config& model) {
  const auto pipelines = document.at(spelling.pipelines).items();
  if (pipelines.size() != 1)
    document.at(spelling.pipelines).refuse(text("has ", pipelines.size(), " pipelines; expected one: side by side they are replicas here"));
  const Json& pipeline = pipelines.front();
  const auto ids = pipeline.at("layers_per_stage").items(), replicas = pipeline.at(spelling.replicas).items(),
             degrees = pipeline.at(spelling.degrees).items();
  for (const auto& [key, list] : {std::pair{spelling.replicas, &replicas}, {spelling.degrees, &degrees}})
    if (list->size() != ids.size()) pipeline.at(key).refuse(text("has ", list->size(), " stages; layers_per_stage has ", ids.size()));
  Grid grid;
  Layers layers{model};
  for (std::size_t s = 0; s < ids.size(); ++s) {
    grid.stages.push_back(listed_stage(ids[s], layers));
    grid.stages.back().replicas = replicas_in(replicas[s], degrees[s]);
  }
  layers.require_whole(pipeline.at("layers_per_stage"));
  grid.sequences = document.get_int("mbs", 1, most_sequences);
  return grid;
}

/// P stages, the first of them a layer longer where the layers do not divide; D replicas; T devices each.
Grid even_grid(const Json& document, const model::Config& model) {
  Layers layers{model};
  const int stages = document.get_int("P", 1, layers.count()), degree = document.get_int("D", 1, most_devices);
  plan::Replica replica;
  replica.device_type = document.get_string("gpu_type");
  replica.zone = get_string_or(document, "zone", "");
  replica.tensor_parallel = document.get_int("T", 1, most_devices);
  Grid grid;
  for (int s = 0, first = 0; s < stages; ++s) {
    const int last = first + layers.count() / stages + (s < layers.count() % stages ? 1 : 0) - 1;
    grid.stages.push_back(layers.stage(document.at("P"), first, last));
    grid.stages.back().replicas.assign(static_cast<std::size_t>(degree), replica);
    first = last + 1;
  }
  grid.sequences = document.get_int("mbs", 1, most_sequences);
  return grid;
}

/// Stages with replicas and how many there are of each.
Grid counted_grid(const Json& document, const model::Config& model) {
  Grid grid;
  Layers layers{model};
  for (const Json& place : document.at("stages").items()) {
    grid.stages.push_back(layers.stage(place, place.get_int("first_layer", 0), place.get_int("last_layer", 0)));
    auto& replicas = grid.stages.back().replicas;
    for (const Json& kind : place.at("replicas").items()) {
      plan::Replica replica;
      replica.device_type = kind.get_string("device_type");
      replica.zone = get_string_or(kind, "zone", "");
      replica.tensor_parallel = kind.get_int("tensor_parallel", 1, most_devices);
      const int count = kind.get_int("count", 1, most_devices - static_cast<int>(replicas.size()));
      replicas.insert(replicas.end(), static_cast<std::size_t>(count), replica);
    }
    if (replicas.empty()) place.at("replicas").refuse("is empty; expected at least one replica");
  }
  layers.require_whole(document.at("stages"));
  grid.sequences = document.get_int("microbatch_size", 1, most_sequences);
  return grid;
}

Grid grid_in(const Json& document, const model::Config& model) {
  for (const Spelling& spelling : {planner_spelling, simulator_spelling})
    if (document.has(spelling.pipelines)) return pipeline_in(document, spelling, model);
  if (document.has("P")) return even_grid(document, model);
  if (document.has("stages")) return counted_grid(document, model);
  document.refuse("no plan of the Sailor artifact; expected pipeline_list, pipelines, P, or stages");
}

/// A list of plans that holds just one stands for it.
Json one_of(const Json& document) {
  const Json list = document.is_object() && document.has("runs") ? document.at("runs") : document;
  if (!list.is_array()) return list;
  if (list.size() != 1) list.refuse(text("holds ", list.size(), " plans; keep one of them in a file of its own"));
  return list.items().front();
}

int batch_of(const Json& entry, std::optional<int> given) {
  for (const char* key : {"gbs", "global_batch"}) {
    if (!entry.has(key)) continue;
    const int batch = entry.get_int(key, 1, most_sequences);
    if (given && *given != batch)
      entry.at(key).refuse(text("is ", batch, ", but --training.global-batch says ", *given, "; leave that out"));
    return batch;
  }
  if (!given) entry.refuse("does not say the global batch; add --training.global-batch N");
  return *given;
}

/// Quanta of one microbatch where microbatches divide the batch and there is one for every replica, else of one sequence. Replicas that
/// do not share alike differ by one quantum.
void deal(plan::Plan& plan, int sequences, const Json& place) {
  int most = 0;
  for (const auto& stage : plan.stages) most = std::max(most, static_cast<int>(stage.replicas.size()));
  if (most > plan.global_batch)
    place.refuse(text("has ", most, " replicas of a stage for a global batch of ", plan.global_batch, " sequences"));
  if (sequences > plan.global_batch)
    place.refuse(text("microbatches of ", sequences, " sequences, but the global batch has ", plan.global_batch));
  const bool even = plan.global_batch % sequences == 0 && plan.global_batch / sequences >= most;
  plan.quantum = even ? sequences : 1;
  const int quanta = plan.global_batch / plan.quantum;
  for (auto& stage : plan.stages) {
    const int replicas = static_cast<int>(stage.replicas.size());
    for (int r = 0; r < replicas; ++r) {
      auto& replica = stage.replicas[static_cast<std::size_t>(r)];
      replica.quanta = sequences / plan.quantum;
      replica.sequences = plan.quantum * (quanta / replicas + (r < quanta % replicas ? 1 : 0));
    }
  }
}

void require_same_model(const Json& entry, const model::Config& model) {
  if (!entry.has("model") || entry.get_string("model") == model.name) return;
  entry.at("model").refuse(text("the plan is for ", entry.at("model").one_line(), ", but --model.name says ", in_quotes(model.name)));
}

}  // namespace

plan::Plan sailor_plan_from_json(const Json& document, const model::Config& model, std::optional<int> global_batch) {
  const Json entry = one_of(document);
  require_same_model(entry, model);
  const Json place = entry.has("plan") ? entry.at("plan") : entry;
  Grid grid = grid_in(place, model);
  plan::Plan plan;
  plan.model = model;
  plan.length = entry.has("sequence_length") ? entry.get_int("sequence_length", 1, model.positions) : model.positions;
  plan.global_batch = batch_of(entry, global_batch);
  plan.stages = std::move(grid.stages);
  deal(plan, grid.sequences, place);
  plan::require_valid(plan, document.source());
  return plan;
}

}  // namespace flotilla::files
