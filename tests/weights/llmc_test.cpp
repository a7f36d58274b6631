// Model files of llm.c -> a Hugging Face folder: which element stands where, and what is refused.
#include "flotilla/weights/llmc.hpp"

#include <gtest/gtest.h>

#include "flotilla/files/hugging_face.hpp"
#include "flotilla/weights/pretrained.hpp"
#include "support/refusal.hpp"
#include "support/temporary_folder.hpp"
#include "weights/llmc_file.hpp"

namespace flotilla::weights {
namespace {

namespace fs = std::filesystem;

class LlmcFile : public ::testing::Test {
 protected:
  fs::path file(int version, const tests::LlmcExtents& e = {}) const {
    return tests::write_llmc(folder_ / "tiny.bin", tests::llmc_bytes(e, version));
  }
  /// A file with another number at a byte of its header.
  fs::path with(int byte, std::int32_t number) const {
    auto bytes = tests::llmc_bytes({}, 3);
    std::memcpy(bytes.data() + byte, &number, sizeof number);
    return tests::write_llmc(folder_ / "lies.bin", bytes);
  }
  tests::TemporaryFolder folder_;
};

/// What stands `at` elements behind the header.
float element(const fs::path& file, std::int64_t at, int version) {
  const auto size = version == 3 ? 4 : 2;
  std::ifstream in{file, std::ios::binary};
  in.seekg(1024 + at * size);
  std::uint32_t bits = 0;
  in.read(reinterpret_cast<char*>(&bits) + (4 - size), size);
  return std::bit_cast<float>(bits);
}

TEST_F(LlmcFile, BecomesAModelWithEveryElementInItsPlace) {
  const tests::LlmcExtents e;
  for (const int version : {3, 5}) {
    const auto path = file(version);
    const auto model = folder_ / ("model-" + std::to_string(version));
    const auto report = import_llmc(path, model);
    EXPECT_EQ(report.files, 1);
    auto config = files::read_hugging_face_config(model / "config.json");
    EXPECT_EQ(config.family, "gpt2");
    EXPECT_EQ(config.blocks, e.blocks);
    EXPECT_EQ(config.vocabulary, e.vocabulary);
    EXPECT_EQ(config.positions, e.positions);
    EXPECT_EQ(config.dropout, 0);
    Pretrained weights{model, config};
    EXPECT_EQ(weights.precisions(), version == 3 ? "fp32" : "bf16");
    // Each tensor begins where llm.c's documentation puts it: all blocks' of one kind together.
    const std::int64_t c = e.channels, l = e.blocks;
    std::map<std::string, std::int64_t> first{{"embedding.word", 0}, {"embedding.position", e.padded * c}};
    std::int64_t at = (e.padded + e.positions) * c;
    const std::pair<const char*, std::int64_t> kinds[]{{"norm1.weight", c},
                                                       {"norm1.bias", c},
                                                       {"attention.qkv.weight", 3 * c * c},
                                                       {"attention.qkv.bias", 3 * c},
                                                       {"attention.out.weight", c * c},
                                                       {"attention.out.bias", c},
                                                       {"norm2.weight", c},
                                                       {"norm2.bias", c},
                                                       {"feed_forward.up.weight", 4 * c * c},
                                                       {"feed_forward.up.bias", 4 * c},
                                                       {"feed_forward.down.weight", 4 * c * c},
                                                       {"feed_forward.down.bias", c}};
    for (const auto& [kind, size] : kinds)
      for (std::int64_t block = 0; block < l; ++block, at += size) first["block." + std::to_string(block) + "." + kind] = at;
    first["head.norm.weight"] = at;
    first["head.norm.bias"] = at + c;
    const auto tensors = model::tensors(config);
    ASSERT_EQ(first.size(), tensors.size());
    for (std::size_t t = 0; t < tensors.size(); ++t) {
      std::vector<float> values(static_cast<std::size_t>(tensors[t].elements()));
      weights.read(static_cast<int>(t), {{.inner = tensors[t].elements()}}, values);
      for (std::size_t i = 0; i < values.size(); ++i)
        ASSERT_EQ(values[i], element(path, first.at(tensors[t].name) + static_cast<std::int64_t>(i), version))
            << tensors[t].name << " " << i;
    }
  }
}

TEST_F(LlmcFile, HeadersThatLieAreRefused) {
  const auto refused = [&](const fs::path& path, const char* what) {
    tests::expect_refused([&] { import_llmc(path, folder_ / "model"); }, path.string(), what);
    EXPECT_FALSE(fs::exists(folder_ / "model"));
    EXPECT_EQ(std::distance(fs::directory_iterator{folder_}, {}), 1) << "something was left";
    fs::remove(path);
  };
  refused(tests::write_llmc(folder_ / "short.bin", "abc"), "is no model file of llm.c");
  refused(with(0, 20240520), "is no model file of llm.c");
  refused(with(4, 1), "the version is 1; expected 3 (fp32) or 5 (bf16)");
  refused(with(8, 0), "the longest sequence is 0");
  refused(with(12, -1), "the vocabulary is -1");
  refused(with(16, 1 << 30), "the number of layers is 1073741824; expected 1 to 4096");
  refused(with(20, 3), "it must be a multiple of heads");
  refused(with(24, 1 << 20), "bytes; the model of its header has ");
  refused(with(28, 64), "the padded vocabulary is 64; expected 100 to ");
  refused(with(16, 2), "bytes; the model of its header has ");
  refused(tests::write_llmc(folder_ / "cut.bin", tests::llmc_bytes({}, 3).substr(0, 5000)), "holds 5000 bytes");
}

TEST_F(LlmcFile, NamesTheTensorThatIsNotFinite) {
  for (const int version : {3, 5}) {
    auto bytes = tests::llmc_bytes({}, version);
    bytes[bytes.size() - 1] = bytes[bytes.size() - 2] = static_cast<char>(0xff);  // the end of the last element
    const auto path = tests::write_llmc(folder_ / "nan.bin", bytes);
    tests::expect_refused([&] { import_llmc(path, folder_ / "model"); }, path.string(), "tensor head.norm.bias: 1 of ", "not finite");
    EXPECT_FALSE(fs::exists(folder_ / "model"));
  }
}

TEST_F(LlmcFile, OverwritesNothing) {
  const auto path = file(3);
  fs::create_directory(folder_ / "there");
  tests::expect_refused([&] { import_llmc(path, folder_ / "there"); }, (folder_ / "there").string(), "exists");
}

}  // namespace
}  // namespace flotilla::weights
