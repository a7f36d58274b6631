#pragma once
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "app/common/commands.hpp"
#include "app/common/job.hpp"
#include "app/common/prices.hpp"
#include "app/common/table.hpp"
#include "flotilla/journal/history.hpp"
#include "flotilla/journal/metrics.hpp"

namespace flotilla::app {

/// Options of `flotilla report`.
struct RunReportOptions {
  std::vector<std::string> price;    ///< "A100-40=2.50USD/h"
  std::vector<std::string> billing;  ///< "A100-40=16units/h"
  std::string page;                  ///< HTML file; empty: none
  std::string timeline;              ///< that --report.timeline wrote; empty: timeline.json of the run directory, where there is one
  Job::Output output;
};
BoundTable run_report_options();

/// What an incarnation cost. A figure is absent where nobody knows a price that it takes.
struct RunCost {
  double device_hours = 0, node_hours = 0;
  std::optional<double> billing_units, usd;
};

/// Billing units of a node-hour by partition, and those and dollars of a device-hour.
struct RunPrices {
  std::map<std::string, double> node_units;
  cluster::Profile devices;  ///< types and their prices alone
};
/// From submission.json of the run directory where there is one, and from the options, which go before. Throws Error{usage, bad_input}.
RunPrices prices_of_run(const std::filesystem::path& run, const std::vector<journal::IncarnationHistory>&, const Prices&);
RunCost cost_of(const journal::IncarnationHistory&, const RunPrices&);

/// A run and what its starts cost, side by side.
struct RunReport {
  std::string run;
  std::vector<journal::IncarnationHistory> incarnations;
  std::vector<RunCost> costs;
  std::vector<double> losses{};  ///< of the iterations that count, in their order
  std::int64_t empty_steps = 0;  ///< those without one: no token counted
  std::vector<journal::PhaseHistory> phases{};
  std::vector<journal::EvaluationRecord> evaluations{};  ///< by step
  std::vector<journal::SourceHistory> sources{};         ///< of a mixture, in training
  std::optional<journal::StopRecord> refusal{};          ///< of the newest start, where it was refused
  std::optional<journal::CheckpointRecord> undrained{};  ///< the newest checkpoint, where it is on nodes' storage only
};
/// For people, within `width` columns.
std::string run_report_text(const RunReport&, const Style&, int width);
/// docs/report.md describes it.
std::string run_report_json(const RunReport&);

/// `flotilla report RUN`: what a run did, incarnation by incarnation. Local. Throws Error{usage, bad_input}.
int report_run(std::span<const std::string> arguments);

}  // namespace flotilla::app
