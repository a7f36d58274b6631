#include "flotilla/simulate/report.hpp"

#include <algorithm>

#include "flotilla/cluster/product_peak.hpp"
#include "flotilla/model/operations.hpp"

namespace flotilla::simulate {
namespace {

/// plan::place_of of every rank at once.
std::vector<plan::RankCoordinates> places(const plan::Plan& plan) {
  std::vector<plan::RankCoordinates> by_rank(static_cast<std::size_t>(plan::rank_count(plan)));
  for (int s = 0; s < plan::own_stages(plan); ++s) {
    const auto& replicas = plan.stages[static_cast<std::size_t>(s)].replicas;
    for (std::size_t r = 0; r < replicas.size(); ++r)
      for (std::size_t t = 0; t < replicas[r].devices.size(); ++t)
        by_rank.at(replicas[r].devices[t].index()) = {s, static_cast<int>(r), static_cast<int>(t)};
  }
  return by_rank;
}

std::vector<int> stages_with(const plan::Plan& plan, int own_stage) {
  std::vector<int> stages;
  for (int s = own_stage; s < static_cast<int>(plan.stages.size()); s += plan::own_stages(plan)) stages.push_back(s);
  return stages;
}

std::optional<Bytes> limit_of(const cluster::Profile& profile, const std::string& device_type) {
  const auto* type = cluster::find_type(profile, device_type);
  return type != nullptr && type->memory.count > 0 ? std::optional{type->memory} : std::nullopt;
}

ReportRow row_of(const RankKind& kind, const plan::Plan& plan, const std::vector<plan::RankCoordinates>& by_rank,
                 const cluster::Profile& profile) {
  ReportRow row;
  row.first = kind.ranks.front();
  const auto& place = by_rank.at(row.first.index());
  const auto& device = profile.devices.at(row.first.index());
  row.stages = stages_with(plan, place.stage);
  for (Rank rank : kind.ranks) row.replicas.push_back(by_rank.at(rank.index()).replica);
  std::ranges::sort(row.replicas);
  row.replicas.erase(std::ranges::unique(row.replicas).begin(), row.replicas.end());
  row.device_type = device.type;
  row.zone = device.zone;
  row.host = device.host;
  row.ranks = static_cast<int>(kind.ranks.size());
  row.breakdown = kind.breakdown;
  row.memory = kind.memory;
  row.limit = limit_of(profile, device.type);
  return row;
}

std::optional<double> share_of_peak(const plan::Plan& plan, const cluster::Profile& profile, const Report& report) {
  double peak = 0;
  for (const auto& row : report.rows) {
    const auto* type = cluster::find_type(profile, row.device_type);
    const double of_one = type == nullptr ? 0 : cluster::product_peak(*type, plan.precision).value;
    if (!(of_one > 0)) return std::nullopt;
    peak += of_one * row.ranks;
  }
  if (!(peak > 0) || !(report.iteration.value > 0)) return std::nullopt;
  const double tokens = static_cast<double>(plan.length) * plan.global_batch;
  return model::training_flops_per_token(plan.model, plan.length) * tokens / (report.iteration.value * peak);
}

}  // namespace

const ReportRow* Report::fullest() const {
  const auto most = std::ranges::max_element(rows, {}, [](const ReportRow& row) { return row.memory.peak(); });
  return most == rows.end() ? nullptr : &*most;
}

Bytes Report::peak_memory() const { return rows.empty() ? Bytes{} : fullest()->memory.peak(); }

bool Report::fits() const {
  return std::ranges::all_of(rows, [](const ReportRow& row) { return row.fits(); });
}

Report report_of(const plan::Plan& plan, const cluster::Profile& profile, const Forecast& forecast) {
  Report report;
  report.plan = plan::summary(plan);
  report.model = plan.model.name;
  report.length = plan.length;
  report.global_batch = plan.global_batch;
  report.devices = plan::rank_count(plan);
  report.iteration = forecast.iteration;
  report.relative_error = forecast.relative_error;
  report.memory_error = forecast.memory_error;
  report.estimated_share = forecast.estimated_share;
  report.breakdown = forecast.breakdown;
  report.expense = forecast.expense;
  report.transports = forecast.transports;
  const auto by_rank = places(plan);
  for (const auto& kind : forecast.kinds) report.rows.push_back(row_of(kind, plan, by_rank, profile));
  report.share_of_peak = share_of_peak(plan, profile, report);
  return report;
}

}  // namespace flotilla::simulate
