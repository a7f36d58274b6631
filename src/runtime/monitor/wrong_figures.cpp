#include "flotilla/monitor/wrong_figures.hpp"

#include <algorithm>
#include <cmath>
#include <map>

namespace flotilla::monitor {
namespace {

using cluster::Correction;
using FigureKind = Correction::Figure;

/// Of measured / forecast over the iterations of one rank or group.
struct Ratios {
  const Evidence* of = nullptr;
  double lower = 1, median = 1, upper = 1;
};

double at_share(const std::vector<double>& sorted, double share) {
  const double place = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const auto above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (place - std::floor(place)) * (sorted[above] - sorted[below]);
}

Ratios ratios_of(const Evidence& e) {
  auto ratios = e.measured;
  // What is within the allowance is as forecast.
  for (double& seconds : ratios) seconds = (seconds > e.forecast ? std::max(e.forecast, seconds - e.allowance) : seconds) / e.forecast;
  std::ranges::sort(ratios);
  return {&e, at_share(ratios, 0.25), at_share(ratios, 0.5), at_share(ratios, 0.75)};
}

bool counts(const Evidence& e) { return e.forecast > 0 && e.runs > 0 && e.measured.size() >= least_iterations; }

/// The member that waits least, iteration by iteration; groups of which fewer than two members spoke prove nothing.
std::vector<Evidence> of_groups(std::span<const std::vector<Evidence>> by_rank) {
  struct Heard {
    Evidence least;
    int members = 0;
  };
  std::map<int, Heard> groups;
  for (const auto& rank : by_rank)
    for (const auto& e : rank) {
      if (e.group < 0 || !counts(e)) continue;
      auto& heard = groups[e.group];
      if (++heard.members == 1) {
        heard.least = e;
        continue;
      }
      auto& least = heard.least.measured;
      least.resize(std::min(least.size(), e.measured.size()));
      for (std::size_t i = 0; i < least.size(); ++i) least[i] = std::min(least[i], e.measured[i]);
    }
  std::vector<Evidence> all;
  for (auto& [group, heard] : groups)
    if (heard.members >= 2) all.push_back(std::move(heard.least));
  return all;
}

/// Evidence of one figure from several ranks or groups.
struct Case {
  const Evidence* first = nullptr;
  std::vector<Ratios> seen;

  const Ratios& lower_median() {
    std::ranges::sort(seen, {}, &Ratios::median);
    return seen[(seen.size() - 1) / 2];
  }
};

std::vector<Case> cases_of(std::span<const std::vector<Evidence>> by_rank, const std::vector<Evidence>& groups) {
  std::vector<Case> cases;
  const auto add = [&](const Evidence& e) {
    if (!counts(e)) return;
    auto found = std::ranges::find_if(cases, [&](const Case& c) { return same_figure(c.first->figure, e.figure); });
    if (found == cases.end()) found = cases.insert(cases.end(), Case{&e, {}});
    found->seen.push_back(ratios_of(e));
  };
  for (const auto& rank : by_rank)
    for (const auto& e : rank)
      if (e.group < 0) add(e);
  for (const auto& e : groups) add(e);
  return cases;
}

bool outside(double lower, double upper, double bar) { return lower > 1 + bar || upper < 1 - bar; }

Correction correction_of(const Ratios& ratios, double bar) {
  Correction c = ratios.of->figure;
  c.was = {ratios.of->forecast / ratios.of->runs};
  c.now = c.was * ratios.median;
  c.lower = ratios.lower;
  c.upper = ratios.upper;
  c.error_bar = bar;
  c.iterations = static_cast<int>(ratios.of->measured.size());
  return c;
}

/// A pass of a type that some rank of it ran: its factor, wrong or not.
struct Passes {
  std::vector<double> factors;
  Correction last;  ///< a wrong one
  bool wrong = false;
};

bool is_pass(const Correction& c) { return c.figure == FigureKind::operation && !cluster::is_per_element(c.operation); }

void infer(std::vector<Correction>& wrong, const std::map<std::string, Passes>& by_type, const std::vector<Case>& seen,
           const cluster::Profile& profile) {
  std::vector<Correction> inferred;
  for (const auto& time : profile.operation_times) {
    const auto found = by_type.find(time.device_type);
    if (found == by_type.end() || !found->second.wrong || cluster::is_per_element(time.operation)) continue;
    auto factors = found->second.factors;
    std::ranges::sort(factors);
    const double factor = at_share(factors, 0.5), bar = found->second.last.error_bar;
    const auto same = [&](const Correction& c) {
      return is_pass(c) && c.device_type == time.device_type && c.operation == time.operation && c.precision == time.precision;
    };
    const bool ran = std::ranges::any_of(seen, [&](const Case& c) { return same(c.first->figure); });
    if (ran || std::ranges::any_of(inferred, same) || time.precision != found->second.last.precision || !outside(factor, factor, bar))
      continue;
    Correction c = found->second.last;
    c.operation = time.operation;
    c.tensor_parallel = time.tensor_parallel, c.sequences = time.sequences, c.length = time.length;
    c.was = time.time;
    c.now = time.time * factor;
    c.lower = factors.front(), c.upper = factors.back();
    c.inferred = true;
    inferred.push_back(std::move(c));
  }
  wrong.insert(wrong.end(), inferred.begin(), inferred.end());
}

}  // namespace

std::vector<Correction> wrong_figures(std::span<const std::vector<Evidence>> by_rank, const ProofLimits& limits,
                                      const cluster::Profile& profile) {
  const auto groups = of_groups(by_rank);
  auto cases = cases_of(by_rank, groups);
  std::vector<std::pair<double, Correction>> found;
  std::map<std::string, Passes> by_type;
  for (auto& one : cases) {
    const Ratios ratios = one.lower_median();
    const double bar = std::max(limits.error_bar, ratios.of->figure.error_bar);
    const double cost = std::abs(ratios.median - 1) * ratios.of->forecast;
    const bool pass = is_pass(ratios.of->figure);
    if (pass) by_type[ratios.of->figure.device_type].factors.push_back(ratios.median);
    if (!outside(ratios.lower, ratios.upper, bar) || cost < least_part_of_iteration * limits.iteration) continue;
    found.emplace_back(cost, correction_of(ratios, bar));
    if (!pass) continue;
    auto& type = by_type[ratios.of->figure.device_type];
    type.last = found.back().second;
    type.wrong = true;
  }
  std::ranges::stable_sort(found, std::ranges::greater{}, [](const auto& one) { return one.first; });
  std::vector<Correction> wrong;
  for (auto& one : found) wrong.push_back(std::move(one.second));
  infer(wrong, by_type, cases, profile);
  return wrong;
}

}  // namespace flotilla::monitor
