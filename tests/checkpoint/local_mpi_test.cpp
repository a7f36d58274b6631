// Checkpoints on the nodes' own storage: what is drained has the bits that were saved; what is not whole does not count.
#include "flotilla/checkpoint/local.hpp"

#include <sys/resource.h>

#include <csignal>
#include <fstream>

#include "checkpoint/session.hpp"
#include "flotilla/checkpoint/background_save.hpp"
#include "part_file.hpp"

namespace flotilla::checkpoint::local_mpi_test {
namespace {

namespace fs = std::filesystem;

class Local : public Together {
 protected:
  Local() : random_{static_cast<unsigned>(size())}, model_{size() == 3 ? wide_model() : odd_model()}, holding_{plan(), world_.rank()} {
    fs::create_directories(node(world_.rank().value));
  }

  plan::Plan plan() { return random_plan(random_, model_, size()); }
  /// Each rank is on a node of its own.
  fs::path node(int rank) const { return run_ / ("node-" + std::to_string(rank)); }
  LocalPlace place(int incarnation = 1) const { return {node(world_.rank().value), incarnation}; }

  SaveReport save_locally(std::int64_t step, int incarnation = 1) {
    holding_.fill(static_cast<std::uint64_t>(step));
    Manifest manifest;
    manifest.step = step;
    manifest.training = "test";
    return checkpoint::save_locally(world_, place(incarnation), holding_.state(), manifest, {.deadline = test_deadline});
  }
  std::vector<LocalCheckpoint> listed(int first_incarnation = 0) const {
    return list_local(world_, place(), first_incarnation, test_deadline);
  }
  SaveReport drain(const LocalCheckpoint& found, const SaveOptions& options = {.keep = 0, .deadline = test_deadline}) const {
    return checkpoint::drain(world_, place(), found, *holding_.state().tensors, run_, options);
  }
  void expect_drained(std::int64_t step) {
    holding_.clear();
    EXPECT_EQ(load(holding_, step).step, step);
    EXPECT_EQ(holding_.wrong(static_cast<std::uint64_t>(step)), 0);
    barrier();
  }
  /// Parts in this rank's folder.
  std::vector<fs::path> parts() const {
    std::vector<fs::path> found;
    for (const auto& entry : fs::directory_iterator{node(world_.rank().value)}) found.push_back(entry.path());
    std::ranges::sort(found);
    return found;
  }

  std::mt19937 random_;
  const model::Config model_;
  Holding holding_;
};

TEST_F(Local, WhatIsDrainedIsWhatASaveWouldHaveWritten) {
  const auto report = save_locally(4);
  EXPECT_TRUE(list(run_).empty()) << "nothing is in the run directory yet";
  const auto found = listed();
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].readers, saved_locally(world_, place(), 4).readers) << "each its own";
  drain(found[0]);
  expect_drained(4);
  const auto drained = read_manifest(step_directory(run_, 4));
  holding_.fill(4);
  save(holding_, 5);
  const auto saved = read_manifest(step_directory(run_, 5));
  EXPECT_EQ(drained.files.front().checksum, saved.files.front().checksum);
  EXPECT_EQ(drained.tensors, saved.tensors);
  EXPECT_EQ(drained.training, "test");
  EXPECT_GE(
      report.size.count, 12 * [&] {
        std::int64_t sum = 0;
        for (const auto& tensor : *holding_.state().tensors) sum += tensor.elements();
        return sum;
      }());
  EXPECT_EQ(describe(step_directory(run_, 4), true).damaged_segments(), 0);
}

TEST_F(Local, PartsMayLieOnOtherRanksNodes) {
  save_locally(7);
  const auto mine = parts();
  barrier();
  for (const auto& part : mine) fs::rename(part, node((world_.rank().value + 1) % size()) / part.filename());
  barrier();
  const auto found = listed();
  ASSERT_EQ(found.size(), 1u);
  for (int r = 0; r < size(); ++r) EXPECT_EQ(found[0].readers[static_cast<std::size_t>(r)], (r + 1) % size());
  drain(found[0]);
  expect_drained(7);
}

TEST_F(Local, OneRankMayHoldAll) {
  save_locally(7);
  const auto mine = parts();
  barrier();
  for (const auto& part : mine)
    if (!root()) fs::rename(part, node(0) / part.filename());
  barrier();
  const auto found = listed();
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].readers, std::vector<int>(static_cast<std::size_t>(size()), 0));
  drain(found[0]);
  expect_drained(7);
}

TEST_F(Local, WithoutOnePartItIsNotCompleteAndItsHostIsNamed) {
  save_locally(3);
  save_locally(6);
  barrier();
  if (world_.rank().value == size() - 1) fs::remove(parts().back());
  barrier();
  const auto found = listed();
  if (size() == 1) {
    ASSERT_EQ(found.size(), 1u);
    EXPECT_EQ(found[0].step, 3);
    return;
  }
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].step, 6);
  EXPECT_FALSE(found[0].complete());
  EXPECT_EQ(missing_hosts(world_, place(), found[0], test_deadline), world_.host(Rank{size() - 1}));
  ASSERT_TRUE(found[1].complete());
  drain(found[1]);
  expect_drained(3);
}

