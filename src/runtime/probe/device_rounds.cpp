#include "device_rounds.hpp"

#include <algorithm>

#include "flotilla/base/clock.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/mpi/backoff.hpp"

namespace flotilla::probe {
namespace {

constexpr int samples_of_a_size = 3;
constexpr double most_rounds_of_a_sample = 200;

}  // namespace

DeviceRounds::DeviceRounds(comm::DeviceGroup& group, comm::Group& over_mpi, const gpu::Device& device, Seconds deadline)
    : group_{group},
      over_mpi_{over_mpi},
      deadline_{deadline},
      stream_{device.make_stream()},
      start_{device.make_event(true)},
      end_{device.make_event(true)} {}

void DeviceRounds::sample(Bytes size, Seconds slice, double share, const Round& round, std::vector<cluster::LinkSample>& into) {
  run(1, round);  // connects them
  const Seconds one = run(1, round);
  const double fit = std::clamp(slice / (samples_of_a_size * std::max(one, Seconds{1e-7})), 1.0, most_rounds_of_a_sample);
  const auto rounds = static_cast<int>(of_first(static_cast<std::int64_t>(fit)));
  for (int sample = 0; sample < samples_of_a_size; ++sample) into.push_back({size, share * run(rounds, round)});
}

bool DeviceRounds::before(Seconds end) { return of_first(now() < end ? 1 : 0) != 0; }

/// A round's mean time.
Seconds DeviceRounds::run(int rounds, const Round& round) {
  stream_.record(start_);
  for (int r = 0; r < rounds; ++r) round();
  stream_.record(end_);
  group_.communicator().await(end_, deadline_);
  return gpu::Event::between(start_, end_) / static_cast<double>(rounds);
}

std::int64_t DeviceRounds::of_first(std::int64_t mine) {
  std::vector<std::int64_t> all(static_cast<std::size_t>(over_mpi_.size()));
  const auto gather =
      over_mpi_.make_all_gather(reinterpret_cast<const std::byte*>(&mine), reinterpret_cast<std::byte*>(all.data()), {sizeof mine});
  gather->start({sizeof mine});
  const Seconds end = now() + deadline_;
  for (mpi::Backoff backoff; !gather->progress(); backoff.pause())
    FLOTILLA_REQUIRE(now() < end, ErrorKind::communication, "no answer within ", deadline_, " in ", gather->describe());
  return all.front();
}

}  // namespace flotilla::probe
