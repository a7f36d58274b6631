// Without MPI: a checkpoint made by hand, described, and read by HDF5's own tool.
#include <gtest/gtest.h>
#include <stdio.h>

#include <array>
#include <fstream>

#include "checkpoint/holding.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/base/hash.hpp"
#include "flotilla/checkpoint/checkpoint.hpp"
#include "linear_crc.hpp"
#include "state_file.hpp"
#include "support/temporary_folder.hpp"

namespace flotilla::checkpoint {
namespace {

namespace fs = std::filesystem;

/// Written as one process that holds everything.
class Described : public ::testing::Test {
 protected:
  Described() : holding_{one_rank_plan(odd_model()), Rank{0}}, tensors_{*holding_.state().tensors}, index_{tensors_} {
    holding_.fill(5);
    auto checksums = checksums_of(tensors_, index_, owned_remainders(holding_.state(), index_));
    size_ = create_state_file(path(), tensors_, index_, checksums, 5);
    auto file = store::File::open_for_writing(path());
    write_owned(open_tensors(file, tensors_), holding_.state());
    file.close();
    Manifest manifest;
    manifest.step = 5;
    manifest.tensors = fingerprint(tensors_);
    manifest.files = {{"state.h5", size_, checksum_of_table(checksums)}};
    std::ofstream{folder_ / "manifest.json"} << manifest_to_json(manifest);
  }
  fs::path path() const { return folder_ / "state.h5"; }

  tests::TemporaryFolder folder_;
  Holding holding_;
  const std::vector<model::Tensor>& tensors_;
  ChecksumIndex index_;
  Bytes size_;
};

TEST_F(Described, TellsTensorsAndThatTheyAreWhole) {
  const auto description = describe(folder_.path(), true);
  EXPECT_EQ(description.manifest.step, 5);
  EXPECT_EQ(description.tensors.size(), 3 * tensors_.size());
  EXPECT_EQ(description.damaged_segments(), 0);
  for (const auto& tensor : tensors_) {
    const auto found =
        std::ranges::find_if(description.tensors, [&](const auto& t) { return t.kind == Kind::moment2 && t.name == tensor.name; });
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
      EXPECT_EQ(tensor.kind, Kind::moment1);
    }
}

TEST_F(Described, PredictedSizeIsEnoughAndNotMuchMore) {
  const Bytes predicted = predicted_size(tensors_);
  EXPECT_LE(size_, predicted);
  std::int64_t content = 0;
  for (const auto& tensor : tensors_) content += 3 * tensor.elements() * 4;
  EXPECT_GE(size_.count, content);
  EXPECT_LE(predicted.count, content + 3 * std::ssize(tensors_) * 1200 + 20000);
}

TEST(PredictedSize, IsEnoughForManyTensors) {
  const tests::TemporaryFolder folder;
  for (int blocks : {1, 60}) {
    auto config = odd_model();
    config.blocks = blocks;
    const auto tensors = model::tensors(config);
    const ChecksumIndex index{tensors};
    std::vector<std::uint32_t> checksums(index.size());
    EXPECT_LE(create_state_file(folder / "state.h5", tensors, index, checksums, 1), predicted_size(tensors)) << blocks;
  }
}

TEST_F(Described, H5dumpReadsIt) {
  const std::string tool = FLOTILLA_H5DUMP;
  if (tool.empty()) GTEST_SKIP() << "h5dump is not installed";
  FILE* pipe = ::popen((tool + " -H " + path().string() + " 2>&1").c_str(), "r");
  ASSERT_NE(pipe, nullptr);
  std::string output;
  std::array<char, 4096> part{};
  while (const auto count = ::fread(part.data(), 1, part.size(), pipe)) output.append(part.data(), count);
  EXPECT_EQ(::pclose(pipe), 0) << output;
  for (const char* word :
       {"\"parameters\"", "\"moment1\"", "\"moment2\"", "\"embedding.word\"", "H5T_IEEE_F32LE", "( 61, 12 )", "\"checksums\""})
    EXPECT_NE(output.find(word), std::string::npos) << word << "\n" << output;
}

TEST_F(Described, MissingManifestMeansNoCheckpoint) {
  fs::remove(folder_ / "manifest.json");
  EXPECT_THROW(describe(folder_.path(), false), Error);
}

}  // namespace
}  // namespace flotilla::checkpoint
