#include "layer_dimensions.hpp"

#include "flotilla/model/tensors.hpp"

namespace flotilla::compute {

model::LayerShape layer_shape(const Setup& s, int sequences) {
  return {sequences, s.length, s.tensor_parallel, s.tensor_index, s.precision, s.sequence_parallel, s.cache};
}

model::UnitRange rows_between_products(const model::LayerShape& s) {
  return s.sequence_parallel ? model::share(s.tokens(), s.tensor_parallel, s.tensor_index) : model::UnitRange{0, s.tokens()};
}

LayerDimensions::LayerDimensions(const Setup& setup)
    : setup_{setup},
      d_{setup.model.hidden},
      w_{setup.model.embedding_width},
      heads_{model::local_heads(setup.model, layer_shape(setup, 1))},
      groups_{model::local_groups(setup.model, layer_shape(setup, 1))},
      attention_width_{heads_ * setup.model.head_size()},
      qkv_width_{model::qkv_width(setup.model, layer_shape(setup, 1))},
      columns_{model::local_columns(setup.model, layer_shape(setup, 1))},
      up_width_{model::up_width(setup.model, layer_shape(setup, 1))},
      vocabulary_{model::local_vocabulary(setup.model, layer_shape(setup, 1))},
      pre_norm_{setup.model.norm == model::NormPlacement::pre},
      rms_{setup.model.norm_kind == model::NormKind::rms},
      shares_{setup.sequence_parallel},
      head_token_embedding_{setup.model.tied_head ? Parameter::token_embedding : Parameter::lm_head},
      parameters_{setup.model},
      widths_{{{d_, qkv_width_}, {attention_width_, d_}, {d_, up_width_}, {columns_, d_}}} {
  if (!setup.model.lora.on()) return;
  adapter_scale_ = static_cast<float>(setup.model.lora.scale());
  for (const model::Linear linear : setup.model.lora.targets)
    adapters_[static_cast<std::size_t>(linear)] = model::adapter_shape(setup.model, layer_shape(setup, 1), linear);
}

}  // namespace flotilla::compute
