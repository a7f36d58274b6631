#include "pool_judge.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "flotilla/base/text.hpp"
#include "flotilla/plan/allocate.hpp"
#include "flotilla/simulate/forecaster.hpp"

namespace flotilla::fixture {
namespace {

using Place = std::pair<std::string, std::string>;  // type and zone

bool same(double a, double b) { return std::abs(a - b) <= 1e-9 * std::max(std::abs(a), std::abs(b)); }

/// Devices on every host of a place, most first.
std::map<Place, std::vector<int>> hosts_of(const std::vector<cluster::Device>& devices) {
  std::map<Place, std::map<std::string, int>> counts;
  for (const auto& device : devices) ++counts[{device.type, device.zone}][device.host];
  std::map<Place, std::vector<int>> hosts;
  for (const auto& [place, by_host] : counts) {
    for (const auto& [host, count] : by_host) hosts[place].push_back(count);
    std::ranges::sort(hosts[place], std::ranges::greater{});
  }
  return hosts;
}

std::map<Place, std::vector<int>> nodes_of(const search::Pool& pool) {
  std::map<Place, std::vector<int>> nodes;
  for (const auto& entry : pool)
    for (int left = entry.count; left > 0; left -= entry.per_node)
      nodes[{entry.device_type, entry.zone}].push_back(std::min(left, entry.per_node));
  for (auto& [place, sizes] : nodes) std::ranges::sort(sizes, std::ranges::greater{});
  return nodes;
}

}  // namespace

Judge::Judge(const Instance& i) : i_{i}, profile_{search::with_node_sizes(i.library, i.request.pool)} {}

Verdict Judge::forecast(const plan::Plan& plan) const {
  auto profile = profile_;
  auto allocation = plan::allocate(plan, profile);
  profile.devices = allocation.devices;
  int most = 1;
  for (const auto& [place, hosts] : hosts_of(profile.devices)) most = std::max(most, hosts.front());
  const Bytes process = i_.request.process_memory ? i_.request.process_memory(most) : Bytes{};
  Verdict v;
  v.forecast = simulate::ProgramForecaster{profile, i_.runtime, process}.forecast(allocation.plan);
  v.devices = static_cast<int>(profile.devices.size());
  v.fits = true;
  for (const auto& kind : v.forecast.kinds) {
    const Bytes memory = cluster::find_type(profile, kind.device_type)->memory;
    if (memory.count > 0 && kind.memory.peak() > memory) v.fits = false;
  }
  for (const auto& device : profile.devices) v.usd_per_hour += cluster::find_type(profile, device.type)->usd_per_hour;
  const auto& expense = v.forecast.expense;
  switch (i_.request.objective.goal) {
    case search::Goal::throughput: v.value = v.forecast.iteration.value; break;
    case search::Goal::cost: v.value = expense.usd(); break;
    case search::Goal::billing: v.value = expense.billing_units; break;
    case search::Goal::energy: v.value = expense.energy_joules; break;
  }
  return v;
}

bool Judge::keeps_limits(const Verdict& v) const {
  const auto& limits = i_.request.objective.limits;
  constexpr double rounding = 1 + 1e-9;
  if (limits.devices && v.devices > *limits.devices) return false;
  if (limits.iterations_per_second && v.forecast.iteration.value * *limits.iterations_per_second > rounding) return false;
  if (limits.usd_per_hour && v.usd_per_hour > *limits.usd_per_hour * rounding) return false;
  return !limits.usd_per_iteration || v.forecast.expense.usd().value_or(1e300) <= *limits.usd_per_iteration * rounding;
}

bool Judge::in_the_pool(const plan::Plan& plan) const {
  const auto nodes = nodes_of(i_.request.pool);
  for (const auto& [place, hosts] : hosts_of(plan::allocate(plan, profile_).devices)) {
    const auto there = nodes.find(place);
    if (there == nodes.end() || hosts.size() > there->second.size()) return false;
    for (std::size_t h = 0; h < hosts.size(); ++h)
      if (hosts[h] > there->second[h]) return false;
  }
  return true;
}

std::string Judge::broken_restriction(const plan::Plan& plan) const {
  const auto& r = i_.request.restrictions;
  const auto& first = plan.stages.front().replicas.front();
  int least_blocks = 1 << 30, most_blocks = 0, least_turns = 1 << 30, most_turns = 0;
  for (const auto& stage : plan.stages) {
    const int blocks = std::min(stage.last_layer, plan.model.layers() - 1) - std::max(stage.first_layer, 1);
    least_blocks = std::min(least_blocks, blocks), most_blocks = std::max(most_blocks, blocks);
    if (r.equal_replicas && stage.replicas.size() != plan.stages.front().replicas.size()) return "equal-replicas";
    for (const auto& replica : stage.replicas) {
      const int turns = replica.microbatches(plan.quantum);
      least_turns = std::min(least_turns, turns), most_turns = std::max(most_turns, turns);
      if (r.one_device_type && replica.device_type != first.device_type) return "one-device-type";
      if (r.one_microbatch_size && replica.quanta != first.quanta) return "one-microbatch-size";
      if (r.one_tensor_degree_per_stage && replica.tensor_parallel != stage.replicas.front().tensor_parallel)
        return "one-tensor-degree-per-stage";
    }
  }
  if (r.even_layers && most_blocks - least_blocks > 1) return "even-layers";
  return r.one_microbatch_size && most_turns - least_turns > 1 ? "one-microbatch-size (shares)" : "";
}

std::vector<std::string> Judge::problems(const search::RankedPlan& pooled) const {
  std::vector<std::string> found;
  const auto expect = [&](bool good, const std::string& what) {
    if (!good) found.push_back(what);
  };
  for (const auto& problem : plan::validate(pooled.plan)) found.push_back(problem.where + " " + problem.what);
  if (!found.empty()) return found;
  for (const auto& stage : pooled.plan.stages)
    for (const auto& replica : stage.replicas) expect(replica.devices.empty(), "the plan is bound");
  expect(pooled.plan.model == i_.request.model && pooled.plan.length == i_.request.length &&
             pooled.plan.global_batch == i_.request.global_batch && pooled.plan.precision == i_.request.precision,
         "another job");
  if (!found.empty()) return found;
  expect(in_the_pool(pooled.plan), "the pool does not hold it");
  const auto broken = broken_restriction(pooled.plan);
  expect(broken.empty(), "breaks " + broken);
  const Verdict v = forecast(pooled.plan);
  expect(v.fits, "does not fit the memory");
  expect(keeps_limits(v), "breaks a limit");
  expect(same(v.forecast.iteration.value, pooled.iteration.value),
         text("iteration ", pooled.iteration, ", forecast ", v.forecast.iteration));
  expect(v.value && same(*v.value, pooled.value), text("value ", pooled.value, ", forecast ", v.value.value_or(-1)));
  expect(
      v.forecast.expense.usd().has_value() == pooled.usd.has_value() && same(pooled.usd.value_or(0), v.forecast.expense.usd().value_or(0)),
      "another price than forecast");
  expect(v.devices == pooled.devices, text(pooled.devices, " devices said, ", v.devices, " taken"));
  expect(v.forecast.peak_memory() == pooled.peak_memory, "another peak memory than forecast");
  return found;
}

std::vector<std::string> Judge::problems(const search::PlanAnswer& answer) const {
  std::vector<std::string> found;
  const auto expect = [&](bool good, const std::string& what) {
    if (!good) found.push_back(what);
  };
  if (!answer.best) {
    expect(!answer.no_plan_reason.empty() && answer.no_plan_reason.find('\n') == std::string::npos, "no plan, and no line that says why");
    expect(answer.alternatives.empty(), "alternatives to no plan");
    return found;
  }
  found = problems(*answer.best);
  expect(static_cast<int>(answer.alternatives.size()) <= i_.request.alternatives, "too many alternatives");
  double before = answer.best->value;
  for (const auto& other : answer.alternatives) {
    for (const auto& problem : problems(other)) found.push_back("alternative: " + problem);
    expect(other.value >= before, "alternatives out of order");
    expect(!other.reason.empty(), "an alternative without a reason");
    expect(other.plan != answer.best->plan, "the plan is its own alternative");
    before = other.value;
  }
  expect(answer.bound_gap >= 0 && answer.bound_gap <= 1, text("a gap of ", answer.bound_gap));
  expect(answer.finished == (answer.bound_gap <= i_.request.tolerance), "finished does not follow from the gap");
  return found;
}

std::string joined(const std::vector<std::string>& lines) {
  std::string all;
  for (const auto& line : lines) all += (all.empty() ? "" : "; ") + line;
  return all;
}

}  // namespace flotilla::fixture
