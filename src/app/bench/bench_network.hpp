#pragma once
#include <functional>
#include <string>
#include <vector>

#include "app/bench/bench_launch.hpp"
#include "flotilla/bench/fabric.hpp"
#include "flotilla/bench/report.hpp"
#include "flotilla/comm/world.hpp"

namespace flotilla::app {

/// How the network is tested.
struct NetworkTest {
  bool links = true, collectives = false;
  std::vector<std::string> transports;  ///< of the links that are measured alone, beside UCX's choice and MPI
  Seconds deadline{10};                 ///< of each message
  std::function<Seconds()> next_time;   ///< of links, then of collectives; the same on every rank, collective
  bool switches = false;                ///< measure as many pairs as it takes to tell which nodes hang on one switch
};

/// Stages 1 and 2: links between the report's nodes, all in rounds and a few alone, and collectives by level, added to the report, which
/// counts on rank 0, with what did not fit the time. Collective over all processes of the start. Throws Error{communication} where one is
/// lost.
bench::BenchReport test_network(const comm::World&, const BenchLaunch&, const NetworkTest&, const bench::BenchReport& report);

}  // namespace flotilla::app
