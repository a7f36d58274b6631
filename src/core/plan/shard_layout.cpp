#include "flotilla/plan/shard_layout.hpp"

#include <algorithm>

#include "flotilla/base/error.hpp"

namespace flotilla::plan {
namespace {

bool lies_in(int layer, const Stage& stage) { return layer >= stage.first_layer && layer < stage.last_layer; }

void require_bound(const Replica& replica) {
  FLOTILLA_REQUIRE(static_cast<int>(replica.devices.size()) == replica.tensor_parallel, ErrorKind::internal,
                   "the shard layout of a plan whose devices are not bound to ranks was asked for");
}

/// The first replica of a tensor's first stage owns it: all its members, or the first where each holds the whole.
bool is_owner(const model::Tensor& tensor, int member) { return tensor.axis != model::Axis::none || member == 0; }

void add_members(const model::Tensor& tensor, const Replica& replica, bool owns, std::vector<Holder>& holders) {
  require_bound(replica);
  for (int i = 0; i < replica.tensor_parallel; ++i)
    holders.push_back({replica.devices[static_cast<std::size_t>(i)], replica.tensor_parallel, i, owns && is_owner(tensor, i)});
}

}  // namespace

std::vector<int> tensors_of_stage(const std::vector<model::Tensor>& tensors, const Stage& stage) {
  std::vector<int> indices;
  for (std::size_t t = 0; t < tensors.size(); ++t)
    if (lies_in(tensors[t].layer, stage) || lies_in(tensors[t].tied_layer, stage)) indices.push_back(static_cast<int>(t));
  return indices;
}

ShardLayout shard_layout(const Plan& plan) {
  ShardLayout layout{model::tensors(plan.model), {}};
  layout.holders.resize(layout.tensors.size());
  for (const Stage& stage : plan.stages)
    for (const int t : tensors_of_stage(layout.tensors, stage)) {
      const auto index = static_cast<std::size_t>(t);
      std::vector<Holder>& holders = layout.holders[index];
      for (const Replica& replica : stage.replicas) add_members(layout.tensors[index], replica, holders.empty(), holders);
    }
  return layout;
}

std::vector<std::vector<Rank>> owners(const Plan& plan, const std::vector<model::Tensor>& tensors) {
  std::vector<std::vector<Rank>> owners(tensors.size());
  for (const Stage& stage : plan.stages)
    for (const int t : tensors_of_stage(tensors, stage)) {
      auto& ranks = owners[static_cast<std::size_t>(t)];
      if (!ranks.empty()) continue;
      const Replica& first = stage.replicas.front();
      require_bound(first);
      for (int i = 0; i < first.tensor_parallel; ++i)
        if (is_owner(tensors[static_cast<std::size_t>(t)], i)) ranks.push_back(first.devices[static_cast<std::size_t>(i)]);
    }
  return owners;
}

}  // namespace flotilla::plan
