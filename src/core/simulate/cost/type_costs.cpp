#include "type_costs.hpp"

#include <algorithm>
#include <string_view>

#include "derived_cost.hpp"
#include "flotilla/base/philox.hpp"
#include "flotilla/simulate/profile_cost.hpp"
#include "layer_split.hpp"
#include "operation_cost.hpp"

namespace flotilla::simulate {
namespace {

constexpr double half_error = 0.1;  // of a half's share of its operation, which FLOPs give

}  // namespace

std::shared_ptr<TypeCosts> type_costs_of(const cluster::Profile& profile) { return std::make_shared<TypeCosts>(profile); }

/// Few are asked for.
const std::optional<Cost>& TypeCosts::per_element(const std::string& device_type, std::string_view operation, Precision precision) {
  const int type = number_of(device_type);
  for (const ElementCost& known : elements_)
    if (known.type == type && known.precision == precision && known.operation == operation) return known.cost;
  std::string name{operation};
  auto cost = element_cost(profile_, device_type, name, precision);
  return elements_.emplace_back(ElementCost{type, std::move(name), precision, std::move(cost)}).cost;
}

/// Measured by itself, else a part of a whole operation or of a layer that was measured, else estimated.
Cost TypeCosts::unknown(const model::Config& model, const std::string& device_type, model::Operation operation,
                        const model::LayerShape& shape) const {
  if (const auto whole = model::whole_of(operation); whole && !is_measured(profile_, device_type, operation)) {
    Cost part = unknown(model, device_type, *whole, shape);
    part.time = part.time * share_of_whole(model, operation, shape);
    part.relative_error += half_error;
    return part;
  }
  const auto measured = [&](const auto& time) { return time.device_type == device_type; };
  if (std::ranges::none_of(profile_.operation_times, measured))
    if (const auto part = split_of_layer(profile_, fits_, layers_, model, device_type, operation, shape)) return *part;
  return operation_cost(profile_, model, device_type, operation, shape);
}

std::size_t TypeCosts::Hash::operator()(const Key& key) const {
  std::uint64_t hash = 0;
  for (const int value : {key.type, static_cast<int>(key.operation), key.tensor_parallel, key.tensor_index, key.sequences, key.length,
                          static_cast<int>(key.precision), key.sequence_parallel ? 1 : 0})
    hash = hash * 0x9E3779B97F4A7C15u + static_cast<std::uint64_t>(value);
  return Philox::mix(hash);
}

/// Few types are asked for.
int TypeCosts::number_of(const std::string& device_type) {
  const auto found = std::ranges::find(types_, device_type);
  if (found != types_.end()) return static_cast<int>(found - types_.begin());
  types_.push_back(device_type);
  return static_cast<int>(types_.size()) - 1;
}

Cost TypeCosts::operation(const model::Config& model, const std::string& device_type, model::Operation operation,
                          const model::LayerShape& shape) {
  if (model_ != model) {
    operations_.clear();
    model_ = model;
  }
  const Key key{number_of(device_type), operation,    shape.tensor_parallel, shape.tensor_index,
                shape.sequences,        shape.length, shape.precision,       shape.sequence_parallel};
  const auto found = operations_.find(key);
  if (found != operations_.end()) return found->second;
  const auto plain = [&](model::Operation o, const model::LayerShape& s) { return this->operation(model, device_type, o, s); };
  const Cost cost =
      is_derived(operation, shape) ? derived_cost(model, operation, shape, plain) : unknown(model, device_type, operation, shape);
  return operations_[key] = cost;
}

}  // namespace flotilla::simulate
