#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "flotilla/base/ids.hpp"
#include "flotilla/bench/report.hpp"
#include "flotilla/comm/world.hpp"

/// What the network between nodes can do (UCX), and what the training's own messages make of it (MPI).
namespace flotilla::fabric {

struct LinkTest {
  std::vector<Bytes> sizes;
  bool both_ways = true, puts = true;
  Seconds slice{0.01};   ///< of a sample; there are more where a rate falls, as that of a shaped link whose burst is used up
  Seconds deadline{10};  ///< of each message
  /// Of all links together, in place of `slice`: what does not fit is left out. Rank 0's decides.
  std::optional<Seconds> time{};
};
/// 8 B to 64 MiB, each four times the one before.
std::vector<Bytes> all_sizes();

/// Measured from a to b.
struct LinkPair {
  Rank a, b;
  bool operator==(const LinkPair&) const = default;
};

struct LinkResult {
  LinkPair pair;
  std::string transport;  ///< as in bench::LinkReport
  std::vector<bench::LinkPoint> points;
  std::string refusal;                    ///< why there are none
  std::int64_t segments = 0, resent = 0;  ///< as in bench::LinkReport
  std::vector<Bytes> left_out{};          ///< sizes, for want of time; all: the link was
  bool operator==(const LinkResult&) const = default;
};

/// Measures round after round by each transport in turn, the pairs of a round at the same time and all other ranks at rest. The same
/// result on every rank, in the order of rounds, then transports, then pairs. In a round a rank is in one pair at most. A pair that cannot
/// be measured by a transport has a refusal. Collective over the world, ends in agreement; one thread. Throws Error{communication} when a
/// rank is lost.
std::vector<LinkResult> measure_links(const comm::World&, const std::vector<std::vector<LinkPair>>& rounds,
                                      const std::vector<std::string>& transports, const LinkTest&);

/// By UCX's own choice of transport and by MPI, at 8 B and 1 MiB, one way: what tells nodes apart, in moments. `hosts` are those of the
/// ranks. In samples of `slice`, as measure_links().
inline constexpr Seconds usual_slice{0.01};
std::vector<bench::LinkReport> measure_in_rounds(const comm::World&, const std::vector<std::vector<LinkPair>>& rounds,
                                                 const std::vector<std::string>& hosts, Seconds slice, Seconds deadline);
/// The slice with which so many rounds take about so long, at most the usual one.
Seconds slice_for(Seconds time, std::size_t rounds);
/// Results by the names of their hosts; `alone`: nobody else sent at the time.
std::vector<bench::LinkReport> reports_of(const std::vector<LinkResult>&, const std::vector<std::string>& hosts, bool alone);

}  // namespace flotilla::fabric
