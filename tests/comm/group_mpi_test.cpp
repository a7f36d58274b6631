// Collectives of overlapping groups, to the last bit, from one polling loop.
#include "flotilla/comm/process_group.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <random>

#include "allocations.hpp"
#include "device_groups.hpp"
#include "flotilla/base/clock.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/base/philox.hpp"
#include "flotilla/mpi/backoff.hpp"
#include "flotilla/program/hierarchical_all_reduce.hpp"
#include "known_answer.hpp"
#include "world_fixture.hpp"

namespace flotilla::comm {
namespace {

using Kind = program::Group::Kind;

/// A member's value at an element: any rank can compute everybody's, so the expected bits are known everywhere.
double value(int rank, std::int64_t element, int seed) {
  const std::uint64_t bits =
      Philox::mix(static_cast<std::uint64_t>(element * 1000 + rank) ^ (std::uint64_t{static_cast<unsigned>(seed)} << 40));
  return std::ldexp(static_cast<double>(static_cast<std::int64_t>(bits >> 12)) * 0x1p-51 - 1.0, static_cast<int>(bits % 13));
}

std::uint16_t to_bf16(float x) {  // finite values only
  const auto bits = std::bit_cast<std::uint32_t>(x);
  return static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}
float from_bf16(std::uint16_t x) { return std::bit_cast<float>(std::uint32_t{x} << 16); }

/// One all-reduce with its buffers: filled, started, checked.
class Case {
 public:
  Case(ProcessGroup& group, ElementType type, std::int64_t capacity) : group_{group}, type_{type}, width_{element_size(type).count} {
    const Bytes size{capacity * width_};
    const Bytes staging = all_reduce_staging(size, type, group.size());
    data_.resize(static_cast<std::size_t>(size.count));
    staging_.resize(static_cast<std::size_t>(staging.count) + 8, guard);
    operation = group.make_all_reduce(data_.data(), type, size, staging_.data(), staging);
  }

  void start(std::int64_t elements, int seed) {
    elements_ = elements;
    seed_ = seed;
    const int me = group_.members()[static_cast<std::size_t>(group_.index())].value;
    for (std::int64_t i = 0; i < elements; ++i) put(i, value(me, i, seed));
    operation->start({elements * width_});
  }

  void check() const {
    for (std::int64_t i = 0; i < elements_; ++i) ASSERT_TRUE(right(i)) << group_.describe() << " element " << i << " of " << elements_;
    ASSERT_TRUE(std::all_of(staging_.end() - 8, staging_.end(), [](std::byte b) { return b == guard; })) << "staging overrun";
  }

  std::unique_ptr<PersistentOperation> operation;

 private:
  static constexpr std::byte guard{0xa5};
  template <class T>
  T& at(std::int64_t i) {
    return reinterpret_cast<T*>(data_.data())[i];
  }
  template <class T>
  const T& at(std::int64_t i) const {
    return reinterpret_cast<const T*>(data_.data())[i];
  }
  void put(std::int64_t i, double x) {
    if (type_ == ElementType::fp32) at<float>(i) = static_cast<float>(x);
    if (type_ == ElementType::fp64) at<double>(i) = x;
    if (type_ == ElementType::bf16) at<std::uint16_t>(i) = to_bf16(static_cast<float>(x));
  }
  template <class T, class Convert>
  T ordered(std::int64_t i, Convert convert) const {
    T sum = convert(value(group_.members()[0].value, i, seed_));
    for (std::size_t k = 1; k < group_.members().size(); ++k) sum += convert(value(group_.members()[k].value, i, seed_));
    return sum;
  }
  bool right(std::int64_t i) const {
    if (type_ == ElementType::fp64) return at<double>(i) == ordered<double>(i, [](double x) { return x; });
    if (type_ == ElementType::fp32) return at<float>(i) == ordered<float>(i, [](double x) { return static_cast<float>(x); });
    const float sum = ordered<float>(i, [](double x) { return from_bf16(to_bf16(static_cast<float>(x))); });
    return at<std::uint16_t>(i) ==
           (group_.size() == 1 ? to_bf16(static_cast<float>(value(group_.members()[0].value, i, seed_))) : to_bf16(sum));
  }

