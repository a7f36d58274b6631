#include "placement.hpp"

#include <algorithm>
#include <numeric>
#include <set>
#include <tuple>

#include "flotilla/model/tensors.hpp"

namespace flotilla::search {
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
  const Request& request = problem.request;
  const model::LayerShape shape{1, request.length, p.tensor, 0, request.precision};
  std::vector<double> seconds(static_cast<std::size_t>(p.data));
  for (int r = 0; r < p.data; ++r)
    for (int s = 0; s < p.pipeline; ++s) {
      const auto& devices = p.devices(s, r);
      const auto bound = problem.forecaster.layer_bound(request.model, 1, shape, plan::Recompute::none, problem.device(devices.front()).type, devices);
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
  for (auto& groups : orders) {
    Placement p{data, pipeline, tensor, std::move(groups), equal_shares(problem.request.global_batch, data)};
    all.push_back(p);
    if (!mixed || data == 1) continue;
    p.sequences = shares_by_speed(problem.request.global_batch, seconds_per_sequence(problem, p));
    if (p.sequences != all.back().sequences) all.push_back(std::move(p));
  }
  return all;
}

}  // namespace flotilla::search
