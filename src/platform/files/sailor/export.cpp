#include <algorithm>
#include <map>

#include "document.hpp"
#include "flotilla/files/sailor.hpp"
#include "node.hpp"

namespace flotilla::files {
namespace {

using detail::Node;

constexpr const char* within = "; plan with --cost-model sailor-artifact, which stays inside the format";
constexpr const char* one_size = "; plan with --restrict one-microbatch-size,equal-replicas";

/// Refuses what the format cannot say, by place.
class Refusals {
 public:
  Refusals(const plan::Plan& plan, const std::string& source, SailorSpelling spelling)
      : plan_{plan}, source_{source}, spelling_{spelling}, sequences_{sequences_of(plan.stages.front().replicas.front())} {}

  void check() const {
    whole_plan();
    for (std::size_t s = 0; s < plan_.stages.size(); ++s) {
      const plan::Stage& stage = plan_.stages[s];
      const std::string where = text("stages[", s, "].");
      expect(stage.recompute == plan::Recompute::none, where + "recompute", "is ", to_string(stage.recompute),
             "; the Sailor artifact keeps all activations", within);
      const std::size_t degree = plan_.stages.front().replicas.size();
      expect(spelling_ == SailorSpelling::counted || stage.replicas.size() == degree, where + "replicas", "are ", stage.replicas.size(),
             " and those of stages[0] ", degree, "; the Sailor artifact's simulator counts microbatches by the first stage alone",
             one_size);
      for (std::size_t r = 0; r < stage.replicas.size(); ++r) replica(stage.replicas[r], s, r);
    }
  }

 private:
  int sequences_of(const plan::Replica& replica) const { return replica.quanta * plan_.quantum; }

  template <class... Parts>
  void expect(bool good, const std::string& where, const Parts&... what) const {
    FLOTILLA_REQUIRE(good, ErrorKind::unavailable, source_, ": ", where, ": ", what...);
  }

  void whole_plan() const {
    expect(plan_.precision == Precision::fp32, "precision", "is ", to_string(plan_.precision), "; the Sailor artifact measured fp32",
           within);
    expect(plan_.schedule == plan::ScheduleKind::one_f_one_b, "schedule", "is ", to_string(plan_.schedule),
           "; the Sailor artifact knows 1f1b only", within);
    expect(!plan_.model.experts.on(), "model.experts", "has experts; the Sailor artifact knows no such thing");
    expect(!plan_.sequence_parallel, "sequence_parallel", "is true; the Sailor artifact knows no such thing", within);
    expect(!plan_.shard_optimizer, "shard_optimizer", "is true; the Sailor artifact knows no such thing", within);
    expect(spelling_ == SailorSpelling::counted || plan_.length == plan_.model.positions, "length", "is ", plan_.length,
           "; this spelling of the Sailor artifact means the model's positions, ", plan_.model.positions,
           ": plan with that length, or take --spelling counted");
  }

  /// Every replica goes through equally many microbatches there: of these the last ones may be missing or short here.
  void replica(const plan::Replica& replica, std::size_t s, std::size_t r) const {
    const auto where = [&](const char* key) { return text("stages[", s, "].replicas[", r, "].", key); };
    if (replica.device_type.empty())
      expect(false, where("device_type"), "is empty; the Sailor artifact knows types by name: write it into the plan");
    const int sequences = sequences_of(replica);
    if (sequences != sequences_)
      expect(false, where("quanta"), "makes microbatches of ", sequences, " sequences, those of stages[0].replicas[0] have ", sequences_,
             "; the Sailor artifact has one size for all", one_size);
    const auto degree = static_cast<std::int64_t>(plan_.stages[s].replicas.size());
    const std::int64_t most = (plan_.global_batch + sequences * degree - 1) / (sequences * degree);
    const int own = replica.microbatches(plan_.quantum);
    if (own > most || own < most - 1)
      expect(false, where("sequences"), "is ", replica.sequences, " in ", own,
             " microbatches; the Sailor artifact shares the batch equally, ", most, " microbatches each or one fewer", one_size);
  }

  const plan::Plan& plan_;
  const std::string& source_;
  SailorSpelling spelling_;
  int sequences_;
};

/// A plan in the artifact's words.
class Writer {
 public:
  Writer(const plan::Plan& plan, const SailorExport& how) : plan_{plan}, how_{how} {}

