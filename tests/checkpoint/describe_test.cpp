// Without MPI: a checkpoint made by hand, described, and read by HDF5's own tool.
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <random>

#include "checkpoint/holding.hpp"
#include "child.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/base/hash.hpp"
#include "flotilla/checkpoint/checkpoint.hpp"
#include "flotilla/files/plan_file.hpp"
#include "linear_crc.hpp"
#include "state_file.hpp"
#include "structure.hpp"
#include "support/child.hpp"
#include "support/refusal.hpp"
#include "support/temporary_folder.hpp"
#include "support/tier.hpp"

namespace flotilla::checkpoint::describe_test {
namespace {

namespace fs = std::filesystem;

/// Written as one process that holds everything.
class Described : public ::testing::Test {
 protected:
  Described() : holding_{one_rank_plan(odd_model()), Rank{0}}, tensors_{*holding_.state().tensors}, index_{tensors_} {
    holding_.fill(5);
    auto checksums = checksums_of(tensors_, index_, owned_remainders(holding_.state(), index_));
    const auto created = create_state_file(path(), tensors_, index_, checksums, 5);
    manifest_.files = {created.facts};
    write_owned(store::PlainFile::open_for_writing(path()), created.offsets, holding_.state());
    manifest_.step = 5;
    manifest_.tensors = fingerprint(tensors_);
    manifest_.plan = files::plan_to_json(one_rank_plan(odd_model()));
    vouch();
  }
  /// Writes the manifest with the checksums of the file's structure as it is now.
  void vouch() {
    manifest_.files.front().size = {static_cast<std::int64_t>(fs::file_size(path()))};
    add_structure_checksums(path(), manifest_.files.front());
    std::ofstream{folder_ / "manifest.json"} << manifest_to_json(manifest_);
  }
  fs::path path() const { return folder_ / "state.h5"; }

