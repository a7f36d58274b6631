#include "parameters.hpp"

#include <string_view>

#include "flotilla/base/error.hpp"
#include "flotilla/model/tensors.hpp"

namespace flotilla::compute {
namespace {

/// How the names end, by Parameter.
constexpr std::array<std::string_view, parameter_kinds> endings{"embedding.word",
                                                                "embedding.position",
                                                                "embedding.norm.weight",
                                                                "embedding.norm.bias",
                                                                "embedding.project_in",
                                                                "norm1.weight",
                                                                "norm1.bias",
                                                                "attention.qkv.weight",
                                                                "attention.qkv.bias",
                                                                "attention.query_norm.weight",
                                                                "attention.key_norm.weight",
                                                                "attention.out.weight",
                                                                "attention.out.bias",
                                                                "attention.output_norm.weight",
                                                                "attention.output_norm.bias",
                                                                "norm2.weight",
                                                                "norm2.bias",
                                                                "feed_forward.up.weight",
                                                                "feed_forward.up.bias",
                                                                "feed_forward.down.weight",
                                                                "feed_forward.down.bias",
                                                                "feed_forward.output_norm.weight",
                                                                "feed_forward.output_norm.bias",
                                                                "head.norm.weight",
                                                                "head.norm.bias",
                                                                "head.project_out",
                                                                "head.word",
                                                                "attention.qkv.lora_A",
                                                                "attention.qkv.lora_B",
                                                                "attention.out.lora_A",
                                                                "attention.out.lora_B",
                                                                "feed_forward.up.lora_A",
                                                                "feed_forward.up.lora_B",
                                                                "feed_forward.down.lora_A",
                                                                "feed_forward.down.lora_B"};

}  // namespace

ParameterIndex::ParameterIndex(const model::Config& config) : by_layer_(static_cast<std::size_t>(config.layers())) {
  for (auto& layer : by_layer_) layer.fill(-1);
  const auto tensors = model::tensors(config);
  for (std::size_t t = 0; t < tensors.size(); ++t)
    for (std::size_t kind = 0; kind < parameter_kinds; ++kind)
      if (tensors[t].name.ends_with(endings[kind])) by_layer_[static_cast<std::size_t>(tensors[t].layer)][kind] = static_cast<int>(t);
}

const program::Part::Slot& ParameterIndex::slot(const program::Part& part, int layer, Parameter kind) const {
  const int tensor = by_layer_[static_cast<std::size_t>(layer)][static_cast<std::size_t>(kind)];
  for (const auto& slot : part.slots)
    if (slot.tensor == tensor) return slot;
  assertion_failed("slot of the tensor",
                   text("part '", part.name, "' has no ", endings[static_cast<std::size_t>(kind)], " of layer ", layer));
}

}  // namespace flotilla::compute
