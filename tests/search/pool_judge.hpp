#pragma once
#include <optional>
#include <string>
#include <vector>

#include "flotilla/simulate/forecast.hpp"
#include "pool_instances.hpp"

/// Looks at answers of the planner without its code: counts devices anew and forecasts anew.
namespace flotilla::fixture {

/// An unbound plan on the nodes that it takes.
struct Verdict {
  simulate::Forecast forecast;
  std::optional<double> value;  ///< of the objective
  double usd_per_hour = 0;      ///< of the devices
  int devices = 0;
  bool fits = false;  ///< the memory of every device
};

class Judge {
 public:
  explicit Judge(const Instance&);

  Verdict forecast(const plan::Plan&) const;
  bool keeps_limits(const Verdict&) const;
  /// Devices zone by zone and node by node.
  bool in_the_pool(const plan::Plan&) const;
  /// "" where the plan keeps the request's restrictions, else the one that it breaks.
  std::string broken_restriction(const plan::Plan&) const;
  /// All that is wrong with a plan of an answer; empty: nothing.
  std::vector<std::string> problems(const search::RankedPlan&) const;
  /// All that is wrong with an answer.
  std::vector<std::string> problems(const search::PlanAnswer&) const;

 private:
  const Instance& i_;
  cluster::Profile profile_;
};

/// "a; b; c".
std::string joined(const std::vector<std::string>&);

}  // namespace flotilla::fixture
