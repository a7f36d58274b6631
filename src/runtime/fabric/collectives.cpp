#include "flotilla/fabric/collectives.hpp"

#include <algorithm>

#include "finish.hpp"
#include "flotilla/base/clock.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/comm/agree.hpp"
#include "flotilla/comm/process_group.hpp"

namespace flotilla::fabric {
namespace {

constexpr Seconds slice{0.05};
constexpr int least_runs = 3, most_runs = 1000;

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

/// Every test's time for one size, all at once.
std::vector<Seconds> time_size(const comm::World& world, const std::vector<CollectiveTest>& tests, Reduction* mine, Bytes size,
                               Seconds deadline) {
  const auto run = [&](int runs) { return mine != nullptr ? mine->run(size, runs) : Seconds{}; };
  run(1);
  const double pilot = slowest(world, run(1), deadline);
  const int runs = static_cast<int>(std::clamp(slice.value / std::max(pilot, 1e-9), double{least_runs}, double{most_runs}));
  return slowest_members(world, tests, run(runs), deadline);
}

std::vector<bench::CollectiveReport> measure_level(const comm::World& world, const std::vector<CollectiveTest>& tests,
                                                   const std::vector<Bytes>& sizes, Seconds deadline) {
  std::vector<bench::CollectiveReport> reports;
  for (const auto& test : tests) reports.push_back({test.level, test.name, static_cast<int>(test.members.size()), {}, ""});
  try {
    const auto groups = comm::form(world, groups_of(tests), deadline);
    const auto mine = std::ranges::find_if(groups, [](const auto& group) { return group != nullptr; });
    std::unique_ptr<Reduction> reduction;
    if (mine != groups.end()) reduction = std::make_unique<Reduction>(**mine, sizes.back(), deadline);
    for (const Bytes size : sizes) {
      const auto times = time_size(world, tests, reduction.get(), size, deadline);
      for (std::size_t t = 0; t < tests.size(); ++t) reports[t].points.push_back({size, times[t]});
    }
  } catch (const comm::AgreedError& error) {
    for (auto& report : reports) report.refusal = error.what();
  }
  return reports;
}

}  // namespace

std::vector<bench::CollectiveReport> measure_collectives(const comm::World& world, const std::vector<CollectiveTest>& tests,
                                                         const std::vector<Bytes>& sizes, Seconds deadline) {
  std::vector<bench::CollectiveReport> reports;
  for (auto first = tests.begin(); first != tests.end();) {
    const auto last = std::find_if(first, tests.end(), [&](const CollectiveTest& test) { return test.level != first->level; });
    const auto level = measure_level(world, {first, last}, sizes, deadline);
    reports.insert(reports.end(), level.begin(), level.end());
    first = last;
  }
  return reports;
}

}  // namespace flotilla::fabric
