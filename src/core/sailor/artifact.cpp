#include "flotilla/sailor/artifact.hpp"

#include <algorithm>
#include <map>

#include "flotilla/base/error.hpp"
#include "flotilla/base/foreign_text.hpp"
#include "flotilla/sailor/formulas.hpp"

namespace flotilla::sailor {
namespace {

/// Mean error in time that the artifact's authors report for their own runs, 15 of OPT-350M on GH200.
constexpr double published_error = 0.089;

void require_known(const plan::Plan& plan, bool timeline) {
  const auto known = [](bool good, const auto&... what) {
    FLOTILLA_REQUIRE(good, ErrorKind::unavailable, "the sailor-artifact cost model ", what..., "; use another cost model for this plan");
  };
  known(!timeline, "has no timeline");
  known(plan.precision == Precision::fp32, "knows fp32 only, not ", to_string(plan.precision));
  known(plan.schedule == plan::ScheduleKind::one_f_one_b, "knows the 1f1b schedule only, not ", plan::to_string(plan.schedule));
  known(!plan.sequence_parallel, "knows no sequence parallelism");
  known(plan.length == plan.model.positions, "was measured with sequences of ", plan.model.positions, " tokens, not ", plan.length);
  const int quanta = plan.stages.front().replicas.front().quanta;
  for (const auto& stage : plan.stages) {
    known(stage.recompute == plan::Recompute::none, "knows no recomputation");
    for (const auto& replica : stage.replicas) known(replica.quanta == quanta, "knows one microbatch size for all replicas only");
  }
}

SailorKind kind_of(const SailorTables& tables, const plan::Replica& replica) {
  const auto type = tables.type(replica.device_type);
  FLOTILLA_REQUIRE(type, ErrorKind::bad_input, "the profile knows no device type ", in_quotes(replica.device_type));
  return {*type, tables.zone(replica.zone).value_or(-1), replica.tensor_parallel};
}

SailorStage stage_of(const SailorTables& tables, const plan::Stage& stage) {
  SailorStage out{stage.first_layer, stage.last_layer, {}};
  for (const auto& replica : stage.replicas) {
    const SailorKind kind = kind_of(tables, replica);
    if (out.replicas.empty() || out.replicas.back().kind != kind)
      out.replicas.push_back({kind, 1});
    else
      ++out.replicas.back().count;
  }
  return out;
}

/// Makes the kinds of a forecast, one for each run of equal replicas.
class SailorRanks {
 public:
  SailorRanks(const SailorTables& tables, const plan::Plan& plan, const SailorPlan& terms, const SailorEstimate& estimate)
      : t_{tables}, plan_{plan}, terms_{terms}, estimate_{estimate}, n_{microbatches(terms)} {}

  std::vector<simulate::RankKind> all() {
    for (std::size_t s = 0; s < terms_.stages.size(); ++s) {
      std::size_t replica = 0;
      for (const SailorRun& run : terms_.stages[s].replicas) {
        kinds_.push_back(kind(static_cast<int>(s), run));
        for (int i = 0; i < run.count; ++i) add_ranks(plan_.stages[s].replicas[replica++]);
        std::ranges::sort(kinds_.back().ranks);
      }
    }
    std::ranges::sort(kinds_, {}, [](const simulate::RankKind& k) { return k.ranks.front(); });
    return std::move(kinds_);
  }

 private:
  void add_ranks(const plan::Replica& replica) {
    auto& ranks = kinds_.back().ranks;
    ranks.insert(ranks.end(), replica.devices.begin(), replica.devices.end());
    for (auto t = static_cast<int>(replica.devices.size()); t < replica.tensor_parallel; ++t) ranks.push_back(Rank{next_++});
  }

  simulate::RankKind kind(int s, const SailorRun& run) const {
    const SailorStage& stage = terms_.stages[static_cast<std::size_t>(s)];
    simulate::RankKind kind;
    kind.rank_class = static_cast<int>(kinds_.size());
    kind.stage = s;
    kind.device_type = t_.type(run.kind.type).name;
    kind.breakdown = breakdown(s, run.kind);
    kind.busy = kind.breakdown[simulate::Activity::forward] + kind.breakdown[simulate::Activity::backward];
    const auto memory = sailor_memory(t_, run.kind.tensor_parallel, terms_.sequences, stage.first_layer, stage.last_layer, s,
                                      static_cast<int>(terms_.stages.size()));
    FLOTILLA_REQUIRE(memory, ErrorKind::unavailable, "the profile has no layer sizes of ", plan_.model.name, " at tensor degree ",
                     run.kind.tensor_parallel);
    kind.memory = *memory;
    return kind;
  }

