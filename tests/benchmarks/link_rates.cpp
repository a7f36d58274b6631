// One link as `flotilla bench` measures it alone (fabric::measure_links): median latency of 8 B and rate of one size, by one transport.
// Prints "MICROSECONDS MIB_A_SECOND". For fabric_benchmark.sh, which sets them beside ucx_perftest's.
//
//   mpirun -n 2 link_rates TRANSPORT BYTES [SLICE_SECONDS]      TRANSPORT as in UCX_TLS, or "mpi"
#include <cstdio>
#include <cstdlib>
#include <string>

#include "flotilla/base/error.hpp"
#include "flotilla/fabric/fabric.hpp"
#include "flotilla/mpi/session.hpp"

int main(int count, char** words) {
  using namespace flotilla;
  if (count < 3 || count > 4) {
    std::fprintf(stderr, "link_rates takes TRANSPORT, BYTES and SLICE_SECONDS, as in: mpirun -n 2 link_rates tcp,self 1048576 0.05\n");
    return 64;
  }
  constexpr Bytes small{8};
  constexpr Seconds deadline{120};
  mpi::Session session;
  const comm::World world{session.world(), deadline};
  try {
    FLOTILLA_REQUIRE(world.size() == 2, ErrorKind::usage, "link_rates runs on 2 ranks, not on ", world.size());
    const Bytes large{std::atoll(words[2])};
    FLOTILLA_REQUIRE(large > small, ErrorKind::usage, "'", words[2], "': expected a number of bytes above 8");
    const Seconds slice{count == 4 ? std::atof(words[3]) : 0.05};
    const fabric::LinkTest test{{small, large}, false, false, slice, deadline};
    const auto found = fabric::measure_links(world, {{{Rank{0}, Rank{1}}}}, {words[1]}, test).front();
    FLOTILLA_REQUIRE(found.points.size() == 2, ErrorKind::unavailable, words[1], ": ", found.refusal);
    if (world.rank() == Rank{0})
      std::printf("%.4f %.3f\n", 1e6 * found.points.front().latency.value, found.points.back().stream.value / (1 << 20));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "link_rates: %s\n", error.what());
    std::_Exit(1);  // the other rank may wait for this one; mpirun ends it
  }
  return 0;
}
