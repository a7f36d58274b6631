#pragma once
#include <memory>

#include "flotilla/cluster/cluster.hpp"
#include "flotilla/plan/plan.hpp"
#include "flotilla/simulate/forecaster.hpp"

namespace flotilla::sailor {

struct SailorPlan;
class SailorTables;

/// The Sailor artifact's formulas (formulas.hpp) as a forecaster. Types and zones of the replicas suffice; devices need not be bound.
/// Holds a reference: the profile must outlive it. Remembers tables of the models it was asked about; threads need one each.
class SailorArtifact : public simulate::Forecaster {
 public:
  explicit SailorArtifact(const cluster::Profile&);
  ~SailorArtifact() override;

  /// One kind for each run of equal replicas; a rank's breakdown sums to the iteration, what it waits for is bubble. Ranks of an unbound
  /// plan are numbered as plan::allocate does. The error bar is what the artifact's authors found on their runs. Throws
  /// Error{bad_input} for an invalid plan or a type that the profile lacks, Error{unavailable} for what the formulas do not
  /// know (other than fp32, 1F1B, one microbatch size, no recomputation; timelines) or the profile does not hold, naming it.
  simulate::Forecast forecast(const plan::Plan&, bool timeline = false) const override;
  const cluster::Profile& profile() const override;

  /// A plan in the formulas' terms, and the tables that give them meaning; throw like forecast().
  SailorPlan plan_of(const plan::Plan&) const;
  const SailorTables& tables(const model::Config&) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace flotilla::sailor
