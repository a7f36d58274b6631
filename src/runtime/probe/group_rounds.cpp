#include "group_rounds.hpp"

#include <algorithm>

#include "flotilla/base/clock.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/mpi/backoff.hpp"
#include "flotilla/nccl/communicator.hpp"

namespace flotilla::probe {
namespace {

constexpr int samples_of_a_size = 3;
constexpr double most_rounds_of_a_sample = 200;

}  // namespace

void GroupRounds::sample(Bytes size, Seconds slice, double share, const Round& round, std::vector<cluster::LinkSample>& into) {
  run(1, round);  // connects them
  const Seconds one = run(1, round);
  const double fit = std::clamp(slice / (samples_of_a_size * std::max(one, Seconds{1e-7})), 1.0, most_rounds_of_a_sample);
  const auto rounds = static_cast<int>(of_first(static_cast<std::int64_t>(fit)));
  for (int sample = 0; sample < samples_of_a_size; ++sample) into.push_back({size, share * run(rounds, round)});
}

bool GroupRounds::before(Seconds end) { return of_first(now() < end ? 1 : 0) != 0; }

std::int64_t GroupRounds::of_first(std::int64_t mine) {
  std::vector<std::int64_t> all(static_cast<std::size_t>(over_hosts_.size()));
  const auto gather =
      over_hosts_.make_all_gather(reinterpret_cast<const std::byte*>(&mine), reinterpret_cast<std::byte*>(all.data()), {sizeof mine});
  gather->start({sizeof mine});
  const Seconds end = now() + deadline_;
  for (mpi::Backoff backoff; !gather->progress(); backoff.pause())
    FLOTILLA_REQUIRE(now() < end, ErrorKind::communication, "no answer within ", deadline_, " in ", gather->describe());
  return all.front();
}

EnqueuedRounds::EnqueuedRounds(comm::DeviceGroup& group, comm::ProcessGroup& over_hosts, const gpu::DeviceContext& device, Seconds deadline)
    : GroupRounds{over_hosts, deadline},
      group_{group},
      stream_{device.make_stream()},
      start_{device.make_event(true)},
      end_{device.make_event(true)} {}

Seconds EnqueuedRounds::run(int rounds, const Round& round) {
  stream_.record(start_);
  for (int r = 0; r < rounds; ++r) round();
  stream_.record(end_);
  group_.communicator().await(end_, deadline());
  return gpu::Event::between(start_, end_) / static_cast<double>(rounds);
}

void give_up_exchanges(const gpu::DeviceBuffer& memory, Seconds limit) {
  static std::vector<gpu::DeviceBuffer> kept;
  if (!nccl::abort_every(limit)) kept.push_back(memory);
}

Seconds CompletedRounds::run(int rounds, const Round& round) {
  const Seconds start = now();
  for (int r = 0; r < rounds; ++r) round();
  return (now() - start) / static_cast<double>(rounds);
}

}  // namespace flotilla::probe
