#include "flotilla/search/moved_bytes.hpp"

#include <tuple>

#include "assignment.hpp"
#include "flotilla/base/error.hpp"
#include "holdings.hpp"

namespace flotilla::search {
namespace {

/// As program::RankClass::Part holds it on a device, but for the gradients.
Bytes state_of_a_parameter(Precision precision) {
  constexpr Bytes weight{4}, moment{4};
  return weight + 2 * moment + (precision == Precision::fp32 ? Bytes{} : element_size(precision));
}

std::int64_t parameters(const Holdings& all, const CommonParameters& common) {
  std::int64_t sum = 0;
  for (const auto& [place, held] : all)
    for (const auto& [holding, count] : held) sum += count * common(holding, holding);
  return sum;
}

/// The most parameters that devices of one type and zone can keep.
std::int64_t kept(const std::map<Holding, std::int64_t>& before, const std::map<Holding, std::int64_t>& after,
                  const CommonParameters& common) {
  std::vector<std::int64_t> sources, sinks;
  std::vector<Lane> lanes;
  for (const auto& [holding, count] : after) sinks.push_back(count);
  for (const auto& [old, count] : before) {
    int sink = 0;
    for (const auto& [fresh, wanted] : after) {
      if (const auto gain = common(old, fresh); gain > 0) lanes.push_back({static_cast<int>(sources.size()), sink, gain});
      ++sink;
    }
    sources.push_back(count);
  }
  return largest_gain(sources, sinks, lanes);
}

}  // namespace

Bytes training_state(const plan::Plan& plan) {
  return state_of_a_parameter(plan.precision) * parameters(holdings(plan), CommonParameters{plan.model});
}

Bytes moved_bytes(const plan::Plan& previous, const plan::Plan& next) {
  FLOTILLA_REQUIRE(previous.model == next.model, ErrorKind::bad_input, "the previous plan is for ", previous.model.name,
                   ", the new one for ", next.model.name, previous.model.name == next.model.name ? " of another shape" : "",
                   "; bytes move between plans for one model only");
  const CommonParameters common{next.model};
  const Holdings before = holdings(previous), after = holdings(next);
  std::int64_t missing = parameters(after, common);
  for (const auto& [place, wanted] : after)
    if (const auto held = before.find(place); held != before.end()) missing -= kept(held->second, wanted, common);
  return state_of_a_parameter(next.precision) * missing;
}

std::optional<std::size_t> choose_near_best(std::span<const PooledPlan> candidates, double best_value, double share) {
  const auto rank = [&](std::size_t i) { return std::tuple{candidates[i].moved, candidates[i].value, candidates[i].devices}; };
  std::optional<std::size_t> chosen;
  for (std::size_t i = 0; i < candidates.size(); ++i)
    if (candidates[i].value <= (1 + share) * best_value && (!chosen || rank(i) < rank(*chosen))) chosen = i;
  return chosen;
}

}  // namespace flotilla::search
