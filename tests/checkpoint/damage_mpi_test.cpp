// Damaged, truncated and foreign checkpoints: one line on every rank, and an earlier one instead.
#include <sys/stat.h>

#include <fstream>

#include "checkpoint/session.hpp"
#include "directory.hpp"
#include "state_file.hpp"
#include "structure.hpp"

namespace flotilla::checkpoint::damage_mpi_test {
namespace {

namespace fs = std::filesystem;

void flip(const fs::path& path, std::int64_t offset, int mask) {
  std::fstream file{path, std::ios::in | std::ios::out | std::ios::binary};
  file.seekg(offset);
  const char byte = static_cast<char>(file.get() ^ mask);
  file.seekp(offset);
  file.put(byte);
}

class Damage : public Together {
 protected:
  Damage() : saved_{plan(31), world_.rank()}, loaded_{plan(32), world_.rank()} {
    saved_.fill(1);
    save(saved_, 1);
    saved_.fill(2);
    save(saved_, 2);
  }
  plan::Plan plan(unsigned seed) const {
    std::mt19937 random{seed};
    return random_plan(random, odd_model(), size());
  }
  fs::path state() const { return step_directory(run_, 2) / "state.h5"; }
  fs::path manifest() const { return step_directory(run_, 2) / "manifest.json"; }

  template <class Change>
  void damage(Change&& change) const {
    barrier();
    if (root()) change();
    barrier();
  }
  std::string refused() const {
    return agreed_refusal(ErrorKind::bad_input, [&] { load(loaded_, 2); });
  }
  /// Step 2 is refused and step 1 taken.
  void expect_fallback() const {
    const auto found = load_newest_good(world_, run_, loaded_.state(), {test_deadline});
    EXPECT_EQ(found.directory, step_directory(run_, 1));
    EXPECT_EQ(found.manifest.step, 1);
    EXPECT_EQ(loaded_.wrong(1), 0);
  }
  /// Writes step 2's manifest with the checksums of the file's structure as it is now.
  void vouch_for(Manifest changed) const {
    add_structure_checksums(state(), changed.files.at(0));
    std::ofstream{manifest()} << manifest_to_json(changed);
  }
  /// Replaces step 2's file by one of other tensors, with a manifest that vouches for it.
  void replace_state(const std::vector<model::Tensor>& tensors) const {
    const ChecksumIndex index{tensors};
    std::vector<std::uint32_t> checksums(index.size());
    auto changed = read_manifest(step_directory(run_, 2));
    changed.files.at(0) = create_state_file(state(), tensors, index, checksums, 2).facts;
    vouch_for(changed);
  }

