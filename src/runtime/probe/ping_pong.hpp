#pragma once
#include <vector>

#include "flotilla/cluster/cluster.hpp"
#include "flotilla/ucx/worker.hpp"

namespace flotilla::probe {

/// Message sizes of a link measurement, in order: 8 B … 8 MiB.
std::vector<Bytes> message_sizes();

/// One end of a ping-pong. Tags tell the two directions apart.
struct PingPong {
  ucx::Endpoint& peer;
  std::uint64_t send_tag = 0, receive_tag = 0;
  Seconds deadline;  ///< of each message
};

/// The side that asks: half the time of a round trip, one sample per round, the first of each size dropped. Every byte that comes back is
/// compared outside the time. Sizes up to 512 KiB whatever they take (bursts that a network lets through flatter smaller ones), larger ones
/// while the budget lasts. Throws Error{communication}.
std::vector<cluster::LinkSample> ask(const PingPong&, Seconds budget);
/// The side that answers until the other has done. Throws Error{communication}.
void answer(const PingPong&);

/// Interquartile range / median of the samples' times divided by the fit's.
double scatter_about(const cluster::Link& fit, const std::vector<cluster::LinkSample>&);

}  // namespace flotilla::probe