  tests::TemporaryFolder folder_;
  Holding holding_;
  const std::vector<model::Tensor>& tensors_;
  ChecksumIndex index_;
  Manifest manifest_;
};

TEST_F(Described, TellsTensorsAndThatTheyAreWhole) {
  const auto description = describe(folder_.path(), true);
  EXPECT_EQ(description.manifest.step, 5);
  EXPECT_EQ(description.tensors.size(), 3 * tensors_.size());
  EXPECT_EQ(description.damaged_segments(), 0);
  for (const auto& tensor : tensors_) {
    const auto found =
        std::ranges::find_if(description.tensors, [&](const auto& t) { return t.kind == StateKind::moment2 && t.name == tensor.name; });
    ASSERT_NE(found, description.tensors.end()) << tensor.name;
    EXPECT_EQ(found->shape, tensor.shape);
    EXPECT_EQ(found->size.count, tensor.elements() * 4);
  }
}

TEST_F(Described, FindsTheDamagedSegment) {
  const auto offset = store::File::open_for_reading(path()).dataset("adamw/moment1/block.1.feed_forward.up.weight").file_offset();
  std::fstream file{path(), std::ios::in | std::ios::out | std::ios::binary};
  file.seekg(offset.count + 13);
  const char byte = static_cast<char>(file.get() ^ 4);
  file.seekp(offset.count + 13);
  file.put(byte);
  file.close();
  EXPECT_EQ(describe(folder_.path(), false).damaged_segments(), 0);
  const auto description = describe(folder_.path(), true);
  EXPECT_EQ(description.damaged_segments(), 1);
  for (const auto& tensor : description.tensors)
    if (!tensor.damaged.empty()) {
      EXPECT_EQ(tensor.name, "block.1.feed_forward.up.weight");
      EXPECT_EQ(tensor.kind, StateKind::moment1);
    }
}

/// Whatever happens to the file, looking at it ends with a verdict: nothing that is damaged passes, and HDF5 never sees it.
TEST_F(Described, NoDamagedByteIsTakenForSound) {
  const auto whole = tests::content(path());
  std::mt19937 random{77};
  for (int round = 0; round < tests::of_tier(500, 3000); ++round) {
    auto damaged = whole;
    for (auto changes = 1 + random() % 8; changes > 0; --changes) {
      const auto at = random() % (round % 2 ? damaged.size() : std::min<std::size_t>(damaged.size(), 8192));
      damaged[at] = static_cast<char>(random());
    }
    if (damaged == whole) continue;
    std::ofstream{path(), std::ios::binary} << damaged;
    bool found = false;
    try {
      found = describe(folder_.path(), true).damaged_segments() > 0;
    } catch (const Error& error) {
      found = error.kind() == ErrorKind::bad_input;
    }
    ASSERT_TRUE(found) << "round " << round;
  }
}

/// Without a manifest HDF5 reads what there is, and it crashes: in a child process, of which one line is left.
TEST_F(Described, ABareFileIsReadByAChild) {
  const auto whole = tests::content(path());
  const auto tensors = describe_bare(path(), true);
  EXPECT_EQ(tensors.size(), 3 * tensors_.size());
  EXPECT_TRUE(std::ranges::all_of(tensors, [](const auto& tensor) { return tensor.damaged.empty(); }));
  std::mt19937 random{78};
  int refused = 0, crashed = 0;
  for (int round = 0; round < 400; ++round) {
    auto damaged = whole;
    for (auto changes = 1 + random() % 2; changes > 0; --changes) damaged[random() % 8192 % damaged.size()] = static_cast<char>(random());
    std::ofstream{path(), std::ios::binary} << damaged;
    try {
      describe_bare(path(), true);
    } catch (const Error& error) {
      const std::string message = error.what();
      EXPECT_EQ(error.kind(), ErrorKind::bad_input) << message;
      EXPECT_EQ(message.find('\n'), std::string::npos) << message;
      ++refused;
      crashed += message.find("HDF5 ended while it read the file") != std::string::npos;
    }
  }
  std::printf("%d of 400 refused, %d of them after HDF5 had crashed\n", refused, crashed);
  EXPECT_GT(refused, 50);
}

TEST(Child, ItsDeathIsOneLine) {
  EXPECT_EQ(in_child("x.h5", [] { return std::string(1 << 20, 'y'); }).size(), 1u << 20);
  for (const int signal : {SIGSEGV, SIGABRT, SIGFPE, SIGKILL}) {
    const auto died = [&]() -> std::string {
      std::signal(signal, SIG_DFL);  // sanitizers catch some
      ::raise(signal);
      return {};
    };
    tests::expect_refused([&] { in_child("x.h5", died); }, "x.h5: damaged: HDF5 ended while it read the file (signal ", text(signal));
  }
  tests::expect_refused([&] { in_child("x.h5", []() -> std::string { throw Error{ErrorKind::bad_input, "not HDF5"}; }); }, "not HDF5");
}

TEST_F(Described, SwappedTensorsAreFound) {
  std::size_t first = 0, second = 0;
  for (std::size_t a = 0; a < tensors_.size(); ++a)
    for (std::size_t b = a + 1; b < tensors_.size(); ++b)
      if (tensors_[a].shape == tensors_[b].shape) first = a, second = b;
  ASSERT_NE(first, second) << "two tensors of one shape";
  auto swapped = checksums_of(tensors_, index_, owned_remainders(holding_.state(), index_));
  std::ranges::swap_ranges(index_.part(swapped, StateKind::parameters, first), index_.part(swapped, StateKind::parameters, second));
  const auto vouched = manifest_.files.front().checksum;
  manifest_.files = {create_state_file(path(), tensors_, index_, swapped, 5).facts};
  manifest_.files.front().checksum = vouched;
  vouch();
  EXPECT_THROW(describe(folder_.path(), false), Error);
}

TEST_F(Described, AMissingTensorIsFound) {
  auto fewer = tensors_;
  fewer.erase(fewer.begin() + 2);
  const ChecksumIndex index{fewer};
  std::vector<std::uint32_t> checksums(index.size());
  manifest_.files = {create_state_file(path(), fewer, index, checksums, 5).facts};
  vouch();
  EXPECT_THROW(describe(folder_.path(), false), Error);
}

TEST_F(Described, TheFileIsLittleMoreThanItsTensors) {
  std::int64_t content = 0;
  for (const auto& tensor : tensors_) content += 3 * tensor.elements() * 4;
  EXPECT_LE(manifest_.files.front().size.count, content + 3 * std::ssize(tensors_) * 1200 + 20000);
}

TEST_F(Described, H5dumpReadsIt) {
  const std::string tool = FLOTILLA_H5DUMP;
  if (tool.empty()) GTEST_SKIP() << "h5dump is not installed";
  const auto dump = tests::run_line(tool + " -H " + path().string());
  EXPECT_EQ(dump.exit_code, 0) << dump.output;
  for (const char* word :
       {"\"parameters\"", "\"moment1\"", "\"moment2\"", "\"embedding.word\"", "H5T_IEEE_F32LE", "( 61, 12 )", "\"checksums\""})
    EXPECT_TRUE(dump.says(word)) << word << "\n" << dump.output;
}

TEST_F(Described, MissingManifestMeansNoCheckpoint) {
  fs::remove(folder_ / "manifest.json");
  EXPECT_THROW(describe(folder_.path(), false), Error);
}

}  // namespace
}  // namespace flotilla::checkpoint::describe_test
