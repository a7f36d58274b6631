#pragma once
#include "flotilla/simulate/forecast.hpp"
#include "flotilla/simulate/instruction_cost.hpp"

namespace flotilla::simulate {

struct InterpretOptions {
  bool timeline = false;
  Bytes runtime_constant{};  ///< stated bound of a process's memory outside the arena
};

/// Runs a program in simulated time. One rank of every kind is simulated. Pure and deterministic.
/// Throws Error{internal} when the program cannot end (a cycle, a message or collective without its partner), naming the first rank
/// that waits and for what.
Forecast interpret(const program::Program&, const InstructionCost&, const InterpretOptions& = {});

}  // namespace flotilla::simulate
