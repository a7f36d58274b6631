#pragma once
#include <array>
#include <optional>

#include "flotilla/compute/backend.hpp"
#include "flotilla/model/adapters.hpp"
#include "parameters.hpp"

namespace flotilla::compute {

/// The shape of a layer for microbatches of `sequences`.
model::LayerShape layer_shape(const Setup&, int sequences);
/// The tokens that this rank holds between products: all, or its share of them.
model::UnitRange rows_between_products(const model::LayerShape&);

/// A setup and what follows from it, the same on every device: sizes of this rank's share of a layer in elements, and where its tensors
/// are.
class LayerDimensions {
 protected:
  explicit LayerDimensions(const Setup&);

  const std::optional<model::AdapterShape>& adapter(model::Linear linear) const { return adapters_[static_cast<std::size_t>(linear)]; }
  float norm_offset() const { return setup_.model.norm_offset ? 1.0f : 0.0f; }

  struct Widths {
    std::int64_t in, out;
  };

  Setup setup_;
  std::int64_t d_, w_, heads_, groups_, attention_width_, qkv_width_, columns_, up_width_, vocabulary_;
  bool pre_norm_, rms_, shares_;  // shares_: tokens between products
  Parameter head_token_embedding_;
  ParameterIndex parameters_;
  std::array<Widths, model::linears.size()> widths_;
  std::array<std::optional<model::AdapterShape>, model::linears.size()> adapters_;
  float adapter_scale_ = 1;
};

}  // namespace flotilla::compute
