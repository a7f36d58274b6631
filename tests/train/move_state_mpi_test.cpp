// A change of plan in place and a restart from a checkpoint under the new plan are the same to the last bit: the state, and every loss
// after it.
#include "flotilla/train/move_state.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <span>

#include "flotilla/checkpoint/checkpoint.hpp"
#include "flotilla/comm/agree.hpp"
#include "train/fixture.hpp"

namespace flotilla::train {
namespace {

/// Nodes of two ranks.
const program::RankLocations& places() {
  static const program::RankLocations all{{0, 0, 1, 1}, {0, 0, 0, 0}};
  return all;
}

/// A plan at work on some ranks of the world; nothing on the others.
struct Post {
  explicit Post(plan::Plan bound) : plan{std::move(bound)} {
    std::vector<int> crew_ranks;
    for (const auto& stage : plan.stages)
      for (const auto& replica : stage.replicas)
        for (const Rank rank : replica.devices) crew_ranks.push_back(rank.value);
    std::sort(crew_ranks.begin(), crew_ranks.end());
    crew_ranks.erase(std::unique(crew_ranks.begin(), crew_ranks.end()), crew_ranks.end());  // stages of one device
    const auto place = std::find(crew_ranks.begin(), crew_ranks.end(), tests::everybody().rank().value);
    if (place == crew_ranks.end()) return;
    auto numbered = plan;
    for (auto& stage : numbered.stages)
      for (auto& replica : stage.replicas)
        for (Rank& rank : replica.devices)
          rank = Rank{static_cast<int>(std::lower_bound(crew_ranks.begin(), crew_ranks.end(), rank.value) - crew_ranks.begin())};
    crew.emplace(tests::session().world().subset(crew_ranks), tests::patience);
    std::vector<Rank> ranks;
    for (const int rank : crew_ranks) ranks.emplace_back(rank);
    trainer = tests::trainer(*crew, numbered, {}, program::placement_of(places(), ranks));
  }
  checkpoint::LocalState state() { return trainer ? trainer->state() : checkpoint::LocalState{}; }
  double step(int number) { return trainer ? trainer->step(number).loss : 0; }

