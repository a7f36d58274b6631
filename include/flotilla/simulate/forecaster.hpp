#pragma once
#include <memory>
#include <string>
#include <vector>

#include "flotilla/cluster/cluster.hpp"
#include "flotilla/plan/plan.hpp"
#include "flotilla/program/program.hpp"
#include "flotilla/simulate/forecast.hpp"

namespace flotilla::simulate {

/// Least seconds of one layer for one microbatch on one tensor-parallel group, sums over the group included.
struct LayerBound {
  Seconds forward, backward;
  Seconds recompute;                     ///< part of the backward pass; the layer's gradient need not have arrived
  Seconds input_half{}, weights_half{};  ///< of a backward pass that a zero-bubble schedule splits
};

class TypeCosts;

/// Plan -> forecast on one cluster.
class Forecaster {
 public:
  virtual ~Forecaster() = default;

  /// Of a bound plan. Throws Error{bad_input} for an invalid plan or a rank that the cluster does not have, Error{unavailable} when this
  /// runtime cannot execute it.
  virtual Forecast forecast(const plan::Plan&, bool timeline = false) const = 0;
  /// Whose devices, types and links it forecasts on.
  virtual const cluster::Profile& profile() const = 0;
};

/// With bounds that a search may prune by: never above what `forecast` would say.
class BoundedForecaster : public Forecaster {
 public:
  /// At most forecast(plan).iteration; costs much less.
  virtual Seconds lower_bound(const plan::Plan&) const = 0;

  /// One microbatch of `shape` through `layer` on the devices of one replica.
  virtual LayerBound layer_bound(const model::Config&, int layer, const model::LayerShape&, plan::Recompute, const std::string& device_type,
                                 const std::vector<Rank>& devices) const = 0;
  /// One microbatch's activations, or their gradients, from the devices of one stage's replica to those of the next stage's.
  virtual Seconds message_bound(const model::Config&, const model::LayerShape&, const std::vector<Rank>& from,
                                const std::vector<Rank>& to) const = 0;
  /// Least seconds of one step's optimizer on a device that holds that many elements.
  virtual Seconds optimizer_bound(std::int64_t elements, Precision, const std::string& device_type) const = 0;
  /// Least seconds of the sum of that many fp32 gradients over the ranks.
  virtual Seconds sum_bound(std::int64_t elements, const std::vector<Rank>& ranks) const = 0;
  /// Least peak bytes of a device with layers [first, last) that keeps `in_flight` microbatches of `shape` at a time.
  /// Blocks are alike: it depends on how many of them there are, and on whether the embedding and the head are among the layers.
  virtual Bytes memory_bound(const model::Config&, int first, int last, const model::LayerShape&, plan::Recompute, int in_flight) const = 0;
};

/// Lowers the plan for a runtime and interprets the program with the profile's costs. Holds a reference: the profile must outlive it.
/// Remembers costs between calls; threads need one each.
class ProgramForecaster : public BoundedForecaster {
 public:
  /// `runtime_constant`: stated bound of a process's memory outside the arena. `types`: as ProfileCost takes them (profile_cost.hpp).
  ProgramForecaster(const cluster::Profile&, program::Runtime, Bytes runtime_constant, std::shared_ptr<TypeCosts> types = nullptr);
  ~ProgramForecaster() override;
  ProgramForecaster(const ProgramForecaster&) = delete;
  ProgramForecaster& operator=(const ProgramForecaster&) = delete;

  Forecast forecast(const plan::Plan&, bool timeline = false) const override;
  const cluster::Profile& profile() const override;
  const program::Runtime& runtime() const;
  Bytes runtime_constant() const;
  Seconds lower_bound(const plan::Plan&) const override;
  LayerBound layer_bound(const model::Config&, int layer, const model::LayerShape&, plan::Recompute, const std::string& device_type,
                         const std::vector<Rank>& devices) const override;
  Seconds message_bound(const model::Config&, const model::LayerShape&, const std::vector<Rank>& from,
                        const std::vector<Rank>& to) const override;
  Seconds optimizer_bound(std::int64_t elements, Precision, const std::string& device_type) const override;
  Seconds sum_bound(std::int64_t elements, const std::vector<Rank>& ranks) const override;
  Bytes memory_bound(const model::Config&, int first, int last, const model::LayerShape&, plan::Recompute, int in_flight) const override;

  /// Of an evaluation program, or any other that is already lowered.
  Forecast forecast(const program::Program&, bool timeline = false) const;

 private:
  void add_description(Forecast&, Precision) const;
  void add_gpus(const program::Program&, Forecast&) const;
  void add_transports(const program::Program&, Forecast&) const;
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace flotilla::simulate
