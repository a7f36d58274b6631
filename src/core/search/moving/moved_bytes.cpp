#include "moved_bytes.hpp"

#include <tuple>

#include "assignment.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/program/migration.hpp"
#include "holdings.hpp"
#include "shared_state.hpp"

namespace flotilla::search {
namespace {

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
  if (plan.shard_optimizer) return state_with_shares(plan);
  return program::kept_per_parameter * parameters(holdings(plan), CommonParameters{plan.model});
}

Bytes moved_bytes(const plan::Plan& previous, const plan::Plan& next) {
  FLOTILLA_REQUIRE(previous.model == next.model, ErrorKind::bad_input, "the previous plan is for ", previous.model.name,
                   ", the new one for ", next.model.name, previous.model.name == next.model.name ? " of another shape" : "",
                   "; bytes move between plans for one model only");
  if (previous.shard_optimizer || next.shard_optimizer) return moved_with_shares(previous, next);
  const CommonParameters common{next.model};
  const Holdings before = holdings(previous), after = holdings(next);
  std::int64_t missing = parameters(after, common);
  for (const auto& [place, wanted] : after)
    if (const auto held = before.find(place); held != before.end()) missing -= kept(held->second, wanted, common);
  return program::kept_per_parameter * missing;
}

std::optional<std::size_t> choose_near_best(std::span<const RankedPlan> ranked_candidates, double best_value, double share) {
  const auto rank = [&](std::size_t i) {
    return std::tuple{ranked_candidates[i].moved, ranked_candidates[i].value, ranked_candidates[i].devices};
  };
  std::optional<std::size_t> chosen;
  for (std::size_t i = 0; i < ranked_candidates.size(); ++i)
    if (ranked_candidates[i].value <= (1 + share) * best_value && (!chosen || rank(i) < rank(*chosen))) chosen = i;
  return chosen;
}

}  // namespace flotilla::search