  ProcessGroup& group_;
  ElementType type_;
  std::int64_t width_;
  std::int64_t elements_ = 0;
  int seed_ = 0;
  std::vector<std::byte> data_, staging_;
};

void finish(const std::vector<PersistentOperation*>& operations) {
  const Seconds end = now() + patience;
  for (mpi::Backoff backoff;; backoff.pause()) {
    bool all = true;
    for (PersistentOperation* operation : operations) all = operation->progress() && all;
    if (all) return;
    if (now() < end) continue;
    for (PersistentOperation* operation : operations) ASSERT_TRUE(operation->progress()) << "hangs: " << operation->describe();
  }
}

class GroupTest : public WorldTest {
 protected:
  /// Of the kind that the environment asks for.
  Groups connect(const std::vector<program::Group>& groups) {
    if (!on_devices) return comm::connect(world, groups);
    if (transport == "nccl")
      devices_.push_back(std::make_unique<DeviceGroupsFixture>(world, groups));
    else
      devices_.push_back(std::make_unique<DeviceMemoryGroupsFixture>(world, groups));
    return devices_.back()->views();
  }
  static constexpr const char* kinds = "FLOTILLA_TEST_GROUPS";  ///< "nccl" or "device-mpi"; unset: on hosts
  const std::string transport = std::getenv(kinds) == nullptr ? "" : std::getenv(kinds);
  const bool on_devices = !transport.empty();

  program::Group everybody() const {
    program::Group group{Kind::world, {}};
    for (int r = 0; r < size; ++r) group.members.push_back(Rank{r});
    return group;
  }
  /// Random groups that overlap, in random member orders; the same on all ranks.
  std::vector<program::Group> random_groups(unsigned seed) const {
    std::mt19937 engine{seed};
    std::vector<program::Group> groups{everybody()};
    for (const Kind kind : {Kind::tensor, Kind::data, Kind::tied, Kind::data}) {
      program::Group group = everybody();
      group.kind = kind;
      std::shuffle(group.members.begin(), group.members.end(), engine);
      group.members.resize(1 + engine() % static_cast<unsigned>(size));
      groups.push_back(group);
    }
    return groups;
  }

