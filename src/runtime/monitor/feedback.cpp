#include "flotilla/monitor/feedback.hpp"

#include <algorithm>
#include <cstring>

#include "flotilla/base/error.hpp"
#include "flotilla/monitor/forecast_check.hpp"
#include "flotilla/monitor/forecast_comparison.hpp"
#include "flotilla/mpi/communicator.hpp"
#include "run_evidence.hpp"

namespace flotilla::monitor {
namespace {

constexpr std::size_t unsettled_steps = 2;  // as settled() leaves out

std::string packed(const std::vector<double>& values) {
  std::string bytes(values.size() * sizeof(double), '\0');
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

std::vector<double> unpacked(const std::string& bytes) {
  std::vector<double> values(bytes.size() / sizeof(double));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(double));
  return values;
}

/// The timeline of the rank that stands for this one.
std::vector<simulate::Span> spans_of(const simulate::Forecast& forecast, Rank rank) {
  std::vector<simulate::Span> spans;
  for (const auto& kind : forecast.kinds)
    if (std::ranges::binary_search(kind.ranks, rank))
      for (const auto& span : forecast.timeline)
        if (span.rank == kind.ranks.front()) spans.push_back(span);
  return spans;
}

}  // namespace

Feedback::Feedback(ActiveRun run, const simulate::Forecast& forecast)
    : at_{run},
      forecast_{forecast},
      figures_{std::make_unique<RankFigures>(at_.trainer.program(), at_.active.rank(), at_.profile, at_.active_ranks)} {}
Feedback::~Feedback() = default;

std::optional<Proof> Feedback::add(Seconds took) {
  if (!figures_) return std::nullopt;
  steps_.push_back(took.value);
  if (steps_.size() > unsettled_steps) seconds_.push_back(figures_->seconds(at_.trainer.timeline()));
  if (steps_.size() < ForecastCheck::iterations) return std::nullopt;
  // What messages and sums were forecast to take, then what all figures took, step after step.
  auto mine = figures_->traffic(at_.profile, at_.active_ranks);
  for (const auto& step : seconds_) mine.insert(mine.end(), step.begin(), step.end());
  std::vector<std::vector<double>> by_rank;
  for (const auto& bytes : mpi::all_gather_strings(at_.active.control(), packed(mine), at_.deadline)) by_rank.push_back(unpacked(bytes));
  figures_.reset();
  seconds_.clear();
  if (at_.active.rank() != Rank{0} || forecast_.timeline.empty()) return std::nullopt;
  return proof(by_rank);
}

std::vector<std::vector<Evidence>> Feedback::gathered(const std::vector<std::vector<double>>& by_rank) const {
  std::vector<std::vector<Evidence>> all;
  for (std::size_t r = 0; r < by_rank.size(); ++r) {
    const RankFigures of_rank{at_.trainer.program(), Rank{static_cast<int>(r)}, at_.profile, at_.active_ranks};
    const auto count = of_rank.figures().size();
    FLOTILLA_ASSERT(count == 0 || by_rank[r].size() % count == 0, by_rank[r].size(), " numbers of ", count, " figures");
    const auto operations = of_rank.seconds(spans_of(forecast_, at_.active_ranks.at(r)));
    const auto runs = of_rank.runs();
    const auto* type = cluster::find_type(at_.profile, at_.profile.devices.at(at_.active_ranks.at(r).index()).type);
    auto& evidence = all.emplace_back(of_rank.figures());
    for (std::size_t f = 0; f < count; ++f) {
      auto& e = evidence[f];
      e.runs = runs[f];
      e.forecast = e.figure.figure == cluster::Correction::Figure::operation ? operations[f] : by_rank[r][f];
      if (e.figure.figure == cluster::Correction::Figure::messages && type != nullptr)
        e.allowance = runs[f] * type->interference.message_delay.value;
      for (std::size_t at = count + f; at < by_rank[r].size(); at += count) e.measured.push_back(by_rank[r][at]);
    }
  }
  return all;
}

Proof Feedback::proof(const std::vector<std::vector<double>>& by_rank) const {
  const auto counted = settled(steps_);
  return {wrong_figures(gathered(by_rank), {forecast_.iteration.value, forecast_.relative_error}, at_.profile), median(counted),
          static_cast<int>(counted.size())};
}

}  // namespace flotilla::monitor
