#include "layer_split.hpp"

#include <algorithm>

#include "layer_estimate.hpp"
#include "layer_operations.hpp"

namespace flotilla::simulate {
namespace {

constexpr double split_error = 0.1;  // of an operation's share of its layer

/// PyTorch's eager kernels in fp32, as the published layers were run (docs/design/catalogue.md).
/// Where the host is slower than the device, its time is dealt as the device's.
constexpr Execution eager{6, 22, {}, false};

struct Where {
  int layer = 0;
  bool backward = false;
};

Where layer_of(const model::Config& model, model::Operation operation) {
  for (int layer : {0, 1, model.layers() - 1})
    for (const bool backward : {false, true}) {
      const auto operations = backward ? backward_operations(model, layer) : forward_operations(model, layer);
      if (std::ranges::find(operations, operation) != operations.end()) return {layer, backward};
    }
  return {};
}

}  // namespace

std::optional<Cost> split_of_layer(const cluster::Profile& profile, const FitsByTypes& fits, const LayerCosts& layers,
                                   const model::Config& model, const std::string& device_type, model::Operation operation,
                                   const model::LayerShape& shape) {
  const auto [layer, backward] = layer_of(model, operation);
  const LayerCosts::LayerKey what{model.name, device_type, layer, shape.tensor_parallel, shape.precision};
  const auto measured = layers.pass(what, backward ? LayerCosts::Pass::backward : LayerCosts::Pass::forward, shape.sequences, {});
  if (!measured) return std::nullopt;
  model::LayerShape whole = shape;
  whole.length = model.positions;
  const Cost estimated = estimated_pass(profile, fits, eager, {model, device_type, layer, whole}, backward);
  if (!(estimated.time.value > 0)) return std::nullopt;
  const Seconds alone = roofline(profile, device_type, shape.precision, work_of(model, shape, operation, eager));
  return Cost{alone * (measured->time / estimated.time), measured->relative_error + split_error, measured->estimated};
}

}  // namespace flotilla::simulate
