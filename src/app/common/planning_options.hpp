#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "app/common/commands.hpp"
#include "app/common/forecast_basis.hpp"
#include "app/common/job.hpp"
#include "flotilla/search/constraints.hpp"
#include "flotilla/search/objective.hpp"

namespace flotilla::app {

/// Options of `flotilla plan`.
struct PlanningOptions {
  struct Model {
    std::string name;    ///< empty: the library's only one
    std::string config;  ///< path of a Hugging Face config.json instead
  } model;
  int global_batch = 0;                ///< sequences
  int length = 0;                      ///< tokens; 0: the model's positions
  std::optional<Precision> precision;  ///< nothing: what the devices are made for, or the better of two
  std::vector<std::string> pool;       ///< TYPE[@ZONE]=COUNT[/PER_NODE]; empty: the devices of the profile
  std::vector<std::string> restrict;   ///< names, several of an item separated by commas
  ForecastBasis basis;
  std::string write_plan;   ///< file for the plan alone; empty: none
  std::string page;         ///< HTML file; empty: none
  std::string certificate;  ///< file for the proof of the bound; empty: none
  Job::Plan fixed;          ///< as in a training's job, but for its file and replan
  std::optional<search::Goal> maximise, minimise;
  Share confidence;  ///< search::Objective::confidence
  struct Limits {
    Seconds run_time;                   ///< 0: no limit
    std::optional<UsDollars> run_cost;  ///< devices and egress
    std::optional<UsDollars> iteration_cost, hourly_cost;
    std::optional<double> iterations_per_second;
    int devices = 0;  ///< 0: no limit
  } limit;
  Seconds time_limit;  ///< 0: none
  int alternatives = 4;
  bool explain = false;    ///< why devices are idle, what one more node would bring
  bool pareto = false;     ///< time against cost
  std::int64_t steps = 0;  ///< iterations of the run, for its totals; 0: not told
  std::string tokens;      ///< of the run, "300B"; goes before `steps`; empty: not told
  Share tolerance;
  std::string previous;  ///< file of a plan; empty: none
  Share within;
  Job::Output output;

  std::vector<options::Setting> settings;  ///< as they were read: who said what
  const options::Setting& setting(const std::string& name) const;
};

options::Table planning_table(PlanningOptions&);
BoundTable planning_options();

/// Reads arguments (at most one operand, a job file), environment and job file. What a job leaves out of model and training is what
/// `flotilla train` takes; without a job file it must be said. Throws Error{usage, bad_input}.
PlanningOptions read_planning_options(std::span<const std::string> arguments, std::span<const std::string> environment);

/// The same into `o` through a table that holds its options and may hold more. Returns the operands.
std::vector<std::string> read_planning(options::Table&, PlanningOptions& o, std::span<const std::string> arguments,
                                       std::span<const std::string> environment);
/// Throws Error{usage} where nobody said how many sequences an iteration has.
void require_batch(const PlanningOptions&);

/// What the options fix of plans. Throws Error where they contradict each other, or the cost model that plans.
search::Constraints constraints_of(const PlanningOptions&);

/// Throughput where nothing is said. Throws Error where both directions are given.
search::Objective objective_of(const PlanningOptions&, std::int64_t iterations);

}  // namespace flotilla::app
