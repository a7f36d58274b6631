#include "ping_pong.hpp"

#include <algorithm>
#include <map>
#include <span>

#include "flotilla/base/clock.hpp"
#include "flotilla/base/error.hpp"
#include "samples.hpp"

namespace flotilla::probe {
namespace {

constexpr Bytes smallest{8}, largest{8 << 20}, always{512 << 10};
constexpr int most_trips = 200;

enum class Kind : std::int32_t { done, messages, sums };

/// What the asking side announces: that many rounds of that kind and size.
struct Announcement {
  std::int64_t bytes = 0;
  std::int32_t rounds = 0;
  Kind kind = Kind::done;
};

/// Half a round trip.
Seconds message_round(LinkEnd& end, Bytes size, int round) {
  const auto count = static_cast<std::size_t>(size.count);
  const auto out = std::span{end.out}.first(count);
  fill_pattern(out, round);
  end.place(size);
  const Seconds start = now();
  end.send(size);
  end.receive(size);
  const Seconds took = (now() - start) / 2;
  end.fetch(size);
  FLOTILLA_REQUIRE(std::ranges::equal(out, std::span{end.in}.first(count)), ErrorKind::communication, end.peer_name(), ": a message of ",
                   size, " came back changed; the network or its driver corrupts data");
  return took;
}

/// Half an all-reduce.
Seconds sum_round(LinkEnd& end, Bytes size) {
  const Seconds start = now();
  end.sum(size);
  return (now() - start) / 2;
}

std::vector<Seconds> rounds(LinkEnd& end, Kind kind, Bytes size, int count) {
  const Announcement announcement{size.count, count, kind};
  end.tell(std::as_bytes(std::span{&announcement, 1}));
  std::vector<Seconds> times;
  for (int round = 0; round < count; ++round)
    times.push_back(kind == Kind::messages ? message_round(end, size, round) : sum_round(end, size));
  return times;
}

int rounds_within(Seconds slice, Seconds one_way) {
  return static_cast<int>(std::clamp(slice / (2 * one_way), 2.0, static_cast<double>(most_trips)));
}

}  // namespace

void fill_pattern(std::span<std::byte> data, int round) {
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::byte>(i * 31 + i / 251 + static_cast<std::size_t>(round) * 7);
}

std::vector<Bytes> message_sizes() {
  std::vector<Bytes> sizes;
  for (Bytes size = smallest; size <= largest; size = size * 4) sizes.push_back(size);
  if (sizes.back() < largest) sizes.push_back(largest);
  return sizes;
}

LinkEnd::OnDevice::OnDevice(const gpu::DeviceContext& gpu, Bytes size)
    : stream{gpu.make_stream()},
      memory{gpu.make_buffer(5 * size)},
      out{memory.data()},
      in{out + size.count},
      reduced{in + size.count},
      staging{reduced + 2 * size.count} {
  stream.fill(out, 5 * size, 0);
}

LinkEnd::LinkEnd(const comm::World& world, Rank peer, int channel, comm::ProcessGroup* pair, Seconds deadline,
                 const gpu::DeviceContext* gpu)
    : out(static_cast<std::size_t>(largest.count)),
      in(out.size()),
      world_{world},
      peer_{peer},
      deadline_{deadline},
      on_device_{gpu == nullptr ? std::nullopt : std::optional<OnDevice>{std::in_place, *gpu, largest}},
      note_(sizeof(Announcement)),
      tell_{comm::make_send(world, peer, channel, note_.data(), {static_cast<std::int64_t>(note_.size())})},
      hear_{comm::make_receive(world, peer, channel, note_.data(), {static_cast<std::int64_t>(note_.size())})},
      send_{comm::make_send(world, peer, channel + 1, on_device_ ? on_device_->out.address : out.data(), largest)},
      receive_{comm::make_receive(world, peer, channel + 1, on_device_ ? on_device_->in.address : in.data(), largest)},
      comm_worker_{deadline} {
  if (on_device_) {
    on_device_->stream.wait(deadline);
    echo_ = comm::make_send(world, peer, channel + 1, on_device_->in.address, largest);
    if (pair != nullptr)
      sum_ = pair->make_all_reduce(on_device_->reduced.address, ElementType::fp32, largest * 2, on_device_->staging.address, largest);
    return;
  }
  if (pair == nullptr) return;
  reduced_.resize(2 * out.size());
  staging_.resize(out.size());
  sum_ = pair->make_all_reduce(reduced_.data(), ElementType::fp32, largest * 2, staging_.data(), largest);
}

void LinkEnd::echo(Bytes size) {
  if (on_device_) return run(*echo_, size);
  std::copy_n(in.begin(), size.count, out.begin());
  send(size);
}

void LinkEnd::place(Bytes size) {
  if (!on_device_) return;
  on_device_->stream.copy_to_device(on_device_->out, std::span{out}.first(static_cast<std::size_t>(size.count)));
  on_device_->stream.wait(deadline_);
}

void LinkEnd::fetch(Bytes size) {
  if (!on_device_) return;
  on_device_->stream.copy_to_host(std::span{in}.first(static_cast<std::size_t>(size.count)), on_device_->in);
  on_device_->stream.wait(deadline_);
}

void LinkEnd::run(comm::PersistentOperation& operation, Bytes size) {
  const CommTask comm_task{&operation, size};
  comm_worker_.run({&comm_task, 1});
}

void LinkEnd::tell(std::span<const std::byte> note) {
  std::ranges::copy(note, note_.begin());
  run(*tell_, {static_cast<std::int64_t>(note.size())});
}

void LinkEnd::hear(std::span<std::byte> note) {
  run(*hear_, {static_cast<std::int64_t>(note.size())});
  std::copy_n(note_.begin(), note.size(), note.begin());
}

LinkSamples ask(LinkEnd& peer, Seconds budget) {
  LinkSamples samples;
  const auto sizes = message_sizes();
  const Seconds end = now() + budget, slice = budget / static_cast<double>(2 * sizes.size());
  const auto measure = [&](Kind kind, Bytes size, std::vector<cluster::LinkSample>& into) {
    const Seconds first = rounds(peer, kind, size, 2).back();
    const auto times = rounds(peer, kind, size, rounds_within(slice, first));
    for (std::size_t i = times.size() > 2 ? 1 : 0; i < times.size(); ++i) into.push_back({size, times[i]});
    return first;
  };
  Seconds last{};
  for (Bytes size : sizes) {
    if (size > always && now() + 4 * last * 6 > end) break;  // four times the bytes, three rounds
    last = measure(Kind::messages, size, samples.messages);
    if (peer.sums()) last += measure(Kind::sums, size, samples.sums);
  }
  const Announcement done{};
  peer.tell(std::as_bytes(std::span{&done, 1}));
  return samples;
}

void answer(LinkEnd& peer) {
  while (true) {
    Announcement next;
    peer.hear(std::as_writable_bytes(std::span{&next, 1}));
    if (next.kind == Kind::done) return;
    FLOTILLA_REQUIRE(next.bytes >= 0 && next.bytes <= largest.count && (next.kind == Kind::messages || peer.sums()),
                     ErrorKind::communication, peer.peer_name(), ": announced ", next.bytes, " bytes; expected at most ", largest.count);
    const Bytes size{next.bytes};
    for (std::int32_t round = 0; round < next.rounds; ++round) {
      if (next.kind == Kind::sums) {
        peer.sum(size);
        continue;
      }
      peer.receive(size);
      peer.echo(size);
    }
  }
}

std::vector<cluster::LinkSample> means(const std::vector<cluster::LinkSample>& samples) {
  std::map<std::int64_t, std::vector<double>> by_size;
  for (const auto& s : samples) by_size[s.size.count].push_back(s.time.value);
  std::vector<cluster::LinkSample> result;
  for (auto& [size, times] : by_size) {
    const double most = quantile(times, 0.9);
    std::erase_if(times, [&](double t) { return t > most; });
    result.push_back({{size}, {mean(times)}});
  }
  return result;
}

double scatter_about(const cluster::Link& fit, const std::vector<cluster::LinkSample>& samples) {
  std::vector<double> ratios;
  for (const auto& s : samples) ratios.push_back(s.time / cluster::transfer_time(fit, s.size));
  return relative_scatter(ratios);
}

}  // namespace flotilla::probe
