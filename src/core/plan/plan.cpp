#include "flotilla/plan/plan.hpp"

#include <algorithm>
#include <array>
#include <set>
#include <string_view>
#include <utility>

#include "flotilla/base/error.hpp"
#include "flotilla/base/foreign_text.hpp"
#include "flotilla/plan/batch_partition.hpp"
#include "flotilla/plan/recompute_modes.hpp"

namespace flotilla::plan {
namespace {

constexpr std::array<std::pair<std::string_view, Recompute>, 3> recomputes{
    {{"none", Recompute::none}, {"selective", Recompute::selective}, {"full", Recompute::full}}};
constexpr std::array<std::pair<std::string_view, ScheduleKind>, 4> schedules{{{"gpipe", ScheduleKind::gpipe},
                                                                              {"1f1b", ScheduleKind::one_f_one_b},
                                                                              {"interleaved", ScheduleKind::interleaved},
                                                                              {"zero-bubble", ScheduleKind::zero_bubble}}};

template <class Table, class Value>
std::string spelling(const Table& table, Value value) {
  const auto found = std::ranges::find(table, value, [](const auto& entry) { return entry.second; });
  FLOTILLA_ASSERT(found != table.end(), static_cast<int>(value));
  return std::string{found->first};
}

template <class Table>
auto parse(const Table& table, std::string_view what, const std::string& name) {
  const auto found = std::ranges::find(table, std::string_view{name}, [](const auto& entry) { return entry.first; });
  if (found != table.end()) return found->second;
  std::string known;
  for (const auto& entry : table) known += (known.empty() ? "" : ", ") + std::string{entry.first};
  throw Error{ErrorKind::bad_input, text(in_quotes(name), " is not a ", what, "; expected one of ", known)};
}

const Stage& stage_of(const Plan& plan, int stage) {
  FLOTILLA_ASSERT(stage >= 0 && stage < static_cast<int>(plan.stages.size()), stage);
  return plan.stages[static_cast<std::size_t>(stage)];
}

/// "2x tp1 mb4", with the device type where a plan has several.
std::string describe(const Plan& plan, const Replica& replica, int copies, bool with_type) {
  return text(copies, "x tp", replica.tensor_parallel, " mb", largest_microbatch(plan, replica),
              with_type && !replica.device_type.empty() ? " " + replica.device_type : "");
}

bool looks_alike(const Plan& plan, const Replica& a, const Replica& b) {
  return a.device_type == b.device_type && a.tensor_parallel == b.tensor_parallel &&
         largest_microbatch(plan, a) == largest_microbatch(plan, b);
}

std::string describe(const Plan& plan, const Stage& stage, bool with_type) {
  std::string line = text("[", stage.first_layer, ",", stage.last_layer, ")");
  const char* separator = " ";
  for (auto replica = stage.replicas.begin(); replica != stage.replicas.end();) {
    const auto end = std::find_if_not(replica, stage.replicas.end(), [&](const Replica& r) { return looks_alike(plan, *replica, r); });
    line += separator + describe(plan, *replica, static_cast<int>(end - replica), with_type);
    separator = " + ";
    replica = end;
  }
  return stage.recompute == Recompute::none ? line : line + " recompute " + to_string(stage.recompute);
}

bool has_several_types(const Plan& plan) {
  std::set<std::string_view> types;
  for (const Stage& stage : plan.stages)
    for (const Replica& replica : stage.replicas) types.insert(replica.device_type);
  return types.size() > 1;
}

}  // namespace

std::string to_string(Recompute r) { return spelling(recomputes, r); }
std::string to_string(ScheduleKind s) { return spelling(schedules, s); }
Recompute parse_recompute(const std::string& name) { return parse(recomputes, "recompute setting", name); }
ScheduleKind parse_schedule(const std::string& name) { return parse(schedules, "schedule", name); }

std::set<Recompute> recompute_modes(const Plan& plan) {
  std::set<Recompute> modes;
  for (const Stage& stage : plan.stages) modes.insert(stage.recompute);
  return modes;
}

int own_stages(const Plan& plan) { return static_cast<int>(plan.stages.size()) / std::max(1, plan.chunks); }

int rank_count(const Plan& plan) {
  int count = 0;
  for (int s = 0; s < own_stages(plan); ++s)
    for (const Replica& replica : stage_of(plan, s).replicas) count += replica.tensor_parallel;
  return count;
}

RankCoordinates place_of(const Plan& plan, Rank rank) {
  for (std::size_t s = 0; s < plan.stages.size(); ++s)
    for (std::size_t r = 0; r < plan.stages[s].replicas.size(); ++r) {
      const std::vector<Rank>& devices = plan.stages[s].replicas[r].devices;
      const auto found = std::ranges::find(devices, rank);
      if (found != devices.end()) return {static_cast<int>(s), static_cast<int>(r), static_cast<int>(found - devices.begin())};
    }
  return {};
}

std::vector<int> routes(const Plan& plan, int stage) {
  std::vector<int> replicas(static_cast<std::size_t>(plan.global_batch / plan.quantum), -1);
  const BatchPartition dealt = partition_batch(plan, stage);
  for (std::size_t r = 0; r < dealt.size(); ++r)
    for (const Microbatch& m : dealt[r])
      for (int q = m.first / plan.quantum; q < m.last() / plan.quantum; ++q) replicas[static_cast<std::size_t>(q)] = static_cast<int>(r);
  return replicas;
}

std::string summary(const Plan& plan) {
  const bool with_type = has_several_types(plan);
  std::string line = text(plan.stages.size(), plan.stages.size() == 1 ? " stage: " : " stages: ");
  const char* separator = "";
  for (const Stage& stage : plan.stages) {
    line += separator + describe(plan, stage, with_type);
    separator = ", ";
  }
  return line + text(" | ", to_string(plan.schedule), plan.sequence_parallel ? ", sequence parallel" : "", " | batch ", plan.global_batch,
                     " = ", plan.global_batch / plan.quantum, " x ", plan.quantum, plan.shard_optimizer ? " | sharded optimizer" : "");
}

}  // namespace flotilla::plan