  simulate::Breakdown breakdown(int s, const SailorKind& kind) const {
    const SailorStage& stage = terms_.stages[static_cast<std::size_t>(s)];
    const SailorStageTimes& times = estimate_.stages[static_cast<std::size_t>(s)];
    const int cell = t_.cell(kind.type, kind.tensor_parallel, terms_.sequences);
    simulate::Breakdown b;
    b[simulate::Activity::forward] = n_ * t_.forward(cell, stage.first_layer, stage.last_layer);
    b[simulate::Activity::backward] = n_ * t_.backward(cell, stage.first_layer, stage.last_layer);
    b[simulate::Activity::activation_transfer] = n_ * times.sending;
    b[simulate::Activity::gradient_reduction] = times.reduction;
    b[simulate::Activity::optimizer] = t_.update(cell, stage.first_layer);
    b[simulate::Activity::bubble] = std::max(Seconds{}, estimate_.iteration - b.total());
    return b;
  }

  const SailorTables& t_;
  const plan::Plan& plan_;
  const SailorPlan& terms_;
  const SailorEstimate& estimate_;
  int n_;
  int next_ = 0;
  std::vector<simulate::RankKind> kinds_;
};

simulate::Breakdown mean(const std::vector<simulate::RankKind>& kinds) {
  simulate::Breakdown sum;
  double ranks = 0;
  for (const simulate::RankKind& kind : kinds) {
    ranks += static_cast<double>(kind.ranks.size());
    for (std::size_t a = 0; a < sum.seconds.size(); ++a)
      sum.seconds[a] += static_cast<double>(kind.ranks.size()) * kind.breakdown.seconds[a];
  }
  for (Seconds& seconds : sum.seconds) seconds = seconds / ranks;
  return sum;
}

}  // namespace

struct SailorArtifact::State {
  const cluster::Profile& profile;
  std::map<std::string, std::pair<int, SailorTables>> tables;  // by model: how many layers, and what is known of them
};

SailorArtifact::SailorArtifact(const cluster::Profile& profile) : state_{std::make_unique<State>(State{profile, {}})} {}
SailorArtifact::~SailorArtifact() = default;

const cluster::Profile& SailorArtifact::profile() const { return state_->profile; }

const SailorTables& SailorArtifact::tables(const model::Config& model) const {
  auto found = state_->tables.find(model.name);
  if (found != state_->tables.end() && found->second.first != model.layers()) found = (state_->tables.erase(found), state_->tables.end());
  if (found == state_->tables.end())
    found = state_->tables.emplace(model.name, std::pair{model.layers(), SailorTables{state_->profile, model}}).first;
  return found->second.second;
}

SailorPlan SailorArtifact::plan_of(const plan::Plan& plan) const {
  plan::require_valid(plan, "plan");
  require_known(plan, false);
  const SailorTables& t = tables(plan.model);
  SailorPlan terms{plan.global_batch, plan.stages.front().replicas.front().quanta * plan.quantum, {}};
  for (const auto& stage : plan.stages) terms.stages.push_back(stage_of(t, stage));
  return terms;
}

simulate::Forecast SailorArtifact::forecast(const plan::Plan& plan, bool timeline) const {
  const SailorPlan terms = plan_of(plan);
  require_known(plan, timeline);
  const SailorTables& t = tables(plan.model);
  std::string why;
  const auto estimate = sailor_estimate(t, terms, &why);
  FLOTILLA_REQUIRE(estimate, ErrorKind::unavailable, "the profile has, for ", plan.model.name, ", ", why,
                   "; the sailor-artifact cost model knows nothing beyond its measurements");
  simulate::Forecast forecast;
  forecast.iteration = estimate->iteration;
  forecast.relative_error = published_error;
  forecast.expense = estimate->expense;
  forecast.kinds = SailorRanks{t, plan, terms, *estimate}.all();
  forecast.breakdown = mean(forecast.kinds);
  return forecast;
}

}  // namespace flotilla::sailor
