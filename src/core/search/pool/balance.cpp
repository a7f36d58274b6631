#include "balance.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>

namespace flotilla::search::pool {
namespace {

/// One way to run a stage: what it takes beside its blocks, for a block, and how many its memory holds.
struct BalanceMode {
  plan::Recompute recompute = plan::Recompute::none;
  double fixed = 0, block = 0;
  int most = 0;
  bool operator==(const BalanceMode&) const = default;
  int within(double pace) const {
    if (fixed > pace) return -1;
    return std::min(most, block > 0 ? static_cast<int>(std::min(1e6, (pace - fixed) / block + 1e-9)) : most);
  }
};

struct BalancedStage {
  std::array<BalanceMode, 2> kept{};  ///< what recomputes less first
  std::size_t count = 0;              ///< of them that are any good
  int least = 0;
  bool operator==(const BalancedStage&) const = default;
  std::span<const BalanceMode> modes() const { return {kept.data(), count}; }
  int within(double pace) const {
    int most = -1;
    for (const BalanceMode& mode : modes()) most = std::max(most, mode.within(pace));
    return most;
  }
  /// The mode that takes so many blocks in the least time.
  const BalanceMode& mode(int blocks) const {
    const BalanceMode* best = nullptr;
    for (const BalanceMode& mode : modes())
      if (mode.most >= blocks && (!best || mode.fixed + mode.block * blocks < best->fixed + best->block * blocks)) best = &mode;
    return best ? *best : kept[count - 1];
  }
  double time(int blocks) const { return mode(blocks).fixed + mode(blocks).block * blocks; }
};

class Balance {
 public:
  Balance(Estimator& estimator, Network& network, const PipelineReplica& pipeline, plan::Recompute most, int microbatches,
          bool sequence_parallel)
      : estimator_{estimator},
        network_{network},
        column_{pipeline},
        blocks_{estimator.device_pool().request.model.blocks},
        sequence_parallel_{sequence_parallel} {
    stages_.reserve(pipeline.slots.size());
    for (int s = 0; s < count(); ++s) {
      BalancedStage stage;
      stage.least = s > 0 && s + 1 < count() ? 1 : 0;
      const auto& fixed = estimator.device_pool().request.constraints.recompute;
      for (const plan::Recompute recompute : {fixed.value_or(plan::Recompute::none), plan::Recompute::full}) {
        if (stage.count > 0 && fixed) break;
        if (!fixed && recompute != plan::Recompute::none && most != recompute) break;
        if (const auto mode = mode_of(s, recompute, std::min(count() - s, std::max(1, microbatches))); mode && mode->most >= stage.least)
          stage.kept[stage.count++] = *mode;
      }
      if (stage.count == 0) return;
      if (stages_.empty() || !(stage == stages_.back())) runs_.push_back({s, 0});
      ++runs_.back().count;
      stages_.push_back(stage);
    }
    usable_ = true;
  }

  std::optional<Cut> run() const {
    if (!usable_ || sub_pool(1e300) < blocks_) return std::nullopt;
    double low = 0, high = 1e-9;
    while (sub_pool(high) < blocks_) high *= 4;
    for (int i = 0; i < 40 && high - low > 1e-4 * high; ++i) {
      const double middle = (low + high) / 2;
      (sub_pool(middle) >= blocks_ ? high : low) = middle;
    }
    return cuts(high);
  }

 private:
  int count() const { return static_cast<int>(column_.slots.size()); }

  std::optional<BalanceMode> mode_of(int s, plan::Recompute recompute, int in_flight) const {
    const DevicePool& device_pool = estimator_.device_pool();
    const Slot& slot = column_.slots[at(s)];
    const int type = device_pool.places[at(slot.place)].type;
    const LayerCostSample& layer_cost =
        estimator_.layer_cost_table().of(type, slot.tensor, column_.microbatch, recompute, sequence_parallel_);
    if (!layer_cost.usable) return std::nullopt;
    const double away = estimator_.may_shard() ? 1 - 1.0 / column_.count : 0;
    const auto bytes = [&](const LayerCost& part) { return part.state - part.shareable * away + part.activations * in_flight; };
    BalanceMode mode{recompute, 0, layer_cost.block.pass, 0};
    const bool begins = s == 0, ends = s + 1 == count();
    double held = layer_cost.beside + (begins ? 0 : layer_cost.neighbour) + (ends ? 0 : layer_cost.neighbour);
    if (begins) mode.fixed += layer_cost.embedding.pass, held += bytes(layer_cost.embedding);
    if (ends) mode.fixed += layer_cost.head.pass, held += bytes(layer_cost.head) - (begins ? layer_cost.shared : 0);
    mode.fixed += ((begins ? 0 : 2) + (ends ? 0 : 2)) * estimator_.handshake();
    if (estimator_.blocks_on(column_.microbatch)) mode.fixed += messages(s);
    const double limit = static_cast<double>(device_pool.types[at(type)].memory.count);
    const double once = begins && ends ? layer_cost.once_in_one_stage : layer_cost.once;
    double some = limit > 0 ? std::floor((limit - held - once) / bytes(layer_cost.block)) : blocks_;
    const double alone = (layer_cost.embedding_alone - layer_cost.embedding.activations) * in_flight;
    if (begins && !ends && some < 0 && held + alone <= limit) some = 0;
    mode.most = static_cast<int>(std::clamp<double>(some, -1, blocks_));
    return mode;
  }

