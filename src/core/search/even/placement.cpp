#include "placement.hpp"

#include <algorithm>
#include <limits>
#include <set>
#include <tuple>

#include "flotilla/model/tensors.hpp"
#include "flotilla/plan/shard_layout.hpp"

namespace flotilla::search::even {
namespace {

using Groups = std::vector<std::vector<Rank>>;

/// Ranks 0 ... count-1 in order of zone and host, in groups of `size` inside one host and type; empty when that does not come out even.
Groups groups_inside_hosts(const Problem& problem, int count, int size) {
  std::vector<Rank> order;
  for (int r = 0; r < count; ++r) order.push_back(Rank{r});
  const auto home = [&](Rank r) {
    const auto& d = problem.device(r);
    return std::tie(d.zone, d.host, d.type);
  };
  std::ranges::stable_sort(order, [&](Rank a, Rank b) { return home(a) < home(b); });
  Groups groups;
  for (std::size_t i = 0; i < order.size(); i += static_cast<std::size_t>(size)) {
    const auto last = i + static_cast<std::size_t>(size) - 1;
    if (last >= order.size() || home(order[i]) != home(order[last])) return {};
    groups.emplace_back(order.begin() + static_cast<std::ptrdiff_t>(i), order.begin() + static_cast<std::ptrdiff_t>(last) + 1);
  }
  return groups;
}

Groups transposed(const Groups& groups, int data, int pipeline) {
  Groups out(groups.size());
  for (int r = 0; r < data; ++r)
    for (int s = 0; s < pipeline; ++s) out[static_cast<std::size_t>(s * data + r)] = groups[static_cast<std::size_t>(r * pipeline + s)];
  return out;
}

std::size_t count_types(const Problem& problem, const Groups& groups) {
  std::set<std::string> types;
  for (const auto& group : groups) types.insert(problem.device(group.front()).type);
  return types.size();
}

std::size_t count_hosts(const Problem& problem, const Groups& groups) {
  std::set<std::string> hosts;
  for (const auto& group : groups) hosts.insert(problem.device(group.front()).host);
  return hosts.size();
}

std::vector<int> equal_shares(int batch, int data) {
  std::vector<int> shares;
  for (int r = 0; r < data; ++r) shares.push_back(static_cast<int>(model::share(batch, data, r).count()));
  return shares;
}

/// Seconds of one sequence through a block, by the slowest group of each replica's column.
std::vector<double> seconds_per_sequence(const Problem& problem, const Placement& p) {
  const PlanRequest& request = problem.request;
  const model::LayerShape shape{1, request.length, p.tensor, 0, request.precision};
  std::vector<double> seconds(static_cast<std::size_t>(p.data));
  for (int r = 0; r < p.data; ++r)
    for (int s = 0; s < p.pipeline; ++s) {
      const auto& devices = p.devices(s, r);
      const auto bound =
          problem.forecaster.layer_bound(request.model, 1, shape, plan::Recompute::none, problem.device(devices.front()).type, devices);
      auto& slowest = seconds[static_cast<std::size_t>(r)];
      slowest = std::max(slowest, (bound.forward + bound.backward).value);
    }
  return seconds;
}

/// The batch dealt one sequence at a time to whoever would finish first.
std::vector<int> shares_by_speed(int batch, const std::vector<double>& seconds) {
  std::vector<int> shares(seconds.size(), 1);
  for (int left = batch - static_cast<int>(shares.size()); left > 0; --left) {
    std::size_t first = 0;
    for (std::size_t r = 1; r < shares.size(); ++r)
      if ((shares[r] + 1) * seconds[r] < (shares[first] + 1) * seconds[first]) first = r;
    ++shares[first];
  }
  return shares;
}

std::int64_t token_embedding_elements(const model::Config& model, int tensor_parallel) {
  std::int64_t elements = 0;
  for (const auto& tensor : model::tensors(model))
    if (tensor.tied_layer >= 0) elements += plan::shard_elements(tensor, tensor_parallel, 0);
  return elements;
}

/// The token embedding's gradient, whose last part the last backward pass made, is summed over the first and last stages; then every
/// optimizer runs, the busiest on a stage's share of the parameters at least.
double tail_of(const Problem& problem, const Placement& p) {
  const PlanRequest& request = problem.request;
  if (problem.shares_optimizers()) return 0;  // of the sum half is made before, and nobody knows who has how much to update
  std::vector<Rank> members;
  for (int r = 0; r < p.data; ++r) members.push_back(p.devices(0, r).front());
  for (int r = 0; p.pipeline > 1 && r < p.data; ++r) members.push_back(p.devices(p.pipeline - 1, r).front());
  const Seconds token_embedding = problem.forecaster.sum_bound(token_embedding_elements(request.model, p.tensor), members);
  const std::int64_t share = model::parameter_count(request.model) / (std::int64_t{p.pipeline} * p.tensor);
  Seconds update{std::numeric_limits<double>::infinity()};
  for (const auto& group : p.groups)
    update = std::min(update, problem.forecaster.optimizer_bound(share, request.precision, problem.device(group.front()).type));
  return (token_embedding + update).value;
}

/// With equal shares, and where speeds differ also with shares by speed.
void add_shares(const Problem& problem, Placement p, bool mixed, std::vector<Placement>& all) {
  p.tail = tail_of(problem, p);
  p.sequences = equal_shares(problem.request.global_batch, p.data);
  all.push_back(p);
  if (!mixed || p.data == 1) return;
  p.sequences = shares_by_speed(problem.request.global_batch, seconds_per_sequence(problem, p));
  if (p.sequences != all.back().sequences) all.push_back(std::move(p));
}

}  // namespace

std::vector<Placement> placements(const Problem& problem, int data, int pipeline, int tensor) {
  const Groups stage_major = groups_inside_hosts(problem, data * pipeline * tensor, tensor);
  if (stage_major.empty()) return {};
  std::vector<Groups> orders{stage_major};
  const bool mixed = count_types(problem, stage_major) > 1;
  const bool spread = mixed || count_hosts(problem, stage_major) > 1;
  if (spread && data > 1 && pipeline > 1) orders.push_back(transposed(stage_major, data, pipeline));
  if (mixed && pipeline > 1) orders.emplace_back(stage_major.rbegin(), stage_major.rend());
  std::vector<Placement> all;
  for (auto& groups : orders) add_shares(problem, {data, pipeline, tensor, std::move(groups), {}, 0}, mixed, all);
  return all;
}

}  // namespace flotilla::search::even
