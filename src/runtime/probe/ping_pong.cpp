#include "ping_pong.hpp"

#include <algorithm>

#include "flotilla/base/clock.hpp"
#include "flotilla/base/error.hpp"
#include "samples.hpp"

namespace flotilla::probe {
namespace {

constexpr Bytes smallest{8}, largest{8 << 20}, always{512 << 10};
constexpr int most_rounds = 200;

/// What the asking side announces: that many messages of that size; none: it has done.
struct Announcement {
  std::int64_t bytes = 0, rounds = 0;
};

std::vector<std::byte> pattern(Bytes size, int round) {
  std::vector<std::byte> data(static_cast<std::size_t>(size.count));
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::byte>(i * 31 + i / 251 + static_cast<std::size_t>(round) * 7);
  return data;
}

/// Half round trips.
std::vector<Seconds> rounds(const PingPong& p, Bytes size, int count) {
  const Announcement announcement{size.count, count};
  p.peer.send(std::as_bytes(std::span{&announcement, 1}), p.send_tag, p.deadline);
  std::vector<Seconds> times;
  std::vector<std::byte> back(static_cast<std::size_t>(size.count));
  for (int round = 0; round < count; ++round) {
    const auto out = pattern(size, round);
    const Seconds start = now();
    p.peer.send(out, p.send_tag, p.deadline);
    p.peer.receive(back, p.receive_tag, p.deadline);
    times.push_back((now() - start) / 2);
    FLOTILLA_REQUIRE(back == out, ErrorKind::communication, p.peer.peer_name(), ": a message of ", size,
                     " came back changed; the network or its driver corrupts data");
  }
  return times;
}

int rounds_within(Seconds slice, Seconds one_way) {
  return static_cast<int>(std::clamp(slice / (2 * one_way), 2.0, static_cast<double>(most_rounds)));
}

}  // namespace

std::vector<Bytes> message_sizes() {
  std::vector<Bytes> sizes;
  for (Bytes size = smallest; size <= largest; size = size * 4) sizes.push_back(size);
  if (sizes.back() < largest) sizes.push_back(largest);
  return sizes;
}

std::vector<cluster::LinkSample> ask(const PingPong& p, Seconds budget) {
  std::vector<cluster::LinkSample> samples;
  const auto sizes = message_sizes();
  const Seconds end = now() + budget, slice = budget / static_cast<double>(sizes.size());
  Seconds last{};
  for (Bytes size : sizes) {
    if (size > always && now() + 4 * last * 6 > end) break;  // four times the bytes, three round trips
    const Seconds first = rounds(p, size, 2).back();
    const auto times = rounds(p, size, rounds_within(slice, first));
    for (std::size_t i = times.size() > 2 ? 1 : 0; i < times.size(); ++i) samples.push_back({size, times[i]});
    last = first;
  }
  const Announcement done{};
  p.peer.send(std::as_bytes(std::span{&done, 1}), p.send_tag, p.deadline);
  return samples;
}

void answer(const PingPong& p) {
  std::vector<std::byte> data;
  while (true) {
    Announcement next;
    p.peer.receive(std::as_writable_bytes(std::span{&next, 1}), p.receive_tag, p.deadline);
    if (next.rounds == 0) return;
    FLOTILLA_REQUIRE(next.bytes >= 0 && next.bytes <= largest.count, ErrorKind::communication, p.peer.peer_name(),
                     ": announced messages of ", next.bytes, " bytes; expected at most ", largest.count);
    data.resize(static_cast<std::size_t>(next.bytes));
    for (std::int64_t round = 0; round < next.rounds; ++round) {
      p.peer.receive(data, p.receive_tag, p.deadline);
      p.peer.send(data, p.send_tag, p.deadline);
    }
  }
}

double scatter_about(const cluster::Link& fit, const std::vector<cluster::LinkSample>& samples) {
  std::vector<double> ratios;
  for (const auto& s : samples) ratios.push_back(s.time / cluster::transfer_time(fit, s.size));
  return relative_scatter(ratios);
}

}  // namespace flotilla::probe
