// Copies of the state for asynchronous saves: as large as forecast, to the byte; and what is saved is what was copied, though steps go on.
#include <gtest/gtest.h>

#include <atomic>

#include "fixture.hpp"
#include "flotilla/checkpoint/background_save.hpp"
#include "flotilla/program/checkpoint_share.hpp"

namespace flotilla::train {
namespace {

std::filesystem::path shared_folder() {
  static const tests::TemporaryFolder folder;
  return mpi::broadcast_string(tests::everybody().control(), folder.path().string(), 0, tests::patience);
}

std::vector<plan::Plan> plans(int ranks) {
  const auto model = model::built_in("gpt2-tiny");
  auto sharded = plan::even_plan(model, 16, 12, Precision::fp32, ranks, 1, 1, 1);
  sharded.shard_optimizer = true;
  auto half = sharded;
  half.precision = Precision::bf16;
  half.model.frozen = {"embedding.*", "block.*.attention.*"};
  return {plan::even_plan(model, 16, 12, Precision::fp32, 1, ranks, 1, 1), plan::even_plan(model, 16, 12, Precision::fp32, ranks, 1, 1, 1),
          sharded, half};
}

checkpoint::Manifest manifest_of(const Trainer& trainer, std::int64_t step) {
  checkpoint::Manifest manifest;
  manifest.step = step;
  manifest.optimizer_steps = trainer.optimizer_steps();
  return manifest;
}

/// All that this rank writes of a state.
std::vector<float> owned_values(const checkpoint::LocalState& state) {
  std::vector<float> all;
  for (const auto& part : state.parts)
    if (part.owner)
      for (auto kind : checkpoint::kinds) all.insert(all.end(), part.values(kind).begin(), part.values(kind).end());
  return all;
}

/// Of all tensors' checksums.
std::uint32_t checksum(const std::filesystem::path& run, std::int64_t step) {
  return checkpoint::read_manifest(checkpoint::step_directory(run, step)).files.front().checksum;
}

TEST(SaveCopy, IsAsForecastAndHoldsTheStateOfItsStepWhileStepsGoOn) {
  const auto& world = tests::everybody();
  const auto folder = shared_folder();
  int number = 0;
  for (const auto& plan : plans(world.size())) {
    const auto run = folder / std::to_string(number++);
    if (world.rank() == Rank{0}) std::filesystem::create_directory(run);
    mpi::barrier(world.control(), tests::patience);
    auto trainer = tests::trainer(world, plan);
    const bool on_gpu = trainer->host_memory().state.count > 0;
    checkpoint::BackgroundSave background{world, trainer->state(),
                                          on_gpu ? checkpoint::StateMemory::stays : checkpoint::StateMemory::changes, tests::patience};
    EXPECT_EQ(background.copy_size(), on_gpu ? Bytes{} : program::checkpoint_share(trainer->program(), world.rank()))
        << plan::summary(plan);
    trainer->step(0);
    checkpoint::save(world, run, trainer->state(), manifest_of(*trainer, 1), {.keep = 0, .deadline = tests::patience});
    // Held until two steps have changed the state.
    std::atomic<bool> stepped{false};
    checkpoint::SaveOptions options{.keep = 0, .deadline = tests::patience};
    options.on_phase = [&](checkpoint::SavePhase phase) {
      if (phase == checkpoint::SavePhase::prepare) stepped.wait(false);
    };
    const auto before = on_gpu ? std::vector<float>{} : owned_values(trainer->state());
    int updates = 0;
    trainer->before_updates([&] {
      background.complete_copy();
      if (on_gpu || updates++ > 0) return;
      EXPECT_EQ(before, owned_values(trainer->state())) << "changed before its update: " << plan::summary(plan);
    });
    background.begin(run, trainer->state(), manifest_of(*trainer, 2), options);
    trainer->step(1);
    trainer->step(2);
    if (!on_gpu && !before.empty()) {
      EXPECT_GT(updates, 0) << plan::summary(plan);
      EXPECT_NE(before, owned_values(trainer->state())) << plan::summary(plan);
    }
    stepped = true;
    stepped.notify_all();
    background.wait();
    checkpoint::save(world, run, trainer->state(), manifest_of(*trainer, 3), {.keep = 0, .deadline = tests::patience});
    EXPECT_EQ(checksum(run, 1), checksum(run, 2)) << plan::summary(plan);
    EXPECT_NE(checksum(run, 2), checksum(run, 3)) << plan::summary(plan);
    mpi::barrier(world.control(), tests::patience);
  }
}

}  // namespace
}  // namespace flotilla::train
