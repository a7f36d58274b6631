#pragma once
#include <optional>
#include <string>

#include "flotilla/cluster/cluster.hpp"
#include "flotilla/plan/plan.hpp"
#include "flotilla/program/runtime.hpp"

/// Our own forecast of anybody's plan.
namespace flotilla::benchmarks {

/// What stands beside the arena in a process of our runtime on a host of so many ranks, as src/app/common/forecasting.cpp states it.
Bytes process_memory(int ranks);

struct Judgement {
  Seconds iteration;
  std::optional<double> usd;  ///< per iteration
  Bytes needed, limit;        ///< of the device with the least memory to spare
  std::string refusal;        ///< the runtime cannot execute it: nothing else is said then
  bool fits() const { return needed <= limit; }
};

/// Of an unbound plan, on devices that are invented for it.
Judgement judge(const plan::Plan&, const cluster::Profile& library, const program::Runtime&);

}  // namespace flotilla::benchmarks