TEST_F(Local, EveryFlippedByteIsFoundOrHarmless) {
  save_locally(2);
  const auto found = listed();
  ASSERT_EQ(found.size(), 1u);
  barrier();
  const auto victim = world_.rank().value == size() - 1;
  std::string intact;
  const auto part = parts().front();
  if (victim) {
    std::ifstream in{part, std::ios::binary};
    intact.assign(std::istreambuf_iterator<char>{in}, {});
  }
  const auto bytes = mpi::all_gather(world_.control(), static_cast<std::int64_t>(intact.size()), test_deadline).back();
  for (int i = 0; i < 12; ++i) {
    // The same place on all ranks: head, header, padding, and data.
    const auto at = i == 0 ? 3 : i == 1 ? 20 : i == 2 ? 200 : static_cast<std::int64_t>(random_()) % bytes;
    if (victim) {
      auto damaged = intact;
      damaged[static_cast<std::size_t>(at)] = static_cast<char>(damaged[static_cast<std::size_t>(at)] ^ 0x10);
      std::ofstream{part, std::ios::binary} << damaged;
    }
    barrier();
    try {
      drain(found[0]);
      expect_drained(2);  // it was in the padding
    } catch (const comm::AgreedError& error) {
      EXPECT_EQ(error.kind(), ErrorKind::bad_input) << error.what();
      EXPECT_TRUE(steps().empty() || steps() == std::vector<std::int64_t>{2});
      EXPECT_FALSE(fs::exists(step_directory(run_, 2)) && !fs::exists(step_directory(run_, 2) / "manifest.json"));
    }
    barrier();
  }
  if (victim) std::ofstream{part, std::ios::binary} << intact.substr(0, intact.size() - 1);
  barrier();
  expect_names(agreed_refusal(ErrorKind::bad_input, [&] { drain(found[0]); }), "ends at byte");
}

TEST_F(Local, AFullDiskLeavesNoPartAndWhatWasThereStays) {
  save_locally(1);
  rlimit usual{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &usual), 0);
  std::signal(SIGXFSZ, SIG_IGN);
  const auto limit = [&](rlim_t bytes) {
    const rlimit changed{bytes, usual.rlim_max};
    EXPECT_EQ(::setrlimit(RLIMIT_FSIZE, &changed), 0);
  };
  if (world_.rank().value == size() - 1) limit(100);
  agreed_refusal(ErrorKind::temporary, [&] { save_locally(2); });
  limit(usual.rlim_cur);
  barrier();
  EXPECT_EQ(parts().size(), 1u);
  const auto found = listed();
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].step, 1);
  save_locally(2);
  EXPECT_EQ(listed().size(), 2u);
}

TEST_F(Local, EarlierIncarnationsDoNotCount) {
  save_locally(9, 1);
  save_locally(6, 2);
  const auto all = listed(), later = listed(2);
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].step, 6) << "the newest incarnation goes first";
  ASSERT_EQ(later.size(), 1u);
  EXPECT_EQ(later[0].incarnation, 2);
  EXPECT_TRUE(listed(3).empty());
}

TEST_F(Local, OldPartsGo) {
  for (const std::int64_t step : {1, 2, 3}) save_locally(step);
  remove_parts(place(), world_.rank(), 2, 1);
  EXPECT_EQ(listed().size(), 2u);
  std::ofstream{node(world_.rank().value) / "somebody's"} << "file";
  barrier();
  remove_all_parts(place());
  barrier();
  EXPECT_EQ(parts().size(), 1u) << "a file that is no part stays";
}

TEST_F(Local, DrainsBesideAgreementsAndTheNextLocalSave) {
  save_locally(1);
  BackgroundSave drains{world_, LocalState{}, StateMemory::stays, test_deadline};
  const auto first = saved_locally(world_, place(), 1);
  drains.begin({}, [&](const comm::World& world, const LocalState&) {
    return checkpoint::drain(world, place(), first, *holding_.state().tensors, run_, {.keep = 0, .deadline = test_deadline});
  });
  save_locally(2);
  for (int i = 0; i < 20; ++i) comm::require_same(world_, "the number", std::to_string(i), test_deadline);
  drains.wait();
  expect_drained(1);
  drain(saved_locally(world_, place(), 2));
  expect_drained(2);
}

TEST_F(Local, AnotherModelIsRefused) {
  save_locally(1);
  const auto others = model::tensors(grouped_model());
  const auto found = saved_locally(world_, place(), 1);
  expect_names(
      agreed_refusal(ErrorKind::bad_input, [&] { checkpoint::drain(world_, place(), found, others, run_, {.deadline = test_deadline}); }),
      "another step or model");
}

TEST(PartName, IsReadBackAndNothingElseIs) {
  bool unfinished = false;
  const PartName name{120, 3, 2, 4};
  EXPECT_EQ(to_string(name), "step-120.incarnation-3.part-2-of-4");
  EXPECT_EQ(part_name_of(to_string(name), unfinished), name);
  EXPECT_FALSE(unfinished);
  EXPECT_EQ(part_name_of(to_string(name) + ".tmp", unfinished), name);
  EXPECT_TRUE(unfinished);
  for (const std::string other : {"step-120", "step-0120.incarnation-3.part-2-of-4", "step-120.incarnation-3.part-4-of-4",
                                  "step-120.incarnation-3.part-2-of-4.x", "step--1.incarnation-3.part-2-of-4",
                                  "step-1.incarnation-3.part-2-of-99999999", "step-99999999999999999999.incarnation-3.part-2-of-4"})
    EXPECT_FALSE(part_name_of(other, unfinished)) << other;
}

TEST(PartBlocks, AreSmallAndCoverTheState) {
  std::mt19937 random{5};
  const auto plan = random_plan(random, wide_model(), 3);
  for (int rank = 0; rank < 3; ++rank) {
    const Holding holding{plan, Rank{rank}};
    std::int64_t owned = 0, covered = 0;
    for (const auto& part : holding.state().parts) owned += part.owner ? part.elements() : 0;
    for (const auto& [tensor, box] : blocks_of(holding.state())) {
      EXPECT_LE(box.outer * box.inner, largest_block);
      covered += box.outer * box.inner;
    }
    EXPECT_EQ(covered, owned);
  }
}

}  // namespace
}  // namespace flotilla::checkpoint::local_mpi_test
