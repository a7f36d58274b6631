#pragma once
#include <algorithm>
#include <bit>
#include <cstring>
#include <deque>
#include <random>
#include <vector>

#include "flotilla/base/philox.hpp"
#include "flotilla/checkpoint/state.hpp"
#include "flotilla/plan/plan.hpp"
#include "flotilla/plan/shard_layout.hpp"

/// States, layouts and contents for the tests of this room.
namespace flotilla::checkpoint {

/// Nothing divides by 2, 3 or 4: heads 5, columns 37, words 61; the embedding is projected.
inline model::Config odd_model() {
  return {.name = "odd",
          .family = "opt",
          .blocks = 3,
          .hidden = 20,
          .heads = 5,
          .feed_forward = 37,
          .vocabulary = 61,
          .positions = 16,
          .position_offset = 2,
          .embedding_width = 12};
}

/// Keys shared by two queries each, gates, a head of its own: groups of rows and fused halves, with nothing tied.
inline model::Config grouped_model() {
  model::Config config = odd_model();
  config.family = "llama";
  config.hidden = config.embedding_width = 40;
  config.heads = 10;
  config.key_value_heads = 5;
  config.activation = model::Activation::swiglu;
  config.norm_kind = model::NormKind::rms;
  config.rotary.theta = 1e4;
  config.qkv_bias = config.attention_output_bias = config.feed_forward_bias = false;
  config.tied_head = false;
  return config;
}

/// Tensors of several segments, cut by rows and by columns.
inline model::Config wide_model() {
  return {.name = "wide",
          .family = "gpt2",
          .blocks = 1,
          .hidden = 160,
          .heads = 5,
          .feed_forward = 2001,
          .vocabulary = 2053,
          .positions = 8,
          .embedding_width = 160};
}

/// The bits that belong at (kind, tensor, global index) in generation `seed`; any finite number below two.
inline float content(std::uint64_t seed, StateKind kind, int tensor, std::int64_t index) {
  const Philox random{seed, static_cast<std::uint64_t>(tensor) * kinds.size() + static_cast<std::uint64_t>(kind)};
  constexpr std::uint32_t below_two = 0xbfffffff;  // a save looks for weights that have exploded
  return std::bit_cast<float>(random(static_cast<std::uint64_t>(index))[0] & below_two);
}

/// What one rank holds under a plan, with memory of its own.
class Holding {
 public:
  Holding(const plan::Plan& plan, Rank rank) : layout_{plan::shard_layout(plan)} {
    state_.tensors = &layout_.tensors;
    for (std::size_t t = 0; t < layout_.tensors.size(); ++t)
      for (const auto& holder : layout_.holders[t])
        if (holder.rank == rank) add(static_cast<int>(t), holder);
  }
  Holding(const Holding&) = delete;
  Holding& operator=(const Holding&) = delete;

  const LocalState& state() const { return state_; }
  LocalState& state() { return state_; }

  void fill(std::uint64_t seed) {
    for_each([&](float& value, float expected) { value = expected; }, seed);
  }
  void clear() {
    for (auto& memory : memory_) std::fill(memory.begin(), memory.end(), 0.0f);
  }
  /// Elements that differ from the contents of generation `seed`, bit by bit.
  std::int64_t wrong(std::uint64_t seed) const {
    std::int64_t count = 0;
    for_each([&](const float& value, float expected) { count += std::memcmp(&value, &expected, sizeof value) != 0; }, seed);
    return count;
  }

 private:
  void add(int tensor, const plan::Holder& holder) {
    LocalTensor part;
    part.tensor = tensor;
    part.shard = plan::shard(layout_.tensors[static_cast<std::size_t>(tensor)], holder.tensor_parallel, holder.tensor_index);
    part.owner = holder.owner;
    for (auto* values : {&part.parameters, &part.moment1, &part.moment2})
      *values = memory_.emplace_back(static_cast<std::size_t>(part.shard.elements()));
    state_.parts.push_back(std::move(part));
  }

  template <class Visit>
  void for_each(Visit&& visit, std::uint64_t seed) const {
    for (const auto& part : state_.parts)
      for (auto kind : kinds)
        for (const auto& box : plan::boxes(layout_.tensors[static_cast<std::size_t>(part.tensor)], part.shard))
          for (std::int64_t o = 0; o < box.outer; ++o)
            for (std::int64_t i = 0; i < box.inner; ++i)
              visit(part.values(kind)[static_cast<std::size_t>(box.local_offset + o * box.local_stride + i)],
                    content(seed, kind, part.tensor, box.global_offset + o * box.global_stride + i));
  }

  plan::ShardLayout layout_;
  std::deque<std::vector<float>> memory_;
  LocalState state_;
};

/// A random plan on at most `ranks` ranks: stages of different lengths whose replicas may differ in tensor-parallel degree.
inline plan::Plan random_plan(std::mt19937& random, const model::Config& config, int ranks) {
  const auto below = [&](int bound) { return static_cast<int>(random() % static_cast<unsigned>(bound)); };
  plan::Plan plan{config, config.positions, 60, 1, Precision::fp32, plan::ScheduleKind::one_f_one_b, {}};
  const int stages = 1 + below(std::min(ranks, config.layers()));
  std::vector<int> cuts{0, config.layers()};
  while (static_cast<int>(cuts.size()) <= stages) {
    const int cut = 1 + below(config.layers() - 1);
    if (std::find(cuts.begin(), cuts.end(), cut) == cuts.end()) cuts.push_back(cut);
  }
  std::sort(cuts.begin(), cuts.end());
  int next = 0;
  for (int s = 0; s < stages; ++s) {
    plan::Stage stage{cuts[static_cast<std::size_t>(s)], cuts[static_cast<std::size_t>(s) + 1], plan::Recompute::none, {}};
    const int available = ranks - next - (stages - s - 1);
    for (int used = 0; used < available && (used == 0 || below(3) > 0);) {
      plan::Replica replica;
      replica.tensor_parallel = 1 + below(std::min(available - used, config.groups()));
      for (int t = 0; t < replica.tensor_parallel; ++t, ++used) replica.devices.push_back(Rank{next++});
      stage.replicas.push_back(replica);
    }
    const int share = 60 / static_cast<int>(stage.replicas.size());
    for (auto& replica : stage.replicas) replica.sequences = share;
    stage.replicas.front().sequences += 60 - share * static_cast<int>(stage.replicas.size());
    plan.stages.push_back(stage);
  }
  return plan;
}

inline plan::Plan one_rank_plan(const model::Config& config) {
  return plan::even_plan(config, config.positions, 4, Precision::fp32, 1, 1, 1, 1);
}

}  // namespace flotilla::checkpoint
