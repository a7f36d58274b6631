#include "holdings.hpp"

#include <algorithm>

namespace flotilla::search {
namespace {

bool uses(const Holding& holding, const model::Tensor& tensor) {
  return std::ranges::any_of(holding.layers, [&](const LayerRange& r) {
    return (r.first <= tensor.layer && tensor.layer < r.last) || (r.first <= tensor.tied_layer && tensor.tied_layer < r.last);
  });
}

}  // namespace

Holdings holdings(const plan::Plan& plan) {
  Holdings all;
  const int own = plan::own_stages(plan);
  for (int s = 0; s < own; ++s) {
    Holding holding;
    for (int t = s; t < static_cast<int>(plan.stages.size()); t += own) {
      const plan::Stage& chunk = plan.stages[static_cast<std::size_t>(t)];
      holding.layers.push_back({chunk.first_layer, chunk.last_layer});
    }
    for (const plan::Replica& replica : plan.stages[static_cast<std::size_t>(s)].replicas)
      for (int i = 0; i < replica.tensor_parallel; ++i) {
        holding.member = {replica.tensor_parallel, i};
        ++all[{replica.device_type, replica.zone}][holding];
      }
  }
  return all;
}

CommonParameters::CommonParameters(const model::Config& model) : layers_{model.layers()} {
  for (model::Tensor& tensor : model::tensors(model)) (tensor.tied_layer < 0 ? tensors_ : tied_).push_back(std::move(tensor));
}

/// Both members hold a run of the tensor's units each; a unit is equally many elements wherever it lies.
std::int64_t CommonParameters::common(const model::Tensor& tensor, Member a, Member b) const {
  const std::int64_t units = tensor.units();
  if (tensor.axis == model::Axis::none) return tensor.elements();
  const auto x = model::share(units, a.degree, a.index), y = model::share(units, b.degree, b.index);
  return std::max<std::int64_t>(0, std::min(x.last, y.last) - std::max(x.first, y.first)) * (tensor.elements() / units);
}

const CommonParameters::Table& CommonParameters::table(Member a, Member b) const {
  const auto [found, fresh] = tables_.try_emplace({a, b});
  Table& table = found->second;
  if (!fresh) return table;
  table.before.assign(static_cast<std::size_t>(layers_) + 1, 0);
  for (const model::Tensor& tensor : tensors_) table.before[static_cast<std::size_t>(tensor.layer) + 1] += common(tensor, a, b);
  for (const model::Tensor& tensor : tied_) table.tied.push_back(common(tensor, a, b));
  for (std::size_t layer = 1; layer < table.before.size(); ++layer) table.before[layer] += table.before[layer - 1];
  return table;
}

std::int64_t CommonParameters::operator()(const Holding& a, const Holding& b) const {
  const Table& t = table(a.member, b.member);
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < tied_.size(); ++i)
    if (uses(a, tied_[i]) && uses(b, tied_[i])) sum += t.tied[i];
  for (const LayerRange& x : a.layers)
    for (const LayerRange& y : b.layers) {
      const int first = std::max(x.first, y.first), last = std::min(x.last, y.last);
      if (first < last) sum += t.before[static_cast<std::size_t>(last)] - t.before[static_cast<std::size_t>(first)];
    }
  return sum;
}

}  // namespace flotilla::search
