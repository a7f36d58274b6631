#include "timed_all_gather.hpp"

#include <memory>
#include <span>

#include "flotilla/base/clock.hpp"
#include "flotilla/mpi/backoff.hpp"

namespace flotilla::probe {
namespace {

/// On its way to everybody.
struct Round {
  Answer mine;
  std::vector<Answer> all;
  mpi::Request request;
};

}  // namespace

std::vector<Answer> timed_all_gather(const comm::World& world, const comm::PhaseOutcome& mine, double number, Seconds limit,
                                     Seconds deadline) {
  auto round = std::make_unique<Round>();
  round->mine = {number, mine.ok};
  round->all.resize(static_cast<std::size_t>(world.size()));
  round->request = world.control().all_gather(std::as_bytes(std::span{&round->mine, 1}), std::as_writable_bytes(std::span{round->all}));
  const Seconds end = now() + limit;
  for (mpi::Backoff backoff; !round->request.test(); backoff.pause()) {
    if (now() < end) continue;
    static_cast<void>(round.release());  // MPI may still write into it
    comm::agree(world, mine, deadline);  // names who is missing
    throw Error{ErrorKind::communication, "probe: the measurement of a link did not end"};
  }
  return std::move(round->all);
}

}  // namespace flotilla::probe
