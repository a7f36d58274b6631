#include "pass_cost.hpp"

#include "flotilla/model/adapters.hpp"

namespace flotilla::simulate {

Cost pass_cost(const ProfileCost& costs, const model::Config& model, const std::string& device_type, const program::LayerOperation& work,
               const model::LayerShape& shape) {
  const auto left = work.weights_frozen ? model::input_half_of(work.operation).value_or(work.operation) : work.operation;
  const double added = model::adapter_flops(model, shape, work.operation);
  if (!model.lora.on()) return costs.operation(model, device_type, left, shape);
  const model::Config own = model.fully_trained();
  Cost cost = costs.operation(own, device_type, left, shape);
  const bool nothing_left = work.weights_frozen && model::whole_of(work.operation);  // a weights' half of adapters alone
  const double flops = model::flops(own, shape, left);
  const double times = (nothing_left ? 0.0 : 1.0) + (flops > 0 ? added / flops : 0.0);
  cost.time = cost.time * times;
  return cost;
}

}  // namespace flotilla::simulate
