#include "flotilla/sailor/formulas.hpp"

#include <algorithm>
#include <cmath>

#include "flotilla/base/text.hpp"
#include "neighbours.hpp"

namespace flotilla::sailor {
namespace {

/// max over replicas; nullopt when one of them is not known.
class Slowest {
 public:
  void add(const cluster::LinkFit* fit, double bytes) {
    if (fit)
      add(sailor_message(*fit, bytes));
    else
      known_ = false;
  }
  void add(Seconds time) { most_ = std::max(most_, time); }
  std::optional<Seconds> get() const { return known_ ? std::optional{most_} : std::nullopt; }

 private:
  Seconds most_{};
  bool known_ = true;
};

std::string words(const SailorTables& t, const SailorKind& k) {
  return text(t.type(k.type).name, k.zone < 0 ? "" : "@" + t.zone_name(k.zone), " (tensor ", k.tensor_parallel, ")");
}

std::string missing_time(const SailorTables& t, const SailorPlan& plan) {
  for (const SailorStage& stage : plan.stages)
    for (const SailorRun& run : stage.replicas)
      if (t.cell(run.kind.type, run.kind.tensor_parallel, plan.sequences) < 0)
        return text("no layer times on ", t.type(run.kind.type).name, " at tensor degree ", run.kind.tensor_parallel,
                    " and microbatches of ", plan.sequences);
  return "";
}

std::string missing_link(const SailorTables& t, const SailorPlan& plan) {
  std::string found;
  const auto look = [&](const cluster::LinkFit* fit, const SailorKind& a, const SailorKind& b) {
    if (!fit && found.empty()) found = text("no link fit between ", words(t, a), " and ", words(t, b));
  };
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const auto& replicas = plan.stages[s].replicas;
    if (s > 0)
      for_each_pair(replicas, plan.stages[s - 1].replicas,
                    [&](const SailorKind& a, const SailorKind& b, int) { look(t.link(a, b), a, b); });
    if (s + 1 < plan.stages.size())
      for_each_pair(replicas, plan.stages[s + 1].replicas,
                    [&](const SailorKind& a, const SailorKind& b, int) { look(t.link(a, b), a, b); });
    for_each_edge(replicas, [&](const SailorKind& a, const SailorKind& b, int) { look(t.single_link(a, b), a, b); });
  }
  return found;
}

std::string what_is_missing(const SailorTables& t, const SailorPlan& plan) {
  if (!t.sized()) return "no layer sizes of the model";
  const std::string time = missing_time(t, plan);
  return time.empty() ? missing_link(t, plan) : time;
}

Seconds slowest_update(const SailorTables& t, const SailorStage& stage, int sequences) {
  Seconds most{};
  for (const SailorRun& run : stage.replicas)
    most = std::max(most, t.update(t.cell(run.kind.type, run.kind.tensor_parallel, sequences), stage.first_layer));
  return most;
}

/// Activations leave by the last layer of a stage; the gradients that it returns are taken to be as large as its *first* layer's output.
std::optional<Seconds> sending_of(const SailorTables& t, const SailorPlan& plan, int s) {
  const auto at = [&](int i) -> const SailorStage& { return plan.stages[static_cast<std::size_t>(i)]; };
  const int stages = static_cast<int>(plan.stages.size());
  std::optional<Seconds> up{Seconds{}}, down{Seconds{}};
  if (s + 1 < stages) up = sailor_boundary(t, at(s), at(s + 1), t.output_bytes(at(s).last_layer - 1) * plan.sequences);
  if (s > 0) down = sailor_boundary(t, at(s), at(s - 1), t.output_bytes(at(s).first_layer) * plan.sequences);
  if (!up || !down) return std::nullopt;
  return sailor_sending(s, stages, *up, *down);
}

std::optional<SailorStageTimes> times_of(const SailorTables& t, const SailorPlan& plan, int s) {
  const SailorStage& stage = plan.stages[static_cast<std::size_t>(s)];
  const auto compute = sailor_compute(t, stage, plan.sequences);
  if (!compute) return std::nullopt;
  const auto sending = sending_of(t, plan, s), reduction = sailor_reduction(t, stage);
  if (!sending || !reduction) return std::nullopt;
  return SailorStageTimes{*compute, *sending, slowest_update(t, stage, plan.sequences), *reduction};
}

/// The pipeline's slowest stage sets its pace.
void add_up(SailorEstimate& e, int n) {
  Seconds pace{}, sum{}, update{}, reduction{};
  for (const SailorStageTimes& stage : e.stages) {
    pace = std::max(pace, stage.compute + stage.sending);
    sum += stage.compute + stage.sending;
    update = std::max(update, stage.update);
    reduction = std::max(reduction, stage.reduction);
  }
  e.pipeline = (n - 1) * pace + sum + update;
  e.iteration = e.pipeline + reduction;
}

}  // namespace

