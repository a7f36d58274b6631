#include "sampling.hpp"

#include <algorithm>
#include <cstring>

#include "curve.hpp"
#include "flotilla/base/clock.hpp"
#include "flotilla/base/error.hpp"

namespace flotilla::fabric {
namespace {

enum class Kind : std::int32_t { done, ping_pong, stream, both, put };

/// What the asking side announces: that many messages of that kind and size.
struct Announcement {
  std::int64_t bytes = 0;
  std::int32_t messages = 0;
  Kind kind = Kind::done;
};
constexpr Bytes announcement_size{sizeof(Announcement)}, receipt{8};

constexpr int most_messages = 1'000'000, least_samples = 3, most_samples = 12;
constexpr int most_growth = 16;  // from sample to sample: a first message that was lucky must not make a sample of minutes
constexpr double settled_within = 0.9;

void tell(TransportEnd& end, const Announcement& announcement) {
  std::memcpy(end.out.data(), &announcement, sizeof announcement);
  end.send(announcement_size);
}

Announcement hear(TransportEnd& end) {
  end.receive(announcement_size);
  Announcement announcement;
  std::memcpy(&announcement, end.in.data(), sizeof announcement);
  return announcement;
}

void send_all(TransportEnd& end, Kind kind, Bytes size, int messages) {
  for (int m = 0; m < messages; ++m) switch (kind) {
      case Kind::ping_pong: end.send(size), end.receive(size); break;
      case Kind::stream: end.send(size); break;
      case Kind::both: end.exchange(size); break;
      case Kind::put: end.put(size); break;
      case Kind::done: break;
    }
  if (kind == Kind::put) {
    end.flush();
    end.send(receipt);
  }
  if (kind == Kind::put || kind == Kind::stream) end.receive(receipt);
}

void answer_all(TransportEnd& end, Kind kind, Bytes size, int messages) {
  for (int m = 0; m < messages; ++m) switch (kind) {
      case Kind::ping_pong: end.receive(size), end.send(size); break;
      case Kind::stream: end.receive(size); break;
      case Kind::both: end.exchange(size); break;
      case Kind::put:
      case Kind::done: break;
    }
  if (kind == Kind::put) end.receive(receipt);
  if (kind == Kind::put || kind == Kind::stream) end.send(receipt);
}

/// Uses up what a shaped network lets through at once, in both directions: small messages would be done before it is gone.
void drain(TransportEnd& end) {
  tell(end, {burst_size.count, 1, Kind::both});
  send_all(end, Kind::both, burst_size, 1);
}

/// Median of the round trips of small messages: a pause of one of the two processes falls on few of them.
Seconds usual_round_trip(TransportEnd& end, Bytes size, int messages) {
  constexpr int together = 8;  // so that reading the clock takes nothing beside them
  std::vector<Seconds> times;
  for (int left = messages; left > 0; left -= together) {
    const int count = std::min(left, together);
    const Seconds start = now();
    send_all(end, Kind::ping_pong, size, count);
    times.push_back((now() - start) / count);
  }
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::ranges::nth_element(times, middle);
  return *middle;
}

/// One way, or one exchange.
Seconds time_of(TransportEnd& end, Seconds slice, Kind kind, Bytes size) {
  if (size < burst_size) drain(end);
  const auto run = [&](int messages) {
    tell(end, {size.count, messages, kind});
    if (kind == Kind::ping_pong && size < burst_size) return usual_round_trip(end, size, messages) * messages / 2;
    const Seconds start = now();
    send_all(end, kind, size, messages);
    return (now() - start) / (kind == Kind::ping_pong ? 2 : 1);
  };
  return settled(slice, run);
}

BytesPerSecond rate(Bytes size, Seconds time) { return {static_cast<double>(size.count) / time.value}; }

}  // namespace

Seconds settled(Seconds slice, const std::function<Seconds(int)>& run) {
  run(1);  // connects, and makes room
  Seconds before = run(1), last = before;
  int messages = 1;
  for (int sample = 0; sample < most_samples;) {
    const int wanted = static_cast<int>(std::clamp(slice / std::max(last, Seconds{1e-9}), 1.0, double{most_messages}));
    messages = std::min(wanted, most_growth * messages);
    before = last;
    last = run(messages) / messages;
    if (messages == wanted && ++sample >= least_samples && before >= last * settled_within) break;
  }
  return (before + last) / 2;
}

std::vector<bench::LinkPoint> ask(TransportEnd& end, const LinkTest& test, Seconds until) {
  const bool puts = test.puts && end.can_put();
  std::vector<bench::LinkPoint> points;
  const auto measure = [&](Bytes size, Seconds slice) {
    bench::LinkPoint point{size, time_of(end, slice, Kind::ping_pong, size)};
    point.stream = rate(size, time_of(end, slice, Kind::stream, size));
    if (test.both_ways) point.both = rate(2 * size, time_of(end, slice, Kind::both, size));
    if (puts) point.put = rate(size, time_of(end, slice, Kind::put, size));
    points.push_back(point);
  };
  if (test.time) {
    Curve curve{test.sizes, 2 + test.both_ways + puts, until};
    for (auto step = curve.next(); step; step = curve.next()) {
      measure(step->size, step->slice);
      curve.took(points.back().latency);
    }
    std::ranges::sort(points, {}, &bench::LinkPoint::size);
  } else {
    for (const Bytes size : test.sizes) measure(size, test.slice);
  }
  tell(end, {});
  return points;
}

void answer(TransportEnd& end) {
  for (auto a = hear(end); a.kind != Kind::done; a = hear(end)) {
    FLOTILLA_REQUIRE(a.bytes >= 0 && a.bytes <= static_cast<std::int64_t>(end.in.size()) && a.messages > 0, ErrorKind::communication,
                     "a peer announces a test that is none; start the same flotilla on every rank");
    answer_all(end, a.kind, {a.bytes}, a.messages);
  }
}

}  // namespace flotilla::fabric
