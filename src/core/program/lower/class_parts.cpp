#include "class_parts.hpp"

#include <algorithm>

#include "class_buffers.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/plan/shard_layout.hpp"

namespace flotilla::program {
namespace {

constexpr std::int64_t slot_alignment = 16;  // elements: one cache line of fp32, half of one in bf16

void add_share_buffers(ClassDraft& draft, Part& part, OptimizerShard& share, const std::string& name) {
  share.most = summing_of(draft, static_cast<int>(draft.out.parts.size())).rooms->share.elements(share.summed);
  const auto add = [&](const char* what, Category category) {
    return add_buffer(draft, text(what, " share ", name), category, share.most * fp32_size, 1, true);
  };
  if (share.packed()) share.gradients = add("gradients", Category::gradients);
  if (share.packed() || share.parameters < 0) share.parameters = add("parameters", Category::parameters);
  share.moment1 = add("moment1", Category::optimizer);
  share.moment2 = add("moment2", Category::optimizer);
  FLOTILLA_ASSERT(share.gradients >= 0 && part.gradients >= 0, part.name);
}

void add_shares(ClassDraft& draft, Part& part, int index) {
  const Summing& summing = summing_of(draft, index);
  const auto& slots = slots_of_part(draft, index);
  if (summing.groups.empty()) {
    OptimizerShard share;
    share.group = slots.front();
    share.summed = part.trained_elements();
    share.gradients = part.gradients;
    share.parameters = part.parameters;  // none yet in bf16
    for (int s = 0; s < static_cast<int>(part.slots.size()); ++s)
      if (part.slots[at(s)].trained) share.spans.push_back({s, part.slots[at(s)].offset, part.slots[at(s)].elements});
    add_share_buffers(draft, part, share, part.name);
    part.shards.push_back(std::move(share));
    return;
  }
  for (std::size_t g = 0; g < summing.groups.size(); ++g) {
    OptimizerShard share;
    share.group = slots[g];
    for (int s = 0; s < static_cast<int>(part.slots.size()); ++s) {
      Part one;
      one.slots = {part.slots[at(s)]};
      OptimizerShard::Span span{s, share.summed, 0, static_cast<std::int64_t>(share.regions.size()), 0};
      for (const Region& region : shared_regions_of(draft, one, index, summing.groups[g])) {
        span.elements += region.outer * region.inner;
        ++span.regions;
        share.regions.push_back(region);
      }
      share.summed += span.elements;
      if (span.elements > 0) share.spans.push_back(span);
    }
    if (share.regions.empty()) continue;
    add_share_buffers(draft, part, share, text(part.name, " ", g));
    part.shards.push_back(std::move(share));
  }
}

void add_persistent_buffers(ClassDraft& draft, Part& part, int index) {
  const std::int64_t trained = part.trained_elements();
  const Bytes fp32 = trained * fp32_size;
  const bool half = draft.in.plan.precision != Precision::fp32, shared = is_sharded(draft, index) && trained > 0;
  if (!half || !shared)
    part.parameters = add_buffer(draft, "parameters " + part.name, Category::parameters, part.elements * fp32_size, 1, true);
  else if (trained < part.elements)
    part.frozen_parameters =
        add_buffer(draft, "frozen parameters " + part.name, Category::parameters, (part.elements - trained) * fp32_size, 1, true);
  part.weights =
      half ? add_buffer(draft, "weights " + part.name, Category::parameters, part.elements * element_size(draft.in.plan.precision), 1, true)
           : part.parameters;
  if (!keeps_state(draft) || trained == 0) return;
  part.gradients = add_buffer(draft, "gradients " + part.name, Category::gradients, fp32, 1, true);
  if (shared) return add_shares(draft, part, index);
  part.moment1 = add_buffer(draft, "moment1 " + part.name, Category::optimizer, fp32, 1, true);
  part.moment2 = add_buffer(draft, "moment2 " + part.name, Category::optimizer, fp32, 1, true);
}

/// Keeps their order. Most lists need no change.
template <class Which>
void put_first(std::vector<int>& tensors, Which which) {
  if (!std::ranges::is_partitioned(tensors, which)) std::ranges::stable_partition(tensors, which);
}

void add_part(ClassDraft& draft, const std::string& name, const std::vector<int>& list) {
  std::vector<int> tensors = list;
  // Their gradients are summed in one piece.
  put_first(tensors, [&](int t) { return is_summed(draft, draft.in.tensors[at(t)]); });
  // Gradients and moments are of the first elements.
  put_first(tensors, [&](int t) { return draft.in.tensors[at(t)].trained; });
  Part part;
  part.name = name;
  part.slots.reserve(tensors.size());
  for (int t : tensors) {
    const auto elements = plan::shard_elements(draft.in.tensors[at(t)], draft.in.kind.tensor_parallel, draft.in.tensor_index);
    part.slots.push_back({t, part.elements, elements, draft.in.tensors[at(t)].trained});
    part.elements += (elements + slot_alignment - 1) / slot_alignment * slot_alignment;
  }
  add_persistent_buffers(draft, part, static_cast<int>(draft.out.parts.size()));
  draft.out.parts.push_back(std::move(part));
}

}  // namespace

void add_parts(ClassDraft& draft, ChunkDraft& chunk) {
  std::vector<std::vector<int>> of_layer(at(chunk.stage.last_layer - chunk.stage.first_layer));
  for (int t : plan::tensors_of_stage(draft.in.tensors, chunk.stage)) {
    const auto& tensor = draft.in.tensors[at(t)];
    if (tensor.tied_layer < 0) of_layer[at(tensor.layer - chunk.stage.first_layer)].push_back(t);
  }
  for (int layer = chunk.stage.first_layer; layer < chunk.stage.last_layer; ++layer) {
    const auto& tensors = of_layer[at(layer - chunk.stage.first_layer)];
    chunk.layer_parts.push_back(tensors.empty() ? -1 : static_cast<int>(draft.out.parts.size()));
    if (!tensors.empty()) add_part(draft, text("layer ", layer), tensors);
  }
}

void add_token_embedding_part(ClassDraft& draft) {
  std::vector<int> token_embedding;
  for (int t = 0; t < static_cast<int>(draft.in.tensors.size()); ++t)
    if (draft.in.tensors[at(t)].tied_layer >= 0) token_embedding.push_back(t);
  bool held = false;
  for (ChunkDraft& chunk : draft.chunks) held = held || has_embedding(chunk) || has_head(draft, chunk);
  if (held && !token_embedding.empty()) {
    draft.token_embedding_part = static_cast<int>(draft.out.parts.size());
    add_part(draft, "token embedding", token_embedding);
  }
}

const Summing& summing_of(const ClassDraft& draft, int part) {
  return part == draft.token_embedding_part && draft.in.kind.tied.members > 1 ? draft.in.kind.tied : draft.in.kind.data;
}

const std::vector<int>& slots_of_part(const ClassDraft& draft, int part) {
  return part == draft.token_embedding_part && draft.in.kind.tied.members > 1 ? draft.slots.tied : draft.slots.data;
}

std::vector<Region> shared_regions_of(const ClassDraft& draft, const Part& about, int part, const GradientGroup& group) {
  const Summing& summing = summing_of(draft, part);
  return shared_regions(draft.in.tensors, about, summing.degrees, group, summing.replica);
}

bool is_sharded(const ClassDraft& draft, int part) {
  return draft.in.plan.shard_optimizer && keeps_state(draft) && summing_of(draft, part).members > 1;
}

}  // namespace flotilla::program