  plan::Plan plan;
  std::optional<comm::World> crew;
  std::unique_ptr<Trainer> trainer;
};

plan::Plan even(Precision precision, int data, int pipeline, int tensor, int first_rank = 0, std::vector<int> cuts = {}) {
  auto model = model::built_in("opt-post-tiny");
  model.dropout = 0.1;
  auto plan = plan::even_plan(model, tests::short_on_gpus(16), 6, precision, data, pipeline, tensor, 1, plan::ScheduleKind::one_f_one_b,
                              std::move(cuts));
  for (auto& stage : plan.stages)
    for (auto& replica : stage.replicas)
      for (Rank& rank : replica.devices) rank = Rank{rank.value + first_rank};
  return plan;
}

/// The same devices with two stages each, of one layer.
plan::Plan interleaved(plan::Plan plan) {
  plan.schedule = plan::ScheduleKind::interleaved;
  plan.chunks = 2;
  for (int s = 0; s < 2; ++s) plan.stages.push_back(plan.stages[static_cast<std::size_t>(s)]);
  for (int s = 0; s < 4; ++s) {
    plan.stages[static_cast<std::size_t>(s)].first_layer = s;
    plan.stages[static_cast<std::size_t>(s)].last_layer = s + 1;
  }
  return plan;
}

plan::Plan shared_out(plan::Plan plan) {
  plan.shard_optimizer = true;
  return plan;
}

/// Two replicas of unlike degrees, on three ranks.
plan::Plan unlike(Precision precision) {
  auto plan = even(precision, 1, 1, 1);
  plan.quantum = 1;
  plan.stages.front().replicas = {{"", "", 2, {Rank{0}, Rank{1}}, 1, 4}, {"", "", 1, {Rank{2}}, 1, 2}};
  return plan;
}

std::filesystem::path shared_folder() {
  const auto name = std::filesystem::temp_directory_path() / ("flotilla-move-test-" + std::to_string(getpid()));
  return mpi::broadcast_string(tests::everybody().control(), name.string(), 0, tests::patience);
}

template <class T>
bool same_bits(std::span<T> a, std::span<T> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

/// Where a rank keeps but a share in fp32, what stands beside it in fp32 is there to make bf16 weights of, and goes when they are made.
bool same_bits(const checkpoint::LocalState& a, const checkpoint::LocalState& b) {
  if (a.parts.size() != b.parts.size()) return false;
  for (std::size_t i = 0; i < a.parts.size(); ++i) {
    const auto &x = a.parts[i], &y = b.parts[i];
    if (!same_bits(x.weights, y.weights)) return false;
    const bool passing = !x.weights.empty() && x.moment1.empty();
    for (const auto kind : std::span{checkpoint::kinds}.subspan(passing ? 1 : 0))
      if (!same_bits(x.values(kind), y.values(kind))) return false;
  }
  return true;
}

std::int64_t broadcast(std::int64_t value, Rank from) {
  return std::stoll(mpi::broadcast_string(tests::everybody().control(), std::to_string(value), from.value, tests::patience));
}

Rank first_of(const plan::Plan& plan) { return plan.stages.front().replicas.front().devices.front(); }

void expect_same_as_restart(const plan::Plan& first, const plan::Plan& second) {
  const auto& world = tests::everybody();
  const std::string what = to_string(first.precision) + ": " + plan::summary(first) + " -> " + plan::summary(second);
  const auto run = shared_folder();
  mpi::barrier(world.control(), tests::patience);  // a rank without work under the last plan must not save over what others still load
  Post old{first};
  old.step(0);
  old.step(1);
  if (old.trainer) {
    checkpoint::Manifest manifest;
    manifest.step = 2;
    manifest.optimizer_steps = old.trainer->optimizer_steps();
    manifest.loss_scale = old.trainer->loss_scale();
    checkpoint::save(*old.crew, run, old.trainer->state(), manifest, {1, tests::patience});
  }
  Post moved{second}, restarted{second};
  const auto migration = program::migrate(first, second, places());
  const auto report = comm::agree_on(
      world, "moving", [&] { return move_state(world, migration, old.state(), moved.state(), tests::patience); }, tests::patience);
  const auto updates = broadcast(old.trainer ? old.trainer->optimizer_steps() : 0, first_of(first));
  const auto scale = old.trainer ? old.trainer->loss_scale() : std::nullopt;
  const auto scale_value = broadcast(scale ? scale->value : 0, first_of(first)),
             good_steps = broadcast(scale ? scale->good_steps : 0, first_of(first));
  std::int64_t received = 0;
  for (const auto bytes : mpi::all_gather(world.control(), report.received.count, tests::patience)) received += bytes;
  EXPECT_EQ(received, migration.moved().count) << what;
  old.trainer.reset();
  if (!moved.trainer) return;
  moved.trainer->adopt(updates, LossScale{scale_value, good_steps});
  const auto loaded = checkpoint::load_newest_good(*restarted.crew, run, restarted.trainer->state(), {tests::patience});
  restarted.trainer->adopt(loaded.manifest.optimizer_steps, loaded.manifest.loss_scale);
  EXPECT_TRUE(same_bits(moved.state(), restarted.state())) << what;
  for (int step = 2; step < 4; ++step) {
    const double ours = moved.step(step), theirs = restarted.step(step);
    EXPECT_EQ(std::memcmp(&ours, &theirs, sizeof ours), 0) << what << " step " << step << ": " << ours << " and " << theirs;
  }
  EXPECT_TRUE(same_bits(moved.state(), restarted.state())) << what << ", after two more steps";
}

class MoveState : public testing::Test {
 protected:
  void SetUp() override {
    const auto folder = shared_folder();
    if (tests::everybody().rank() == Rank{0}) std::filesystem::create_directories(folder);
    mpi::barrier(tests::everybody().control(), tests::patience);
  }
  void TearDown() override {
    const auto folder = shared_folder();
    mpi::barrier(tests::everybody().control(), tests::patience);
    if (tests::everybody().rank() == Rank{0}) std::filesystem::remove_all(folder);
  }
};

TEST_F(MoveState, EqualsARestartUnderTheNewPlan) {
  using enum Precision;
  switch (tests::everybody().size()) {
    case 2:
      expect_same_as_restart(even(fp32, 1, 1, 1), even(fp32, 1, 2, 1));     // a rank starts working
      expect_same_as_restart(even(bf16, 2, 1, 1), even(bf16, 1, 1, 1, 1));  // one becomes idle, and it is the first
      expect_same_as_restart(even(fp32, 1, 1, 1), even(fp32, 1, 1, 1, 1));  // all of it from one rank to another
      expect_same_as_restart(even(bf16, 1, 1, 2), even(bf16, 2, 1, 1));     // other degrees
      expect_same_as_restart(interleaved(even(fp32, 1, 2, 1)), even(fp32, 1, 2, 1));
      expect_same_as_restart(even(bf16, 1, 1, 2), interleaved(even(bf16, 1, 2, 1)));
      expect_same_as_restart(even(fp16, 1, 1, 2), even(fp16, 2, 1, 1));
      break;
    case 3:
      expect_same_as_restart(shared_out(even(fp32, 3, 1, 1)), even(fp32, 1, 1, 1, 1));  // shares come together
      expect_same_as_restart(unlike(bf16), shared_out(unlike(bf16)));                   // and are dealt out, where shards do not line up
      expect_same_as_restart(shared_out(unlike(fp32)), shared_out(even(fp32, 2, 1, 1, 1)));
      expect_same_as_restart(shared_out(even(bf16, 3, 1, 1)), shared_out(unlike(bf16)));
      expect_same_as_restart(shared_out(even(fp16, 3, 1, 1)), shared_out(unlike(fp16)));  // with weights that move as fp16
      expect_same_as_restart(shared_out(unlike(fp32)), shared_out(unlike(fp32)));         // nothing moves
      expect_same_as_restart(even(fp32, 1, 3, 1), even(fp32, 1, 3, 1, 0, {0, 1, 2, 4}));  // other cuts
      expect_same_as_restart(even(bf16, 3, 1, 1), even(bf16, 1, 2, 1, 1));                // fewer replicas, fewer ranks
      expect_same_as_restart(even(fp32, 1, 1, 2), even(fp32, 1, 1, 2, 1));                // shards that do not line up
      break;
    default:
      expect_same_as_restart(shared_out(even(bf16, 4, 1, 1)), shared_out(even(bf16, 2, 2, 1)));  // with the tied table over two stages
      expect_same_as_restart(even(fp32, 2, 1, 2), shared_out(even(fp32, 4, 1, 1)));
      expect_same_as_restart(shared_out(even(bf16, 2, 1, 2)), even(bf16, 1, 4, 1));
      expect_same_as_restart(even(fp32, 2, 2, 1), even(fp32, 1, 2, 2));
      expect_same_as_restart(even(bf16, 1, 2, 2), even(bf16, 1, 4, 1));
      expect_same_as_restart(interleaved(even(fp32, 2, 2, 1)), interleaved(even(fp32, 1, 2, 2)));
      expect_same_as_restart(even(fp32, 1, 1, 4), even(fp32, 1, 3, 1, 1));
  }
}

}  // namespace
}  // namespace flotilla::train