  Holding saved_, loaded_;
};

TEST_F(Damage, WholeOnesLoad) {
  EXPECT_EQ(load_newest_good(world_, run_, loaded_.state(), {test_deadline}).manifest.step, 2);
  EXPECT_EQ(loaded_.wrong(2), 0);
}

TEST_F(Damage, AFlippedBitIsFoundAndNamed) {
  for (const char* name : {"parameters/embedding.word", "adamw/moment1/block.2.attention.qkv.weight", "adamw/moment2/head.norm.bias"}) {
    std::int64_t offset = 0;
    damage([&] { flip(state(), offset = store::File::open_for_reading(state()).dataset(name).file_offset().count + 5, 16); });
    const auto message = refused();
    expect_names(message, state().string());
    expect_names(message, name);
    expect_names(message, "segment 0");
    expect_fallback();
    damage([&] { flip(state(), offset, 16); });
  }
  load(loaded_, 2);
  EXPECT_EQ(loaded_.wrong(2), 0);
}

TEST_F(Damage, AFlippedChecksumIsFound) {
  damage(
      [&] { flip(state(), store::File::open_for_reading(state()).dataset("checksums/parameters/embedding.word").file_offset().count, 1); });
  expect_names(refused(), "the HDF5 structure");
  expect_fallback();
}

/// Wherever a bit flips, loading either refuses or what it loads is right.
TEST_F(Damage, NoFlipAnywhereIsTakenForData) {
  std::mt19937 random{33};
  const auto bytes = static_cast<unsigned>(fs::file_size(state()));
  int refusals = 0;
  for (int round = 0; round < 80; ++round) {
    // Half of them in the first kilobytes, where HDF5's own structure is.
    const std::int64_t offset = random() % (round % 2 ? bytes : 4096);
    const int mask = 1 << (random() % 8);
    damage([&] { flip(state(), offset, mask); });
    try {
      load(loaded_, 2);
      EXPECT_EQ(loaded_.wrong(2), 0) << "offset " << offset << " mask " << mask;
    } catch (const comm::AgreedError& error) {
      ++refusals;
      EXPECT_EQ(error.kind(), ErrorKind::bad_input) << error.what();
    }
    damage([&] { flip(state(), offset, mask); });
  }
  EXPECT_GT(refusals, 40);
  load(loaded_, 2);
  EXPECT_EQ(loaded_.wrong(2), 0);
}

TEST_F(Damage, OtherSizesAreRefused) {
  const auto size = fs::file_size(state());
  damage([&] { fs::resize_file(state(), size - 1); });
  expect_names(refused(), "bytes");
  expect_fallback();
  damage([&] { fs::resize_file(state(), 100); });
  refused();
  damage([&] { fs::resize_file(state(), size + 1); });
  expect_names(refused(), state().string());
}

TEST_F(Damage, AMissingStateFileIsDamage) {
  damage([&] { fs::remove(state()); });
  expect_names(refused(), "missing");
  expect_fallback();
}

TEST_F(Damage, WhatIsNoFileIsDamage) {
  const auto put = [&](const char* words, auto&& make) {
    damage([&] {
      fs::remove(state());
      make();
    });
    expect_names(refused(), words);
    expect_fallback();
  };
  put("not a regular file", [&] { fs::create_directory(state()); });
  put("not a regular file", [&] { ASSERT_EQ(::mkfifo(state().c_str(), 0600), 0); });
  put("not a regular file", [&] { fs::create_symlink("/dev/zero", state()); });
  put("leads nowhere", [&] { fs::create_symlink("nowhere", state()); });
}

TEST_F(Damage, SomethingElseIsNotState) {
  damage([&] {
    const auto size = fs::file_size(state());
    std::ofstream{state()} << "hello";
    fs::resize_file(state(), size);
  });
  expect_names(refused(), "HDF5");
  expect_fallback();
}

TEST_F(Damage, MissingAndMisshapenDatasetsAreNamed) {
  auto tensors = *saved_.state().tensors;
  const auto name = tensors[3].name;
  damage([&] {
    auto fewer = tensors;
    fewer.erase(fewer.begin() + 3);
    replace_state(fewer);
  });
  expect_names(refused(), name);
  damage([&] {
    auto other = tensors;
    other[3].shape.back() += 1;
    replace_state(other);
  });
  expect_names(refused(), name);
  expect_fallback();
}

TEST_F(Damage, OtherElementTypesAreNamed) {
  damage([&] {
    const auto& tensors = *saved_.state().tensors;
    auto file = store::File::create(state());
    for (auto kind : kinds)
      for (const auto& tensor : tensors) {
        file.create_dataset(dataset_name(kind, tensor.name), tensor.shape, store::Datatype::uint32);
        file.create_dataset(checksum_name(kind, tensor.name), {1}, store::Datatype::uint32).write_all(std::vector<std::uint32_t>{0});
      }
    file.write_attribute("step", 2);
    file.close();
    auto changed = read_manifest(step_directory(run_, 2));
    const std::vector<std::uint32_t> zeros(3 * tensors.size());
    changed.files.at(0) = {"state.h5", {static_cast<std::int64_t>(fs::file_size(state()))}, checksum_of_table(zeros)};
    vouch_for(changed);
  });
  expect_names(refused(), "float");
}

TEST_F(Damage, ABrokenManifestIsPassedOver) {
  damage([&] { std::ofstream{manifest()} << "{"; });
  expect_names(refused(), manifest().string());
  expect_fallback();
  EXPECT_EQ(latest(run_)->manifest.step, 1);
}

TEST_F(Damage, WithoutManifestItDoesNotExist) {
  damage([&] { fs::remove(manifest()); });
  EXPECT_EQ(steps(), std::vector<std::int64_t>{1});
  expect_fallback();
}

TEST_F(Damage, NothingLeftIsSaid) {
  damage([&] {
    for (int step : {1, 2}) flip(step_directory(run_, step) / "state.h5", 0, 1);
  });
  const auto message = agreed_refusal(ErrorKind::bad_input, [&] { load_newest_good(world_, run_, loaded_.state(), {test_deadline}); });
  expect_names(message, run_.string());
  expect_names(message, "step-2");
  agreed_refusal(ErrorKind::bad_input, [&] { load_newest_good(world_, run_ / "none", loaded_.state(), {test_deadline}); });
}

TEST_F(Damage, AnotherModelIsNoDamage) {
  auto config = odd_model();
  config.feed_forward = 38;
  const Holding other{one_rank_plan(config), world_.rank()};
  const auto message = agreed_refusal(ErrorKind::bad_input, [&] { load_newest_good(world_, run_, other.state(), {test_deadline}); });
  expect_names(message, "step-2");
  expect_names(message, "another model");
}

}  // namespace
}  // namespace flotilla::checkpoint::damage_mpi_test