  Node pipeline_list() const {
    Node::Array layers, replicas, degrees;
    for (const plan::Stage& stage : plan_.stages) {
      Node::Array numbers, copies;
      for (int layer = first(stage); layer <= last(stage); ++layer) numbers.emplace_back(layer);
      for (const plan::Replica& replica : stage.replicas) copies.emplace_back(Node::Array{nodes(replica), replica.tensor_parallel});
      layers.emplace_back(std::move(numbers));
      replicas.emplace_back(std::move(copies));
      degrees.emplace_back(stage.replicas.size());
    }
    Node::Object pipeline{{"num_stages", plan_.stages.size()},
                          {"layers_per_stage", std::move(layers)},
                          {"tmp_per_stage", std::move(replicas)},
                          {"dp", std::move(degrees)}};
    // Its simulator's command reads the last three of every document, to lay its figures beside measured ones.
    return Node::Object{{"model", plan_.model.name},
                        {"zone", zone(plan_.stages.front().replicas.front())},
                        {"pipeline_list", Node::Array{std::move(pipeline)}},
                        {"mbs", sequences()},
                        {"gbs", plan_.global_batch},
                        {"N", node_count()},
                        {"real", Node{}},
                        {"max_mem", Node{}}};
  }

  Node counted() const {
    Node::Array stages;
    for (const plan::Stage& stage : plan_.stages)
      stages.emplace_back(Node::Object{{"first_layer", first(stage)}, {"last_layer", last(stage)}, {"replicas", runs(stage.replicas)}});
    return Node::Object{{"model", plan_.model.name},
                        {"global_batch", plan_.global_batch},
                        {"sequence_length", plan_.length},
                        {"plan", Node::Object{{"microbatch_size", sequences()}, {"stages", std::move(stages)}}}};
  }

 private:
  int sequences() const { return plan_.stages.front().replicas.front().quanta * plan_.quantum; }
  const std::string& zone(const plan::Replica& replica) const { return replica.zone.empty() ? how_.zone : replica.zone; }

  /// Layers as the artifact counts them: a last norm of its own stands before the head, and goes with it.
  static int first(const plan::Stage& stage) { return stage.first_layer; }
  int last(const plan::Stage& stage) const {
    const bool norm = stage.last_layer == plan_.model.layers() && sailor_counts_final_norm(plan_.model);
    return stage.last_layer - 1 + (norm ? 1 : 0);
  }

  int per_node(const plan::Replica& replica) const {
    const auto known = how_.per_node.find(replica.device_type);
    return known == how_.per_node.end() ? replica.tensor_parallel : known->second;
  }

  /// [[type, devices per node, zone], ...]: one node, several where the replica is larger.
  Node nodes(const plan::Replica& replica) const {
    Node::Array all;
    const int size = per_node(replica);
    for (int held = 0; held < replica.tensor_parallel; held += size) {
      const int taken = replica.tensor_parallel <= size ? size : std::min(size, replica.tensor_parallel - held);
      all.emplace_back(Node::Array{replica.device_type, taken, zone(replica)});
    }
    return all;
  }

  /// Nodes that the devices fill, replicas of a place side by side in them.
  int node_count() const {
    std::map<std::pair<std::string, std::string>, std::pair<int, int>> places;  // devices, devices per node
    int nodes = 0;
    for (const plan::Stage& stage : plan_.stages)
      for (const plan::Replica& replica : stage.replicas) {
        if (!how_.per_node.contains(replica.device_type)) {
          ++nodes;
          continue;
        }
        auto& [devices, size] = places[{replica.device_type, zone(replica)}];
        devices += replica.tensor_parallel;
        size = per_node(replica);
      }
    for (const auto& [place, held] : places) nodes += (held.first + held.second - 1) / held.second;
    return nodes;
  }

  Node runs(const std::vector<plan::Replica>& replicas) const {
    const auto alike = [&](const plan::Replica& a, const plan::Replica& b) {
      return a.device_type == b.device_type && zone(a) == zone(b) && a.tensor_parallel == b.tensor_parallel;
    };
    Node::Array all;
    for (auto run = replicas.begin(); run != replicas.end();) {
      const auto end = std::find_if_not(run, replicas.end(), [&](const plan::Replica& other) { return alike(*run, other); });
      all.emplace_back(Node::Object{
          {"device_type", run->device_type}, {"zone", zone(*run)}, {"tensor_parallel", run->tensor_parallel}, {"count", end - run}});
      run = end;
    }
    return all;
  }

  const plan::Plan& plan_;
  const SailorExport& how_;
};

}  // namespace

std::string sailor_plan_to_json(const plan::Plan& plan, const std::string& source, const SailorExport& how) {
  plan::require_valid(plan, source);
  Refusals{plan, source, how.spelling}.check();
  const Writer writer{plan, how};
  return detail::pretty(how.spelling == SailorSpelling::counted ? writer.counted() : writer.pipeline_list());
}

}  // namespace flotilla::files
