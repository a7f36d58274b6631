#include "flotilla/fabric/collectives.hpp"

#include <algorithm>

#include "curve.hpp"
#include "finish.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/base/time_shares.hpp"
#include "flotilla/comm/agree.hpp"
#include "flotilla/comm/process_group.hpp"

namespace flotilla::fabric {
namespace {

constexpr int least_runs = 3, most_runs = 100'000, runs_before = 2;

std::vector<program::Group> groups_of(const std::vector<CollectiveTest>& tests) {
  std::vector<program::Group> groups;
  for (const auto& test : tests) groups.push_back({program::Group::Kind::data, test.members});
  return groups;
}

/// One member's all-reduces.
class Reduction {
 public:
  Reduction(comm::ProcessGroup& group, Bytes largest, Seconds deadline)
      : data_(static_cast<std::size_t>(largest.count)),
        staging_(static_cast<std::size_t>(comm::all_reduce_staging(largest, ElementType::fp32, group.size()).count)),
        operation_{
            group.make_all_reduce(data_.data(), ElementType::fp32, largest, staging_.data(), {static_cast<std::int64_t>(staging_.size())})},
        deadline_{deadline} {}

  /// Of one, in the mean.
  Seconds run(Bytes size, int runs) {
    const Seconds start = now();
    for (int r = 0; r < runs; ++r) {
      operation_->start(size);
      finish(*operation_, deadline_);
    }
    return (now() - start) / runs;
  }

 private:
  std::vector<std::byte> data_, staging_;
  std::unique_ptr<comm::PersistentOperation> operation_;
  Seconds deadline_;
};

/// The slowest rank's value decides for all: members run equally often, and an all-reduce takes as long as its last member.
double slowest(const comm::World& world, Seconds mine, Seconds deadline) {
  const auto all = mpi::all_gather(world.control(), mine.value, deadline);
  return *std::ranges::max_element(all);
}

/// By test; 0 where this rank is no member.
std::vector<Seconds> slowest_members(const comm::World& world, const std::vector<CollectiveTest>& tests, Seconds mine, Seconds deadline) {
  const auto all = mpi::all_gather(world.control(), mine.value, deadline);
  std::vector<Seconds> times;
  for (const auto& test : tests) {
    double most = 0;
    for (const Rank member : test.members) most = std::max(most, all[member.index()]);
    times.push_back({most});
  }
  return times;
}

/// Every test's time for one size, all at once, and how long that takes: for about `slice`. The same on every rank.
struct TimedSize {
  std::vector<Seconds> times;
  Seconds took;
};
TimedSize time_size(const comm::World& world, const std::vector<CollectiveTest>& tests, Reduction* mine, Bytes size, Seconds slice,
                    Seconds deadline) {
  const auto run = [&](int runs) { return mine != nullptr ? mine->run(size, runs) : Seconds{}; };
  run(1);
  const double pilot = slowest(world, run(1), deadline);
  const int runs = static_cast<int>(std::clamp(slice.value / std::max(pilot, 1e-9), double{least_runs}, double{most_runs}));
  auto times = slowest_members(world, tests, run(runs), deadline + slice);
  const Seconds took = runs_before * Seconds{pilot} + runs * std::ranges::max(times);
  return {std::move(times), took};
}

/// At the sizes that fit the time, which ranks count by the same numbers, not by their clocks.
void time_sizes(const comm::World& world, const std::vector<CollectiveTest>& tests, Reduction* mine, const std::vector<Bytes>& sizes,
                Seconds time, Seconds deadline, std::vector<bench::CollectiveReport>& reports) {
  Seconds clock{};
  Curve curve{sizes, 1, time, [&] { return clock; }};
  while (const auto step = curve.next()) {
    const auto [times, took] = time_size(world, tests, mine, step->size, step->time, deadline);
    for (std::size_t t = 0; t < tests.size(); ++t) reports[t].points.push_back({step->size, times[t]});
    curve.took(std::ranges::max(times));
    clock += took;
  }
  for (auto& report : reports) std::ranges::sort(report.points, {}, &bench::CollectivePoint::size);
}

std::vector<bench::CollectiveReport> measure_level(const comm::World& world, const std::vector<CollectiveTest>& tests,
                                                   const std::vector<Bytes>& sizes, Seconds time, Seconds deadline) {
  const Seconds end = now() + time;
  std::vector<bench::CollectiveReport> reports;
  for (const auto& test : tests) reports.push_back({test.level, test.name, static_cast<int>(test.members.size()), {}, ""});
  try {
    const auto groups = comm::form(world, groups_of(tests), deadline);
    const auto mine = std::ranges::find_if(groups, [](const auto& group) { return group != nullptr; });
    std::unique_ptr<Reduction> reduction;
    if (mine != groups.end()) reduction = std::make_unique<Reduction>(**mine, sizes.back(), deadline);
    const Seconds left = mpi::broadcast_value(world.control(), std::max(Seconds{}, end - now()), 0, deadline);
    time_sizes(world, tests, reduction.get(), sizes, left, deadline, reports);
  } catch (const comm::AgreedError& error) {
    for (auto& report : reports) report.refusal = error.what();
  }
  return reports;
}

int levels_of(const std::vector<CollectiveTest>& tests) {
  int levels = 0;
  for (std::size_t t = 0; t < tests.size(); ++t)
    if (t == 0 || tests[t].level != tests[t - 1].level) ++levels;
  return levels;
}

}  // namespace

std::vector<bench::CollectiveReport> measure_collectives(const comm::World& world, const std::vector<CollectiveTest>& tests,
                                                         const std::vector<Bytes>& sizes, Seconds time, Seconds deadline) {
  std::vector<double> levels(static_cast<std::size_t>(levels_of(tests)), 1.0);
  TimeShares shares{now() + time, std::move(levels)};
  std::vector<bench::CollectiveReport> reports;
  for (auto first = tests.begin(); first != tests.end();) {
    const auto last = std::find_if(first, tests.end(), [&](const CollectiveTest& test) { return test.level != first->level; });
    const auto level = measure_level(world, {first, last}, sizes, shares.next(), deadline);
    reports.insert(reports.end(), level.begin(), level.end());
    first = last;
  }
  return reports;
}

}  // namespace flotilla::fabric