int degree(const SailorStage& stage) {
  int sum = 0;
  for (const SailorRun& run : stage.replicas) sum += run.count;
  return sum;
}

int microbatches(const SailorPlan& plan) {
  const std::int64_t at_once = std::int64_t{plan.sequences} * degree(plan.stages.front());
  return static_cast<int>((plan.global_batch + at_once - 1) / at_once);
}

std::optional<Seconds> sailor_compute(const SailorTables& t, const SailorStage& stage, int sequences) {
  Seconds most{};
  for (const SailorRun& run : stage.replicas) {
    const int cell = t.cell(run.kind.type, run.kind.tensor_parallel, sequences);
    if (cell < 0) return std::nullopt;
    most = std::max(most, t.forward(cell, stage.first_layer, stage.last_layer) + t.backward(cell, stage.first_layer, stage.last_layer));
  }
  return most;
}

Seconds sailor_message(const cluster::LinkFit& fit, double bytes) {
  if (bytes <= 0) return {};
  const double x = std::log2(bytes / 1e6);
  const double rate = (fit.a * x + fit.b) * x + fit.c;
  return {bytes / 1e9 / (rate > slowest_rate ? rate : slowest_rate)};
}

std::optional<Seconds> sailor_boundary(const SailorTables& t, const SailorStage& from, const SailorStage& to, double bytes) {
  Slowest slowest;
  for_each_pair(from.replicas, to.replicas, [&](const SailorKind& a, const SailorKind& b, int) { slowest.add(t.link(a, b), bytes); });
  return slowest.get();
}

Seconds sailor_sending(int stage, int stages, Seconds up, Seconds down) {
  if (stages == 1) return {};
  if (stage == stages - 1) return 2 * down;
  if (stage == 0) return stages <= 3 ? up : 2 * up;
  return up + down;
}

Seconds sailor_all_reduce(const cluster::LinkFit& fit, int members, double bytes) {
  if (members < 2 || bytes <= 0) return {};
  const auto once = [&](double size) { return 2.0 * (members - 1) * sailor_message(fit, size / members); };
  const double full = std::floor(bytes / bucket);
  return full * once(bucket) + once(bytes - full * bucket);
}

std::optional<Seconds> sailor_reduction(const SailorTables& t, const SailorStage& stage) {
  const int members = degree(stage);
  int shares = most_gradient_shares;
  for (const SailorRun& run : stage.replicas) shares = std::min(shares, run.kind.tensor_parallel);
  const double bytes = t.weight_bytes(stage.first_layer, stage.last_layer) / shares;
  Slowest slowest;
  for_each_edge(stage.replicas, [&](const SailorKind& a, const SailorKind& b, int) {
    if (const auto* fit = t.single_link(a, b))
      slowest.add(sailor_all_reduce(*fit, members, bytes));
    else
      slowest.add(nullptr, bytes);
  });
  return slowest.get();
}

std::optional<SailorEstimate> sailor_estimate(const SailorTables& t, const SailorPlan& plan, std::string* why) {
  SailorEstimate e;
  e.stages.reserve(plan.stages.size());
  for (int s = 0; t.sized() && s < static_cast<int>(plan.stages.size()); ++s) {
    const auto times = times_of(t, plan, s);
    if (!times) break;
    e.stages.push_back(*times);
  }
  if (e.stages.size() != plan.stages.size()) {
    if (why) *why = what_is_missing(t, plan);
    return std::nullopt;
  }
  add_up(e, microbatches(plan));
  e.expense = sailor_expense(t, plan, e.iteration);
  return e;
}

}  // namespace flotilla::sailor
