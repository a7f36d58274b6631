// When the messages between devices that hold several stages are received, and how much room that takes (pipeline_schedule.hpp).
#include "device_orders.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

#include "index.hpp"

namespace flotilla::schedule {
namespace {

constexpr Ticks never = std::numeric_limits<std::int64_t>::max();

/// Of one pass.
struct Times {
  std::int64_t start = 0, end = 0;
};

/// When a device makes its passes, by chunk, direction and microbatch.
class TimeTable {
 public:
  TimeTable(const std::vector<TimedPass>& passes, int chunks, int microbatches)
      : microbatches_{microbatches}, of_(at(2 * chunks * microbatches)) {
    for (const TimedPass& pass : passes) of_[place(pass.chunk, pass.work == Work::backward, pass.microbatch)] = {pass.start, pass.end};
  }
  const Times& of(int chunk, bool backward, int microbatch) const { return of_[place(chunk, backward, microbatch)]; }
  int microbatches() const { return microbatches_; }

 private:
  std::size_t place(int chunk, bool backward, int microbatch) const {
    return at((2 * chunk + (backward ? 1 : 0)) * microbatches_ + microbatch);
  }
  int microbatches_;
  std::vector<Times> of_;
};

/// How many instances it takes until the one of microbatch m - k is free when m needs it.
int copies_for(const std::vector<std::int64_t>& needed, const std::vector<std::int64_t>& freed) {
  const auto fits = [&](std::size_t k) {
    for (std::size_t m = k; m < needed.size(); ++m)
      if (freed[m - k] > needed[m]) return false;
    return true;
  };
  std::size_t k = 1;
  while (!fits(k)) ++k;
  return static_cast<int>(k);
}

class Receives {
 public:
  Receives(const PipelineShape& shape, ListSchedule listed)
      : batch_partitions_{shape.batch_partitions},
        boundaries_{shape.boundaries},
        depth_{static_cast<int>(batch_partitions_.size())},
        chunks_{shape.chunks},
        training_{shape.training} {
    for (int p = 0; p < depth_; ++p) {
      auto& tables = tables_.emplace_back();
      auto& orders = orders_.emplace_back(batch_partitions_[at(p)].size());
      for (std::size_t r = 0; r < batch_partitions_[at(p)].size(); ++r) {
        auto& passes = listed.devices[at(p)][r].passes;
        tables.emplace_back(passes, chunks_, static_cast<int>(batch_partitions_[at(p)][r].size()));
        orders[r].passes = std::move(passes);
      }
    }
  }

  std::vector<std::vector<DeviceOrder>> run() {
    const auto each = [&](auto&& what) {
      for (int p = 0; p < depth_; ++p)
        for (int r = 0; r < static_cast<int>(batch_partitions_[at(p)].size()); ++r) what(p, r);
    };
    each([&](int p, int r) { list_arrivals(p, r); });
    each([&](int p, int r) { note_departures(p, r); });
    each([&](int p, int r) { count_copies(p, r); });
    return std::move(orders_);
  }

 private:
  /// Where an arrival comes from.
  struct Source {
    int stage = 0, replica = 0, chunk = 0, microbatch = 0;
  };
  struct From {
    Arrival arrival;
    Source source;
  };

  const TimeTable& table(int p, int r) const { return tables_[at(p)][at(r)]; }
  DeviceOrder& order(int p, int r) { return orders_[at(p)][at(r)]; }

  void list_arrivals(int p, int r) {
    std::vector<From> found;
    for (int c = 0; c < chunks_; ++c) {
      const int before = p > 0 ? c : c - 1, after = p + 1 < depth_ ? c : c + 1;
      if (before >= 0) add(p, r, c, {(p + depth_ - 1) % depth_, 0, before, 0}, false, found);
      if (after < chunks_ && training_) add(p, r, c, {(p + 1) % depth_, 0, after, 0}, true, found);
    }
    std::ranges::sort(found, {}, [](const From& f) {
      return std::tuple{f.arrival.sent, f.source.stage, f.source.replica, f.arrival.microbatch, f.arrival.shared.first};
    });
    for (std::size_t i = found.size(); i-- > 1;) found[i - 1].arrival.due = std::min(found[i - 1].arrival.due, found[i].arrival.due);
    auto& arrivals = order(p, r).arrivals;
    auto& sources = sources_[{p, r}];
    for (From& from : found) {
      arrivals.push_back(from.arrival);
      sources.push_back(from.source);
    }
  }

