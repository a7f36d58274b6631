#pragma once
#include "flotilla/comm/world.hpp"
#include "flotilla/mpi/session.hpp"
#include "flotilla/probe/probe.hpp"
#include "support/waiting.hpp"

/// What tests of a whole probe share: one world for a program, and a request that takes a moment.
namespace flotilla::probe {

inline constexpr Seconds patience = flotilla::tests::hang_bound();

inline const comm::World& world() {
  static mpi::Session session;
  static const comm::World all{session.world(), patience};
  return all;
}

inline ProbeRequest tiny() {
  ProbeRequest request;
  request.model = model::built_in("gpt2-tiny");
  request.length = 32;
  request.threads = 1;
  request.budget = Seconds{0.3};
  request.sequences = {1};
  request.deadline = patience;
  return request;
}

}  // namespace flotilla::probe
