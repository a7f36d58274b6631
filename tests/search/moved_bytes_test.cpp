#include "moving/moved_bytes.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>

#include "flotilla/base/error.hpp"
#include "flotilla/plan/shard_layout.hpp"
#include "flotilla/program/migration.hpp"

namespace flotilla::search::moved_bytes_test {
namespace {

constexpr std::int64_t state = 4 + 4 + 4;  // bytes of an fp32 parameter

model::Config tiny() { return model::built_in("gpt2-tiny"); }  // two blocks, four layers

/// Stages of these cuts, each with these replicas; shares do not matter here.
plan::Plan plan_of(const model::Config& model, const std::vector<int>& cuts, const std::vector<std::vector<plan::Replica>>& replicas) {
  plan::Plan plan;
  plan.model = model;
  plan.length = model.positions;
  plan.global_batch = 64;
  for (std::size_t s = 0; s + 1 < cuts.size(); ++s) plan.stages.push_back({cuts[s], cuts[s + 1], plan::Recompute::none, replicas[s]});
  return plan;
}

plan::Replica replica(const char* type, int degree = 1, const char* zone = "") { return {type, zone, degree, {}, 1, 1}; }

/// What one device of a plan holds, element by element along each tensor's cut dimension.
struct Device {
  std::string type, zone;
  std::vector<std::vector<plan::ShardInterval>> intervals;  ///< by tensor; empty: nothing
};

std::vector<Device> devices_of(const plan::Plan& plan, const std::vector<model::Tensor>& tensors) {
  std::vector<Device> all;
  const int own = plan::own_stages(plan);
  for (int s = 0; s < own; ++s)
    for (const plan::Replica& r : plan.stages[static_cast<std::size_t>(s)].replicas)
      for (int i = 0; i < r.tensor_parallel; ++i) {
        Device device{r.device_type, r.zone, std::vector<std::vector<plan::ShardInterval>>(tensors.size())};
        for (int chunk = s; chunk < static_cast<int>(plan.stages.size()); chunk += own)
          for (const int t : plan::tensors_of_stage(tensors, plan.stages[static_cast<std::size_t>(chunk)])) {
            const auto& tensor = tensors[static_cast<std::size_t>(t)];
            const auto shard = plan::shard(tensor, r.tensor_parallel, i);
            const std::int64_t whole = tensor.dimension < 0 ? 1 : tensor.shape[static_cast<std::size_t>(tensor.dimension)];
            device.intervals[static_cast<std::size_t>(t)] =
                shard.dimension < 0 ? std::vector{plan::ShardInterval{0, whole, 0}} : shard.intervals;
          }
        all.push_back(std::move(device));
      }
  return all;
}

std::int64_t common(const Device& a, const Device& b, const std::vector<model::Tensor>& tensors) {
  std::int64_t sum = 0;
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    const std::int64_t whole = tensors[t].dimension < 0 ? 1 : tensors[t].shape[static_cast<std::size_t>(tensors[t].dimension)];
    for (const auto& x : a.intervals[t])
      for (const auto& y : b.intervals[t])
        sum += std::max<std::int64_t>(0, std::min(x.global + x.count, y.global + y.count) - std::max(x.global, y.global)) *
               (tensors[t].elements() / whole);
  }
  return sum;
}

/// Every device of the new plan in turn on every free old one, or on none.
std::int64_t most_kept(const std::vector<Device>& before, const std::vector<Device>& after, const std::vector<model::Tensor>& tensors) {
  std::vector<std::int64_t> best(std::size_t{1} << before.size(), 0);  // by old devices taken
  for (const Device& device : after)
    for (std::size_t taken = best.size(); taken-- > 0;)
      for (std::size_t old = 0; old < before.size(); ++old)
        if ((taken >> old & 1) && before[old].type == device.type && before[old].zone == device.zone)
          best[taken] = std::max(best[taken], best[taken & ~(std::size_t{1} << old)] + common(before[old], device, tensors));
  return best.back();
}

std::int64_t by_trying_all(const plan::Plan& previous, const plan::Plan& next) {
  const auto tensors = model::tensors(next.model);
  const auto before = devices_of(previous, tensors), after = devices_of(next, tensors);
  std::int64_t all = 0;
  for (const Device& device : after) all += common(device, device, tensors);
  EXPECT_EQ(training_state(next).count, all * state);
  return (all - most_kept(before, after, tensors)) * state;
}

plan::Plan random_plan(std::mt19937& random, const model::Config& model, int most_devices) {
  std::vector<int> cuts{0};
  std::vector<std::vector<plan::Replica>> replicas;
  const char* const types[] = {"A", "B"};
  const char* const zones[] = {"", "z"};
  const int stages = 1 + static_cast<int>(random() % 3);
  int sub_pool = most_devices;
  for (int s = 0; s < stages; ++s) {
    cuts.push_back(s + 1 == stages ? model.layers() : cuts.back() + 1 + static_cast<int>(random() % 2));
    auto& copies = replicas.emplace_back();
    const int left = stages - s - 1;
    do {
      const int degree = std::min(1 + static_cast<int>(random() % 3), sub_pool - left);
      copies.push_back(replica(types[random() % 4 == 0], degree, zones[random() % 4 == 0]));
      sub_pool -= degree;
    } while (sub_pool > left && random() % 2);
  }
  return plan_of(model, cuts, replicas);
}

TEST(MovedBytes, LikeTryingEveryAssignment) {
  std::mt19937 random{5};
  auto model = model::built_in("gpt2-mini");  // layers 0 to 5
  model.heads = 4;
  int something = 0, something_kept = 0;
  for (int i = 0; i < 400; ++i) {
    const auto previous = random_plan(random, model, 7), next = random_plan(random, model, 7);
    const auto moved = moved_bytes(previous, next).count;
    ASSERT_EQ(moved, by_trying_all(previous, next)) << plan::summary(previous) << "\n" << plan::summary(next);
    something += moved > 0;
    something_kept += moved < training_state(next).count;
  }
  EXPECT_GT(something, 300);
  EXPECT_GT(something_kept, 300);
}

TEST(MovedBytes, NothingMovesWherePlansAreEqual) {
  std::mt19937 random{6};
  for (int i = 0; i < 200; ++i) {
    auto plan = random_plan(random, tiny(), 12);
    EXPECT_EQ(moved_bytes(plan, plan), Bytes{});
    auto shuffled = plan;
    for (auto& stage : shuffled.stages) std::ranges::shuffle(stage.replicas, random);
    EXPECT_EQ(moved_bytes(plan, shuffled), Bytes{});
  }
}

TEST(MovedBytes, WhatIsKeptOneWayIsKeptTheOther) {
  std::mt19937 random{7};
  for (int i = 0; i < 200; ++i) {
    const auto a = random_plan(random, tiny(), 20), b = random_plan(random, tiny(), 20);
    EXPECT_EQ(training_state(b) - moved_bytes(a, b), training_state(a) - moved_bytes(b, a));
    EXPECT_GE(moved_bytes(a, b), Bytes{});
    EXPECT_LE(moved_bytes(a, b), training_state(b));
  }
}

TEST(MovedBytes, ReplicasThatGoMoveNothing) {
  std::mt19937 random{8};
  for (int i = 0; i < 200; ++i) {
    const auto before = random_plan(random, tiny(), 16);
    auto after = before;
    for (auto& stage : after.stages)
      if (stage.replicas.size() > 1) stage.replicas.erase(stage.replicas.begin() + static_cast<int>(random() % stage.replicas.size()));
    EXPECT_EQ(moved_bytes(before, after), Bytes{});
    EXPECT_EQ(moved_bytes(after, before), training_state(before) - training_state(after));
  }
}

TEST(MovedBytes, OtherTypesAndZonesHoldNothing) {
  const auto whole = [](const char* type, const char* zone) { return plan_of(tiny(), {0, 4}, {{replica(type, 2, zone)}}); };
  EXPECT_EQ(moved_bytes(whole("A", "z"), whole("B", "z")), training_state(whole("B", "z")));
  EXPECT_EQ(moved_bytes(whole("A", "z"), whole("A", "y")), training_state(whole("A", "y")));
  EXPECT_EQ(moved_bytes(whole("A", "z"), whole("A", "z")), Bytes{});
}

TEST(MovedBytes, TheWordTableCountsOnceOnADeviceThatHoldsBothEnds) {
  const auto whole = plan_of(tiny(), {0, 4}, {{replica("A")}});
  const auto split = plan_of(tiny(), {0, 2, 4}, {{replica("A")}, {replica("A")}});
  EXPECT_EQ(training_state(whole).count, state * model::parameter_count(tiny()));
  const std::int64_t words = std::int64_t{tiny().vocabulary} * tiny().hidden;
  EXPECT_EQ(training_state(split).count, state * (model::parameter_count(tiny()) + words));
  // The device that stays keeps one half, the table with it; the other gets its half with the table.
  std::int64_t front = 0, back = 0;
  for (const auto& tensor : model::tensors(tiny()))
    if (tensor.tied_layer < 0) (tensor.layer < 2 ? front : back) += tensor.elements();
  EXPECT_EQ(moved_bytes(whole, split).count, state * (std::min(front, back) + words));
  EXPECT_EQ(moved_bytes(split, whole).count, state * std::min(front, back));
}

TEST(MovedBytes, CopiesInHalfPrecisionAreMadeAnew) {
  auto plan = plan_of(tiny(), {0, 4}, {{replica("A")}});
  plan.precision = Precision::bf16;
  EXPECT_EQ(training_state(plan).count, state * model::parameter_count(tiny()));
}

TEST(MovedBytes, ChunksLieOnOneDevice) {
  auto plan = plan_of(tiny(), {0, 1, 2, 3, 4}, {{replica("A")}, {replica("A")}, {replica("A")}, {replica("A")}});
  plan.schedule = plan::ScheduleKind::interleaved, plan.chunks = 2;
  EXPECT_EQ(moved_bytes(plan, plan_of(tiny(), {0, 4}, {{replica("A")}})).count,
            by_trying_all(plan, plan_of(tiny(), {0, 4}, {{replica("A")}})));
}

TEST(MovedBytes, OneModelOnly) {
  const auto a = plan_of(tiny(), {0, 4}, {{replica("A")}});
  auto b = a;
  b.model = model::built_in("gpt2-mini");
  b.stages[0].last_layer = b.model.layers();
  EXPECT_THROW(moved_bytes(a, b), Error);
}

/// Many devices, all of them moved by one layer.
TEST(MovedBytes, ThousandsOfDevices) {
  const auto model = model::built_in("gpt2");
  const auto plan_with = [&](int shift) {
    std::vector<std::vector<plan::Replica>> replicas(7, std::vector<plan::Replica>(2000, replica("A", 2)));
    return plan_of(model, {0, 2 + shift, 4 + shift, 6 + shift, 8 + shift, 10 + shift, 12 + shift, 14}, replicas);
  };
  const auto one = plan_with(0), two = plan_with(1);
  const auto single = [&](const plan::Plan& from) {
    auto plan = from;
    for (auto& stage : plan.stages) stage.replicas.resize(1);
    return plan;
  };
  EXPECT_EQ(moved_bytes(one, two), 2000 * moved_bytes(single(one), single(two)));
}

/// Equal replicas of all layers that share their optimizer out.
plan::Plan sharing(int replicas, Precision precision = Precision::fp32) {
  auto plan = plan_of(tiny(), {0, 4}, {std::vector<plan::Replica>(static_cast<std::size_t>(replicas), replica("A"))});
  plan.global_batch = replicas;
  plan.precision = precision;
  plan.shard_optimizer = true;
  return plan;
}

TEST(MovedBytes, OfSharesMovesWhatIsNotThere) {
  const std::int64_t all = 4 * model::parameter_count(tiny());  // of one number each
  const auto whole = [](Precision precision) {
    auto plan = sharing(4, precision);
    plan.shard_optimizer = false;
    return plan;
  };
  using enum Precision;
  EXPECT_EQ(training_state(sharing(4)).count, (4 + 2) * all) << "the weights of four shards, and two moments of each share";
  EXPECT_EQ(training_state(sharing(4, bf16)).count, 3 * all + 3 * all / 2) << "three numbers of each share, half of one of the rest";
  for (const auto precision : {fp32, bf16}) {
    EXPECT_EQ(moved_bytes(sharing(4, precision), sharing(4, precision)).count, 0);
    EXPECT_EQ(moved_bytes(whole(precision), sharing(4, precision)).count, 0) << "everybody has everything";
  }
  EXPECT_EQ(moved_bytes(sharing(4), whole(fp32)).count, 3 * 2 * all) << "moments of what is not its share";
  EXPECT_EQ(moved_bytes(sharing(4, bf16), whole(bf16)).count, 3 * 3 * all) << "three numbers of what is not its share";
}

/// Devices on which `next` may stand: those of `previous` that are of its types and zones, each once, or fresh ones. Calls each(the plan).
void for_each_binding(const plan::Plan& previous, plan::Plan next, const std::function<void(const plan::Plan&)>& each) {
  std::vector<const plan::Replica*> old;
  for (const auto& stage : previous.stages)
    for (const auto& r : stage.replicas) old.insert(old.end(), static_cast<std::size_t>(r.tensor_parallel), &r);
  std::vector<plan::Replica*> seats;
  for (auto& stage : next.stages)
    for (auto& r : stage.replicas) {
      seats.insert(seats.end(), static_cast<std::size_t>(r.tensor_parallel), &r);
      r.devices.clear();
    }
  std::vector<char> taken(old.size(), 0);
  const std::function<void(std::size_t)> seat = [&](std::size_t s) {
    if (s == seats.size()) return each(next);
    for (std::size_t rank = 0; rank <= old.size(); ++rank) {
      const bool fresh = rank == old.size();
      if (!fresh && (taken[rank] || old[rank]->device_type != seats[s]->device_type || old[rank]->zone != seats[s]->zone)) continue;
      seats[s]->devices.push_back(Rank{static_cast<int>(fresh ? old.size() + s : rank)});
      if (!fresh) taken[rank] = 1;
      seat(s + 1);
      if (!fresh) taken[rank] = 0;
      seats[s]->devices.pop_back();
    }
  };
  seat(0);
}

/// On ranks in order, the batch dealt to each stage's replicas.
plan::Plan executable(plan::Plan plan) {
  int rank = 0;
  plan.global_batch = 4;
  plan.length = 4;
  for (auto& stage : plan.stages)
    for (std::size_t r = 0; r < stage.replicas.size(); ++r) {
      auto& replica = stage.replicas[r];
      const int all = static_cast<int>(stage.replicas.size()), each = plan.global_batch / all;
      replica.sequences = each + (static_cast<int>(r) < plan.global_batch % all ? 1 : 0);
      for (int i = 0; i < replica.tensor_parallel; ++i) replica.devices.push_back(Rank{rank++});
    }
  plan::require_valid(plan, "test");
  return plan;
}

/// The least that the migration program moves, over all devices on which the new plan may stand.
TEST(MovedBytes, WhatTheMigrationMoves) {
  std::mt19937 random{9};
  auto model = tiny();
  model.blocks = 3;
  int something = 0, less_than_all = 0;
  for (int i = 0; i < 24; ++i) {
    const int most = i % 8 == 0 ? 4 : 3;
    auto previous = executable(random_plan(random, model, most)), next = executable(random_plan(random, model, most));
    previous.shard_optimizer = i % 3 != 0, next.shard_optimizer = i % 3 != 1;
    previous.precision = next.precision = i % 2 ? Precision::fp32 : Precision::bf16;
    std::optional<Bytes> least;
    for_each_binding(previous, next, [&](const plan::Plan& bound) {
      const Bytes moved = program::migrate(previous, bound).moved();
      least = std::min(least.value_or(moved), moved);
    });
    ASSERT_TRUE(least);
    const Bytes moved = moved_bytes(previous, next);
    EXPECT_EQ(moved, *least) << plan::summary(previous) << "\n" << plan::summary(next);
    EXPECT_LE(moved, training_state(next));
    something += moved.count > 0;
    less_than_all += moved < training_state(next);
  }
  EXPECT_GT(something, 12);
  EXPECT_GT(less_than_all, 12);
}

/// Too many devices for a lane each: what they keep in the order of their replicas, in the mean; shares differ by rounding.
TEST(MovedBytes, ManySharesKeepTheirOrder) {
  auto few = sharing(200);
  EXPECT_LT(moved_bytes(few, few).count, training_state(few).count / 1000);
  few.stages[0].replicas.resize(100);
  few.global_batch = 100;
  const Bytes moved = moved_bytes(sharing(200), few), all = training_state(few);
  const Bytes of_shares = 2 * 4 * Bytes{model::parameter_count(tiny())};
  EXPECT_EQ(all - of_shares, 100 * 4 * Bytes{model::parameter_count(tiny())});
  EXPECT_LE(moved, of_shares);
  EXPECT_GT(moved.count, 0);
}

RankedPlan ranked(double value, std::int64_t moved, int devices = 1) {
  RankedPlan plan;
  plan.value = value;
  plan.moved = {moved};
  plan.devices = devices;
  return plan;
}

TEST(ChooseNearBest, TheOneThatMovesLeast) {
  const std::vector<RankedPlan> all{ranked(10, 90), ranked(10.4, 40), ranked(10.5, 30), ranked(11, 20), ranked(12, 0)};
  EXPECT_EQ(choose_near_best(all, 10, 0), 0u);
  EXPECT_EQ(choose_near_best(all, 10, 0.05), 2u);
  EXPECT_EQ(choose_near_best(all, 10, 0.1), 3u);
  EXPECT_EQ(choose_near_best(all, 10, 1), 4u);
  EXPECT_FALSE(choose_near_best(all, 5, 0.1));
  EXPECT_FALSE(choose_near_best({}, 5, 0.1));
}

TEST(ChooseNearBest, TiesGoToTheBetterThenTheSmaller) {
  const std::vector<RankedPlan> all{ranked(10.2, 30, 8), ranked(10.1, 30, 9), ranked(10.1, 30, 7), ranked(10.1, 30, 7)};
  EXPECT_EQ(choose_near_best(all, 10, 0.05), 2u);
}

}  // namespace
}  // namespace flotilla::search::moved_bytes_test