  /// Activations of the own stage before, or gradients of the one behind.
  void add(int p, int r, int chunk, Source source, bool backward, std::vector<From>& found) const {
    const Boundary& boundary = boundaries_[at(backward ? p : source.stage)];
    const auto& mine = batch_partitions_[at(p)][at(r)];
    const auto meet = [&](int own, int replica, int theirs, plan::Microbatch shared) {
      source.replica = replica, source.microbatch = theirs;
      const TimeTable& sender = table(source.stage, replica);
      const int next = theirs + sent_copies;
      Arrival arrival{
          chunk, own, backward, shared, sender.of(source.chunk, backward, theirs).end, table(p, r).of(chunk, backward, own).start};
      if (next < sender.microbatches()) arrival.due = std::min(arrival.due, sender.of(source.chunk, backward, next).start);
      found.push_back({arrival, source});
    };
    if (boundary.alike) {
      for (int m = 0; m < static_cast<int>(mine.size()); ++m) meet(m, r, m, {0, mine[at(m)].count});
      return;
    }
    for (const int index : (backward ? boundary.of : boundary.of_next)[at(r)]) {
      const Crossing& c = boundary.crossings[at(index)];
      const int own = backward ? c.microbatch : c.next_microbatch;
      plan::Microbatch shared = c.shared;
      shared.first -= mine[at(own)].first;
      meet(own, backward ? c.next_replica : c.replica, backward ? c.next_microbatch : c.microbatch, shared);
    }
  }

  /// When the last of what a microbatch's gradient is sent in has begun to be received.
  void note_departures(int p, int r) {
    const auto& arrivals = order(p, r).arrivals;
    const auto& sources = sources_.at({p, r});
    for (std::size_t i = 0; i < arrivals.size(); ++i) {
      if (!arrivals[i].backward) continue;
      const Source& s = sources[i];
      auto& left = departed_[{s.stage, s.replica, s.chunk}];
      left.resize(batch_partitions_[at(s.stage)][at(s.replica)].size(), 0);
      left[at(s.microbatch)] = std::max(left[at(s.microbatch)], arrivals[i].due);
    }
  }

  void count_copies(int p, int r) {
    const TimeTable& times = table(p, r);
    const auto count = at(times.microbatches());
    std::vector<std::vector<std::int64_t>> input(at(chunks_), std::vector<std::int64_t>(count, never)), gradient = input;
    for (const Arrival& a : order(p, r).arrivals) {
      auto& needed = (a.backward ? gradient : input)[at(a.chunk)][at(a.microbatch)];
      needed = std::min(needed, a.due);
    }
    for (int c = 0; c < chunks_; ++c) {
      std::vector<std::int64_t> forward(count), backward(count), done(count), gone(count);
      const auto left = departed_.find({p, r, c});
      for (std::size_t m = 0; m < count; ++m) {
        const auto microbatch = static_cast<int>(m);
        forward[m] = times.of(c, false, microbatch).start;
        backward[m] = times.of(c, true, microbatch).start;
        done[m] = times.of(c, training_, microbatch).end;
        // Strictly later than the neighbour's receive: receives of one moment then never wait for one another.
        gone[m] = left == departed_.end() ? done[m] : std::max(done[m], left->second[m] + 1);
        input[at(c)][m] = std::min(input[at(c)][m], forward[m]);
        gradient[at(c)][m] = std::min(gradient[at(c)][m], backward[m]);
      }
      ChunkCopies copies;
      if (training_) copies = {copies_for(forward, done), 1, copies_for(gradient[at(c)], gone)};
      copies.received = std::max(copies.in_flight, copies_for(input[at(c)], done));
      order(p, r).copies.push_back(copies);
    }
  }

  const std::vector<plan::BatchPartition>& batch_partitions_;
  const std::vector<Boundary>& boundaries_;
  int depth_, chunks_;
  bool training_;
  std::vector<std::vector<TimeTable>> tables_;
  std::vector<std::vector<DeviceOrder>> orders_;
  std::map<std::pair<int, int>, std::vector<Source>> sources_;               ///< by device, of its arrivals
  std::map<std::tuple<int, int, int>, std::vector<std::int64_t>> departed_;  ///< by device and chunk
};

}  // namespace

std::vector<std::vector<DeviceOrder>> device_orders(const PipelineShape& shape, ListSchedule listed) {
  return Receives{shape, std::move(listed)}.run();
}

}  // namespace flotilla::schedule