 private:
  std::vector<std::unique_ptr<OnDevice>> devices_;
};

TEST_F(GroupTest, SumsHaveTheBitsOfTheMemberOrder) {
  const Groups groups = connect(random_groups(1));
  for (const ElementType type : {ElementType::fp32, ElementType::bf16, ElementType::fp64}) {
    if (on_devices && type == ElementType::fp64) continue;
    for (const std::int64_t elements : {0, 1, 2, 3, 7, 64, 1000, 4099}) {
      std::vector<std::unique_ptr<Case>> cases;
      std::vector<PersistentOperation*> operations;
      for (const auto& group : groups) {
        if (!group) continue;
        cases.push_back(std::make_unique<Case>(*group, type, elements));
        cases.back()->start(elements, static_cast<int>(elements));
        operations.push_back(cases.back()->operation.get());
      }
      finish(operations);
      for (const auto& one : cases) one->check();
    }
  }
}

TEST_F(GroupTest, LargeSumsInFlightTogetherInAnyOrderOfStarts) {
  const Groups groups = connect(random_groups(2));
  const std::int64_t largest = size < 4 ? 600'001 : 100'001;  // pieces beyond what is sent eagerly
  std::vector<std::unique_ptr<Case>> cases;
  for (const auto& group : groups)
    for (int copy = 0; group && copy < 2; ++copy) cases.push_back(std::make_unique<Case>(*group, ElementType::fp32, largest));
  std::mt19937 engine{static_cast<unsigned>(me)};  // different on every rank
  for (int round = 0; round < 3; ++round) {
    std::vector<std::size_t> order(cases.size());
    std::iota(order.begin(), order.end(), 0u);
    std::shuffle(order.begin(), order.end(), engine);
    std::vector<PersistentOperation*> operations;
    for (const std::size_t i : order) {
      cases[i]->start(largest - 1000 * round, round);
      operations.push_back(cases[i]->operation.get());
    }
    finish(operations);
    for (const auto& one : cases) one->check();
  }
}

/// Nobody waits for the others between the steps: a fast member is several steps' messages ahead. Nothing of ours is allocated.
TEST_F(GroupTest, RestartedManyTimesWithChangingSizes) {
  const Groups groups = connect({everybody()});
  Case one{*groups[0], ElementType::fp32, 5000};
  Case other{*groups[0], ElementType::bf16, 5000};
  const std::vector<PersistentOperation*> operations{one.operation.get(), other.operation.get()};
  ASSERT_GT(allocations(), 0) << "nothing is counted";
  for (int step = 0; step < 200; ++step) {
    const long before = allocations();
    one.start((step * 37) % 5001, step);
    other.start((step * 91) % 300, step + 1000);
    finish(operations);
    EXPECT_EQ(allocations(), before);
    one.check();
    other.check();
  }
}

/// Pieces of whole units that no group divides evenly, some of them empty; then the gathering that makes the sum whole everywhere.
TEST_F(GroupTest, ReduceScatterGivesEachMemberItsPieceOfTheSum) {
  const Groups groups = connect(random_groups(5));
  constexpr std::int64_t width = 6, capacity = 70'001;  // elements of a unit; units, beyond what is sent eagerly and summed at once
  for (const auto& group : groups) {
    if (!group) continue;
    for (const ElementType type : {ElementType::fp32, ElementType::bf16}) {
      const Bytes unit = width * element_size(type), most = capacity * unit;
      const Bytes staging = reduce_scatter_staging(most, unit, group->size());
      std::vector<std::byte> data(static_cast<std::size_t>(most.count)), room(static_cast<std::size_t>(staging.count) + 8, std::byte{0xa5});
      const auto scatter = group->make_reduce_scatter(data.data(), type, unit, most, room.data(), staging);
      const auto gather = group->make_gather_pieces(data.data(), unit, most);
      const auto element = [&](int rank, std::int64_t i) {
        const auto x = static_cast<float>(value(rank, i, 3));
        return type == ElementType::bf16 ? from_bf16(to_bf16(x)) : x;
      };
      const auto stored = [&](std::int64_t i) {
        return type == ElementType::bf16 ? from_bf16(reinterpret_cast<const std::uint16_t*>(data.data())[i])
                                         : reinterpret_cast<const float*>(data.data())[i];
      };
      for (const std::int64_t units : {std::int64_t{0}, std::int64_t{1}, std::int64_t{2}, std::int64_t{7}, std::int64_t{100}, capacity}) {
        for (std::int64_t i = 0; i < units * width; ++i)
          if (type == ElementType::bf16)
            reinterpret_cast<std::uint16_t*>(data.data())[i] = to_bf16(element(me, i));
          else
            reinterpret_cast<float*>(data.data())[i] = element(me, i);
        const auto wrong = [&](std::int64_t first, std::int64_t last) {
          std::int64_t count = 0;
          for (std::int64_t i = first * width; i < last * width; ++i) {
            float sum = element(group->members()[0].value, i);
            for (std::size_t k = 1; k < group->members().size(); ++k) sum += element(group->members()[k].value, i);
            count += stored(i) != (type == ElementType::bf16 ? from_bf16(to_bf16(sum)) : sum);
          }
          return count;
        };
        const auto mine = program::piece(units, group->size(), group->index());
        scatter->start(units * unit);
        finish({scatter.get()});
        EXPECT_EQ(wrong(mine.first, mine.last), 0) << units << " units, " << group->describe();
        if (group->size() > 1 && units > group->size()) {
          EXPECT_GT(wrong(0, units), 0) << "others' pieces came too";
        }
        gather->start(units * unit);
        finish({gather.get()});
        EXPECT_EQ(wrong(0, units), 0) << units << " units, gathered";
      }
      EXPECT_TRUE(std::all_of(room.end() - 8, room.end(), [](std::byte b) { return b == std::byte{0xa5}; })) << "staging overrun";
    }
  }
}

/// Nodes of two and a half, zones of two nodes; members in any order. Whole sums and both halves, restarted: the bits are those of the
/// subgroups.
TEST_F(GroupTest, SumsInTeamsWholeAndByHalves) {
  auto group = everybody();
  std::mt19937 engine{5};
  std::shuffle(group.members.begin(), group.members.end(), engine);
  program::RankLocations placement;
  for (int r = 0; r < size; ++r) {
    placement.node.push_back(r * 2 / 5);
    placement.zone.push_back(r * 2 / 5 / 2);
  }
  for (const bool subgroups : {false, true}) {
    if (subgroups) group.subgroups = program::subgroups_of({group.members}, placement);
    const Groups groups = connect({group});
    for (const std::int64_t elements : {1, 5, 1000, 60'003}) {
      const Bytes bytes{elements * 4};
      const auto room =
          std::max(program::sum_staging(group, groups[0]->index(), bytes, {4}), all_reduce_staging(bytes, ElementType::fp32, size));
      std::vector<float> values(static_cast<std::size_t>(elements)), staging(static_cast<std::size_t>(room.count / 4));
      auto* data = reinterpret_cast<std::byte*>(values.data());
      auto* beside = reinterpret_cast<std::byte*>(staging.data());
      const auto sum = groups[0]->make_all_reduce(data, ElementType::fp32, bytes, beside, room);
      const auto there = groups[0]->make_reduce_scatter_shards(data, ElementType::fp32, bytes, beside, room);
      const auto back = groups[0]->make_all_gather_shards(data, {4}, bytes);
      for (int round = 0; round < 2; ++round) {
        fill_known(groups[0]->value(), groups[0]->index(), values);
        const std::vector<PersistentOperation*> one{sum.get()}, other{there.get()};
        const long before = allocations();
        sum->start(bytes);
        finish(one);
        if (!on_devices) {
          EXPECT_EQ(allocations(), before);
        }
        EXPECT_EQ(first_wrong(group, values), -1) << elements << " in " << group.subgroups.size() << " levels of subgroups";
        fill_known(groups[0]->value(), groups[0]->index(), values);
        there->start(bytes);
        finish(other);
        std::vector<float> share(values.size(), std::nanf(""));
        for (const auto& row_range : program::share_of(group, groups[0]->index()))
          for (auto i = program::position(elements, row_range.first); i < program::position(elements, row_range.last); ++i)
            share[static_cast<std::size_t>(i)] = values[static_cast<std::size_t>(i)];
        values = share;
        back->start(bytes);
        finish({back.get()});
        EXPECT_EQ(first_wrong(group, values), -1) << elements << " by halves, in " << group.subgroups.size() << " levels of subgroups";
      }
    }
  }
}

TEST_F(GroupTest, GathersInMemberOrderWithoutGaps) {
  const Groups groups = connect(random_groups(3));
  for (const auto& group : groups) {
    if (!group) continue;
    constexpr std::int64_t capacity = 100'000;
    std::vector<std::byte> mine(capacity);
    std::vector<std::byte> all(static_cast<std::size_t>(capacity * group->size()));
    const auto gather = group->make_all_gather(mine.data(), all.data(), {capacity});
    for (const std::int64_t bytes : {std::int64_t{0}, std::int64_t{1}, std::int64_t{1000}, capacity}) {
      std::fill(mine.begin(), mine.end(), static_cast<std::byte>(me * 7 + bytes % 5));
      gather->start({bytes});
      finish({gather.get()});
      for (int k = 0; k < group->size(); ++k) {
        const auto expected = static_cast<std::byte>(group->members()[static_cast<std::size_t>(k)].value * 7 + bytes % 5);
        const auto* block = all.data() + k * bytes;
        EXPECT_TRUE(std::all_of(block, block + bytes, [&](std::byte b) { return b == expected; }));
      }
    }
  }
}

TEST_F(GroupTest, GathersFromItsOwnPlace) {
  const Groups groups = connect({everybody()});
  std::vector<std::int64_t> all(static_cast<std::size_t>(size), -1);
  auto* bytes = reinterpret_cast<std::byte*>(all.data());
  all[static_cast<std::size_t>(me)] = me * 5;
  const auto gather = groups[0]->make_all_gather(bytes + me * 8, bytes, {8});
  gather->start({8});
  finish({gather.get()});
  for (int r = 0; r < size; ++r) EXPECT_EQ(all[static_cast<std::size_t>(r)], r * 5);
}

TEST_F(GroupTest, KnowsItsMembersAndWhereThisRankIsAmongThem) {
  for (const auto& group : connect(random_groups(4))) {
    if (!group) continue;
    EXPECT_EQ(group->members()[static_cast<std::size_t>(group->index())], world.rank());
    EXPECT_EQ(group->describe().rfind(to_string(group->value().kind) + " group of rank ", 0), 0u) << group->describe();
  }
  const Groups none = connect({{Kind::data, {Rank{0}}}});
  EXPECT_EQ(none[0] != nullptr, me == 0);
}

TEST_F(GroupTest, RefusesGroupsThatCannotBe) {
  EXPECT_THROW(connect({{Kind::data, {Rank{0}, Rank{size}}}}), Error);
  EXPECT_THROW(connect({{Kind::data, {Rank{0}, Rank{0}}}}), Error);
  if (size == 1) return;  // alone no staging is needed
  const Groups groups = connect({everybody()});
  std::vector<std::byte> data(4000);
  EXPECT_THROW(groups[0]->make_all_reduce(data.data(), ElementType::fp32, {4000}, data.data(), {0}), Error);
  const auto few_tags = make_mpi_group(world, everybody(), 0, 1);
  EXPECT_THROW(few_tags->make_all_reduce(data.data(), ElementType::fp32, {0}, nullptr, {0}), Error);
}

}  // namespace
}  // namespace flotilla::comm