  /// Of a stage with both neighbours, there and back.
  double messages(int s) const {
    const auto both = [&](int from, int to) {
      const Slot &a = column_.slots[at(from)], &b = column_.slots[at(to)];
      const int flows = estimator_.flows(a, column_.count);
      const bool one_node = a.place == b.place && devices_at(a.place) <= estimator_.per_node(a.place);
      return network_.message({a.place, b.place, one_node, flows, estimator_.pieces(a), column_.count}, column_.microbatch) +
             network_.message({b.place, a.place, one_node, flows, estimator_.pieces(b), column_.count}, column_.microbatch);
    };
    return (s > 0 ? both(s - 1, s) : 0) + (s + 1 < count() ? both(s, s + 1) : 0);
  }

  int devices_at(int place) const {
    int all = 0;
    for (const Slot& slot : column_.slots) all += slot.place == place ? slot.tensor * column_.count : 0;
    return all;
  }

  /// Blocks that all stages take within `pace`; -1 where one cannot keep it.
  int sub_pool(double pace) const {
    int all = 0;
    for (const auto& [first, count] : runs_) {
      const int some = stages_[at(first)].within(pace);
      if (some < stages_[at(first)].least) return -1;
      all += count * some;
    }
    return all;
  }

  Cut cuts(double pace) const {
    std::vector<int> counts;
    counts.reserve(stages_.size());
    int surplus = -blocks_;
    for (const BalancedStage& stage : stages_) {
      counts.push_back(stage.within(pace));
      surplus += counts.back();
    }
    for (; surplus > 0; --surplus) {  // off the slowest stage that can spare one
      std::size_t slowest = counts.size();
      for (std::size_t s = 0; s < counts.size(); ++s)
        if (counts[s] > stages_[s].least &&
            (slowest == counts.size() || stages_[s].time(counts[s]) > stages_[slowest].time(counts[slowest])))
          slowest = s;
      --counts[slowest];
    }
    Cut cut;
    cut.layers.reserve(counts.size() + 1);
    cut.layers.push_back(0);
    cut.recompute.reserve(counts.size());
    for (std::size_t s = 0; s < counts.size(); ++s) {
      cut.layers.push_back(cut.layers.back() + counts[s] + (s == 0 ? 1 : 0));
      cut.recompute.push_back(stages_[s].mode(counts[s]).recompute);
    }
    cut.layers.back() += 1;
    return cut;
  }

  Estimator& estimator_;
  Network& network_;
  const PipelineReplica& column_;
  int blocks_;
  bool sequence_parallel_;
  bool usable_ = false;
  std::vector<BalancedStage> stages_;
  /// Of equal stages, one after the other.
  struct Run {
    int first = 0, count = 0;
  };
  std::vector<Run> runs_;
};

}  // namespace

std::optional<Cut> balance(Estimator& estimator, Network& network, const PipelineReplica& pipeline, plan::Recompute most, int microbatches,
                           bool sequence_parallel) {
  const auto stages = pipeline.slots.size();
  if (estimator.device_pool().request.restrictions.even_layers)
    return Cut{even_cuts(estimator.device_pool().request.model.blocks, static_cast<int>(stages)),
               std::vector<plan::Recompute>(stages, most)};
  return Balance{estimator, network, pipeline, most, microbatches, sequence_parallel}.run();
}

std::vector<int> even_cuts(int blocks, int stages) {
  const bool head_alone = stages > blocks, embedding_alone = stages > blocks + 1;
  const int first = embedding_alone ? 1 : 0, last = stages - (head_alone ? 1 : 0), shared = last - first;
  std::vector<int> cuts{0};
  for (int s = 0; s < stages; ++s) {
    const int some = s < first || s >= last ? 0 : blocks / shared + (s - first < blocks % shared ? 1 : 0);
    cuts.push_back(cuts.back() + some + (s == 0 ? 1 : 0));
  }
  cuts.back() += 1;
  return cuts;
}

}  // namespace flotilla::search::pool
