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

/// Lowers the plan for a runtime and interprets the program with the profile's costs. Holds a reference: the profile must outlive it.
/// Remembers costs between calls; threads need one each.
class ProgramForecaster : public Forecaster {
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

  /// One microbatch of `shape` through `layer` on the devices of one replica; a bound, as those below: never above what `forecast` says.
  LayerBound layer_bound(const model::Config&, int layer, const model::LayerShape&, plan::Recompute, const std::string& device_type,
                         const std::vector<Rank>& devices) const;
  /// Least seconds of one step's optimizer on a device that holds that many elements.
  Seconds optimizer_bound(std::int64_t elements, Precision, const std::string& device_type) const;
  /// Least peak bytes of a device with layers [first, last) that keeps `in_flight` microbatches of `shape` at a time.
  /// Blocks are alike: it depends on how many of them there are, and on whether the embedding and the head are among the layers.
  Bytes memory_bound(const model::Config&, int first, int last, const model::LayerShape&, plan::Recompute, int in_flight) const;

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
