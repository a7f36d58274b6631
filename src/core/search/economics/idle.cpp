#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "../evaluated.hpp"
#include "../explain.hpp"
#include "../pool/answer.hpp"
#include "../pool/plan_evaluator.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/base/text.hpp"
#include "flotilla/search/economics.hpp"
#include "places.hpp"

namespace flotilla::search {
namespace {

using economics::PlaceUse;
using simulate::Activity;

constexpr double as_good = 1e-6;  // relative: what rounding makes of equal plans

const program::Runtime& runtime_of(const simulate::Forecaster& forecaster) {
  const auto* programs = dynamic_cast<const simulate::ProgramForecaster*>(&forecaster);
  FLOTILLA_REQUIRE(programs, ErrorKind::unavailable,
                   "the closed formulas do not say why devices are idle; plan by the forecast of programs");
  return programs->runtime();
}

/// Asks what a plan with one more of some devices would come to.
class IdleSearch {
 public:
  IdleSearch(const PlanRequest& request, const simulate::Forecaster& forecaster, const RankedPlan& best)
      : request_{request},
        forecaster_{forecaster},
        best_{best},
        device_pool_{request_, forecaster.profile()},
        evaluator_{device_pool_, runtime_of(forecaster)} {}

  IdleDevices explain(const PlaceUse& use) {
    IdleDevices idle{use.device_type, use.zone, use.there - use.used, "", {}};
    if (lacks_bf16(use.device_type)) {
      idle.reason = without_bf16(use.device_type);
      return idle;
    }
    PlanRequest with = asking_for_one_more(use);
    auto answer = plan(with, forecaster_);
    if (answer.best) {
      idle.reason = why_worse(*answer.best, use.used > 0 ? "one more" : "them");
      idle.with = std::move(answer.best);
      idle.with->reason = idle.reason;
      return idle;
    }
    idle.reason = answer.nearest_miss ? memory_in_words(*answer.nearest_miss) : why_forbidden(std::move(with));
    return idle;
  }

 private:
  bool lacks_bf16(const std::string& name) const {
    const auto* type = cluster::find_type(forecaster_.profile(), name);
    return type != nullptr && request_.precision == Precision::bf16 && !(type->peak_bf16.value > 0) && type->peak_fp16.value > 0;
  }

  /// What the whole pool reaches in fp16, which such devices have.
  std::string without_bf16(const std::string& name) {
    if (in_fp16_.empty()) {
      PlanRequest other = request_;
      other.precision = Precision::fp16;
      other.previous.reset();
      other.wants_proof = false;
      other.alternatives = 0;
      const auto answer = plan(other, forecaster_);
      const double here = best_.iteration.value, there = answer.best ? answer.best->iteration.value : 0;
      in_fp16_ = there <= 0     ? "no plan was found in fp16"
                 : there < here ? text("in fp16 the pool is ", rounded(here / there), " times as fast (training.precision)")
                                : "in fp16 the pool is no faster";
    }
    return text(name, " has no bf16: ", in_fp16_);
  }

  static std::string rounded(double ratio) {
    std::array<char, 32> words{};
    std::snprintf(words.data(), words.size(), "%.1f", ratio);
    return words.data();
  }

  PlanRequest asking_for_one_more(const PlaceUse& use) const {
    PlanRequest with = request_;
    with.constraints.at_least = {{use.device_type, use.zone, use.used + 1}};
    with.previous.reset();
    with.wants_proof = false;
    with.alternatives = 0;
    return with;
  }

  std::optional<Evaluated> evaluation_of(const plan::Plan& plan) {
    auto evaluation = evaluator_.forecast(plan);
    if (!evaluation) return std::nullopt;
    return evaluated(std::move(evaluation->plan), std::move(evaluation->forecast), request_.objective.goal,
                     [](Rank) { return std::optional<Bytes>{}; });
  }

  std::string why_worse(const RankedPlan& with, const char* what) {
    const auto here = evaluation_of(best_.plan), there = evaluation_of(with.plan);
    if (!here || !there) return text("a plan with ", what, " is worse");
    if (there->value < here->value * (1 - as_good))
      return text("a plan with ", what, " is ", percent(1 - there->value / here->value), " better: the search missed it");
    const auto goal = request_.objective.goal;
    return text("a plan with ", what, " is ", why_lost(*there, *here, goal), goal == Goal::throughput ? cause_in_words(*there, *here) : "",
                equal_within_error(*there, *here) ? "; within the forecast's error" : "");
  }

  /// What the activity that grows most says of the devices.
  static std::string cause_in_words(const Evaluated& with, const Evaluated& best) {
    if (!(with.value > best.value * (1 + as_good))) return "";
    switch (grown_most(with, best)) {
      case Activity::bubble: return "; they would hold up the others";
      case Activity::gradient_reduction:
      case Activity::activation_transfer:
      case Activity::tensor_collective: return "; their links are too slow";
      case Activity::forward:
      case Activity::backward: return "; they are slower than the others";
      case Activity::recompute: return "; their memory is too small without more recomputation";
      default: return "";
    }
  }

  static std::string memory_in_words(const Miss& miss) {
    return text("too little memory: ", miss.device_type, " would need ", miss.needed, " of ", miss.limit, " (", miss.contributors, ")");
  }

  /// Which limits the best plan with them would break, if it is limits that forbid it.
  std::string why_forbidden(PlanRequest with) {
    constexpr const char* none = "no plan found takes one more of them";
    if (with.objective.limits == Limits{}) return none;
    with.objective.limits = {};
    const auto answer = plan(with, forecaster_);
    if (!answer.best) return answer.nearest_miss ? memory_in_words(*answer.nearest_miss) : none;
    const auto there = evaluation_of(answer.best->plan);
    const auto broken = there ? pool::limits_in_words(request_.objective.limits, there->forecast, there->devices) : "";
    return broken.empty() ? none : text("over a limit: the best plan with one more of them ", broken);
  }

  PlanRequest request_;
  std::string in_fp16_;  ///< as a sentence's end; "" as long as nobody asked
  const simulate::Forecaster& forecaster_;
  const RankedPlan& best_;
  pool::DevicePool device_pool_;
  pool::PlanEvaluator evaluator_;
};

}  // namespace

std::vector<IdleDevices> why_idle(const PlanRequest& request, const simulate::Forecaster& forecaster, const RankedPlan& best,
                                  std::size_t most) {
  auto uses = economics::uses_of(request.pool, forecaster.profile(), best.plan);
  std::erase_if(uses, [](const PlaceUse& use) { return use.used >= use.there; });
  std::ranges::stable_sort(uses, std::ranges::greater{}, [](const PlaceUse& use) { return use.there - use.used; });
  if (uses.size() > most) uses.resize(most);
  std::vector<IdleDevices> all;
  if (uses.empty()) return all;
  IdleSearch search{request, forecaster, best};
  for (const PlaceUse& use : uses)
    if (request.should_stop && request.should_stop())
      all.push_back({use.device_type, use.zone, use.there - use.used, "not looked into: the time for searches was over", {}});
    else
      all.push_back(search.explain(use));
  return all;
}

}  // namespace flotilla::search
