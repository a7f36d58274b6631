// Checkpoints that lie, disks that are full, losses that are no number: one clear line, and the last good state stays.
#include <sys/mount.h>

#include <cerrno>
#include <cstring>

#include "flotilla/journal/outcome.hpp"
#include "flotilla/safetensors/file.hpp"
#include "run/training.hpp"

namespace flotilla::tests {
namespace {

constexpr int ranks = 2;

Words steps(int count, int save_every) { return {text("--training.steps=", count), text("--checkpoint.every=", save_every)}; }

int count_of(const std::string& part, const std::string& all) {
  int count = 0;
  for (auto at = all.find(part); at != std::string::npos; at = all.find(part, at + 1)) ++count;
  return count;
}

/// Flips one bit in each of `count` bytes of the file's middle, where tensors are.
void flip(const fs::path& file, int count = 64) {
  std::fstream io{file, std::ios::in | std::ios::out | std::ios::binary};
  const auto size = static_cast<std::streamoff>(fs::file_size(file));
  for (int i = 0; i < count; ++i) {
    const auto at = size / 4 + i * (size / 2 / count);
    io.seekg(at);
    const auto byte = static_cast<char>(io.get());
    io.seekp(at);
    io.put(static_cast<char>(byte ^ 0x10));
  }
}

class Damage : public testing::Test {
 protected:
  Ended train_to(int count, int save_every = 0, const Words& more = {}) { return run(train(run_, ranks, steps(count, save_every) + more)); }
  const fs::path run_ = folder() / testing::UnitTest::GetInstance()->current_test_info()->name();
};

TEST_F(Damage, AFlippedCheckpointIsPassedOverForTheOneBefore) {
  ASSERT_EQ(train_to(6, 3).code, 0);
  ASSERT_EQ(committed(run_), (std::vector<std::int64_t>{3, 6}));
  flip(run_ / "step-6" / "state.h5");
  const auto ended = train_to(8);
  ASSERT_EQ(ended.code, 0) << ended.err;
  EXPECT_NE(ended.out.find("resumed after step 3"), std::string::npos) << ended.out;
  EXPECT_EQ(count_of("; trying an earlier checkpoint", ended.err), 1) << ended.err;
  EXPECT_NE(ended.err.find((run_ / "step-6").string()), std::string::npos) << ended.err;
  EXPECT_EQ(losses(run_).size(), 8u);
  EXPECT_EQ(debris(run_), Words{});
}

TEST_F(Damage, ATruncatedCheckpointIsPassedOverToo) {
  ASSERT_EQ(train_to(6, 3).code, 0);
  fs::resize_file(run_ / "step-6" / "state.h5", fs::file_size(run_ / "step-6" / "state.h5") / 2);
  const auto ended = train_to(8);
  ASSERT_EQ(ended.code, 0) << ended.err;
  EXPECT_NE(ended.out.find("resumed after step 3"), std::string::npos) << ended.out;
}

TEST_F(Damage, WhenNoneIsSoundTheTensorIsNamed) {
  ASSERT_EQ(train_to(3).code, 0);
  ASSERT_EQ(committed(run_), std::vector<std::int64_t>{3});
  flip(run_ / "step-3" / "state.h5");
  const auto before = content(run_ / "step-3" / "state.h5");
  const auto ended = train_to(5);
  EXPECT_EQ(ended.code, 65) << ended.err;
  const auto line = the_error(ended);
  const auto file = (run_ / "step-3" / "state.h5").string();
  const auto names = [&](const char* what) { return line.find(file + ": " + what) != std::string::npos; };
  EXPECT_TRUE(names("parameters/") || names("adamw/") || names("the HDF5 structure")) << line;
  EXPECT_EQ(content(run_ / "step-3" / "state.h5"), before);
  EXPECT_EQ(debris_beside_outcomes(run_), Words{});
}

TEST_F(Damage, ALossThatIsNoNumberEndsTheRunAndTheLastCheckpointLoads) {
  const Words explode{"--training.learning-rate=1e30", "--training.minimum-learning-rate=0", "--training.weight-decay=0"};
  const auto ended = train_to(20, 1, explode);
  EXPECT_EQ(ended.code, 65) << ended.err;
  const auto line = the_error(ended);
  const auto done = losses(run_);
  ASSERT_FALSE(done.empty());
  EXPECT_NE(line.find(text("step ", done.rbegin()->first + 1, ": loss")), std::string::npos) << line;
  EXPECT_NE(line.find("not finite"), std::string::npos) << line;
  EXPECT_NE(line.find("rank"), std::string::npos) << line;
  EXPECT_EQ(committed(run_).back(), done.rbegin()->first);
  EXPECT_EQ(debris_beside_outcomes(run_), Words{});
  const auto outcome = journal::read_outcome(run_);
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->exit_code, ExitCode::bad_input);
  const auto on = train_to(20, 0, explode + Words{"--training.skip-non-finite"});
  EXPECT_EQ(on.code, 65) << on.err;  // saved, and nothing was learned
  EXPECT_GT(count_of("the optimizer step is skipped", on.err), 0) << on.err;
  EXPECT_NE(on.err.find("steps updated no weights: losses or gradients were not finite"), std::string::npos) << on.err;
  const auto last = checkpoint::latest(run_);
  ASSERT_TRUE(last);
  EXPECT_EQ(last->manifest.step, 20);
  EXPECT_LT(last->manifest.optimizer_steps, 20);
}

/// Multiplies the tensors of that name, in every block, in a file of fp32.
void multiply(const fs::path& file, const std::string& name, float factor) {
  const auto opened = safetensors::SafetensorsFile::open(file);
  std::fstream out{file, std::ios::in | std::ios::out | std::ios::binary};
  for (const auto& entry : opened.entries()) {
    if (entry.name.find(name) == std::string::npos) continue;
    std::vector<float> values(static_cast<std::size_t>(entry.elements()));
    opened.read(entry, 0, 1, values);
    for (float& value : values) value *= factor;
    out.seekp(entry.first).write(reinterpret_cast<const char*>(values.data()), entry.bytes);
  }
}

/// Next to no input to the norms, and no epsilon to speak of: every loss is finite, and gradients are 100,000 times what comes back to a
/// norm. Each step halves the scale, until there is nothing left to halve.
TEST_F(Damage, ALossScaleAtItsFloorEndsTheRunAndSaysWhatHoldsTheGradients) {
  const auto begun = folder() / "llama", weights = folder() / "weights";
  const auto llama = [](const Words& words) { return with(words, "--model.name=", "llama-tiny"); };
  ASSERT_EQ(run(llama(train(begun, 1, steps(1, 0)))).code, 0);
  ASSERT_EQ(run({FLOTILLA_BINARY, "export", "hf", begun.string(), "-o", weights.string()}).code, 0);
  const std::pair<const char*, float> factors[] = {{"embed_tokens", 1e-5f}, {"o_proj", 0.0f}, {"down_proj", 0.0f}, {"lm_head", 1e3f}};
  for (const auto& [tensor, factor] : factors) multiply(weights / "model.safetensors", tensor, factor);
  auto config = content(weights / "config.json");
  config.replace(config.find("1e-05"), 5, "1e-16");
  write(weights / "config.json", config);
  auto words = train(run_, ranks, steps(40, 0) + Words{"--training.precision=fp16", "--model.weights=" + weights.string()});
  std::erase_if(words, [](const std::string& word) { return word.starts_with("--model.name="); });
  const auto ended = run(words);
  EXPECT_EQ(ended.code, 65) << ended.err;
  EXPECT_EQ(count_of("the gradient overflowed fp16 at a loss scale of ", ended.err), 16) << "from 65536 to 2\n" << ended.err;
  const auto line = the_error(ended);
  EXPECT_NE(line.find("step 17: loss "), std::string::npos) << line;
  EXPECT_NE(line.find("; the loss scale is at its floor of 1: fp16 cannot hold these gradients"), std::string::npos) << line;
  EXPECT_EQ(line.find("learning-rate"), std::string::npos) << line;
  EXPECT_NE(ended.err.find("4 matrices are all zero, as new blocks and adapters begin, 'model.layers.0.self_attn.o_proj.weight' the first"),
            std::string::npos)
      << ended.err;
}

/// A file system of its own for as long as it lives.
class SmallDisk {
 public:
  SmallDisk(const fs::path& where, int bytes) : where_{where} {
    fs::create_directory(where);
    if (::mount("tmpfs", where.c_str(), "tmpfs", 0, text("size=", bytes, ",mode=0755").c_str()) != 0) reason_ = std::strerror(errno);
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;
  ~SmallDisk() {
    if (reason_.empty()) ::umount2(where_.c_str(), MNT_DETACH);
  }
  const std::string& reason() const { return reason_; }

 private:
  fs::path where_;
  std::string reason_;
};

TEST_F(Damage, ADiskThatIsTooSmallForASaveIsWaitedFor) {
  ASSERT_EQ(train_to(3).code, 0);
  const auto one = static_cast<int>(fs::file_size(run_ / "step-3" / "state.h5"));
  const auto disk_folder = folder() / "disk";
  const SmallDisk disk{disk_folder, one * 5 / 2};
  if (!disk.reason().empty()) GTEST_SKIP() << "cannot mount a small file system here: " << disk.reason();
  const auto there = disk_folder / "run";
  Process process{train(there, ranks, steps(9, 2)), folder()};  // room for two, and the third is there before the first goes
  const auto waits = [&] { return process.err().find("waiting for room to save step 9") != std::string::npos; };
  ASSERT_TRUE(process.until([&] { return waits() || !process.running(); })) << process.err();
  ASSERT_TRUE(waits()) << process.err();
  for (const char* part : {"step-6", "the disk is too small", "free"})
    EXPECT_NE(process.err().find(part), std::string::npos) << process.err();
  EXPECT_EQ(committed(there), (std::vector<std::int64_t>{2, 4}));
  fs::remove_all(there / "step-2");
  const auto ended = process.wait();
  EXPECT_TRUE(ended.in_time) << ended.left << ended.err;
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_EQ(committed(there).back(), 9);
  EXPECT_EQ(debris(there), Words{});
}

}  // namespace
}  // namespace flotilla::tests
