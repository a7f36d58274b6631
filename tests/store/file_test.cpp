#include "flotilla/store/file.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <fstream>
#include <functional>
#include <numeric>
#include <random>

#include "flotilla/base/error.hpp"
#include "support/refusal.hpp"
#include "support/temporary_folder.hpp"

namespace flotilla::store {
namespace {

using Shape = std::vector<std::int64_t>;

std::int64_t product(const Shape& shape) { return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>{}); }

plan::Box whole(std::int64_t count) { return {.outer = 1, .inner = count}; }

using tests::refusal;

void expect_names(const std::string& message, const std::string& word) { EXPECT_NE(message.find(word), std::string::npos) << message; }

/// Random box inside a whole and a local array of the given sizes.
plan::Box random_box(std::mt19937& random, std::int64_t global, std::int64_t local, std::int64_t row) {
  const auto below = [&](std::int64_t bound) { return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(bound)); };
  plan::Box box;
  box.inner = 1 + below(std::min(global, local));
  box.global_stride = random() % 2 && row >= box.inner ? row : box.inner + below(5);
  box.local_stride = box.inner + below(3);
  box.outer = 1 + below(4);
  while (box.outer > 1 &&
         ((box.outer - 1) * box.global_stride + box.inner > global || (box.outer - 1) * box.local_stride + box.inner > local))
    --box.outer;
  box.global_offset = below(global - ((box.outer - 1) * box.global_stride + box.inner) + 1);
  box.local_offset = below(local - ((box.outer - 1) * box.local_stride + box.inner) + 1);
  return box;
}

template <class Move>
void for_each_element(const plan::Box& box, Move&& move) {
  for (std::int64_t o = 0; o < box.outer; ++o)
    for (std::int64_t i = 0; i < box.inner; ++i)
      move(static_cast<std::size_t>(box.global_offset + o * box.global_stride + i),
           static_cast<std::size_t>(box.local_offset + o * box.local_stride + i));
}

TEST(File, RandomBoxesMoveWhatTheyName) {
  const tests::TemporaryFolder folder;
  File::create_reserved(folder / "x.h5", {1 << 20});
  std::mt19937 random{7};
  int number = 0;
  auto file = File::open_for_writing(folder / "x.h5");
  for (const Shape& shape : {Shape{1}, Shape{37}, Shape{9, 11}, Shape{1, 40}, Shape{40, 1}, Shape{3, 4, 5}, Shape{2, 3, 2, 5}}) {
    const auto global = product(shape);
    const auto data = file.create_dataset("group/" + std::to_string(number++), shape, Element::fp32);
    std::vector<float> oracle(static_cast<std::size_t>(global), 0.0f), local(static_cast<std::size_t>(global + 10));
    data.write(oracle, whole(global));
    for (int round = 0; round < 60; ++round) {
      const auto box = random_box(random, global, std::ssize(local), shape.back());
      for (auto& value : local) value = static_cast<float>(random() % 100000);
      data.write(local, box);
      for_each_element(box, [&](std::size_t g, std::size_t l) { oracle[g] = local[l]; });
      const auto other = random_box(random, global, std::ssize(local), shape.back());
      auto expected = local;
      for_each_element(other, [&](std::size_t g, std::size_t l) { expected[l] = oracle[g]; });
      data.read(local, other);
      ASSERT_EQ(local, expected) << "shape of rank " << shape.size() << ", round " << round;
    }
    std::vector<float> found(oracle.size());
    data.read(found, whole(global));
    ASSERT_EQ(found, oracle);
  }
  file.close();
}

TEST(File, KeepsNamesShapesAndAttributes) {
  const tests::TemporaryFolder folder;
  const auto path = folder / "x.h5";
  File::create_reserved(path, {1 << 16});
  {
    auto file = File::open_for_writing(path);
    file.write_attribute("format", std::string{"flotilla-test"});
    file.write_attribute("step", std::int64_t{1} << 40);
    file.create_dataset("a/b/block.3.weight", {3, 5}, Element::fp32);
    file.create_dataset("a/b/block.2.weight", {7}, Element::uint32).write_all(std::vector<std::uint32_t>{1, 2, 3, 4, 5, 6, 4000000000u});
    file.close();
  }
  const auto file = File::open_for_reading(path);
  EXPECT_EQ(file.read_text("format"), "flotilla-test");
  EXPECT_EQ(file.read_integer("step"), std::int64_t{1} << 40);
  EXPECT_EQ(file.names("a/b"), (std::vector<std::string>{"block.2.weight", "block.3.weight"}));
  EXPECT_TRUE(file.contains("a/b/block.3.weight"));
  EXPECT_FALSE(file.contains("a/c/block.3.weight"));
  EXPECT_EQ(file.dataset("a/b/block.3.weight").shape(), (Shape{3, 5}));
  EXPECT_EQ(file.dataset("a/b/block.3.weight").element(), Element::fp32);
  EXPECT_EQ(file.dataset("a/b/block.2.weight").read_all().back(), 4000000000u);
  EXPECT_LT(std::filesystem::file_size(path), 1u << 16);
}

TEST(File, RefusesWhatIsMissingOrOfAnotherType) {
  const tests::TemporaryFolder folder;
  const auto path = folder / "x.h5";
  File::create_reserved(path, {1 << 16});
  {
    auto file = File::open_for_writing(path);
    file.create_dataset("a/x", {3}, Element::fp32);
    file.write_attribute("format", std::string{"word"});
    file.close();
  }
  const auto file = File::open_for_reading(path);
  const auto missing = refusal([&] { file.dataset("a/y"); });
  expect_names(missing, path.string() + ": a/y");
  expect_names(refusal([&] { file.dataset("a"); }), "a");
  expect_names(refusal([&] { file.dataset("a/x").read_all(); }), "uint32");
  expect_names(refusal([&] { file.read_integer("format"); }), "integer");
  expect_names(refusal([&] { file.read_text("other"); }), "other");
  expect_names(refusal([&] { file.names("b"); }), "b");
}

TEST(File, RefusesWhatIsNotAWholeFile) {
  const tests::TemporaryFolder folder;
  const auto path = folder / "x.h5";
  File::create_reserved(path, {1 << 16});
  {
    auto file = File::open_for_writing(path);
    file.create_dataset("x", {1000}, Element::fp32);
    file.close();
  }
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 1);
  expect_names(refusal([&] { File::open_for_reading(path); }), path.string());
  std::ofstream{path} << "this is not HDF5";
  const auto message = refusal([&] { File::open_for_reading(path); });
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  try {
    File::open_for_reading(folder / "none");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::unavailable);
  }
}

/// In a process of its own: after a write that failed, HDF5 is shut, and leaving the process does not hang or crash.
void fail_a_write(const std::filesystem::path& path) {
  std::signal(SIGXFSZ, SIG_IGN);
  constexpr std::int64_t count = 1 << 20;
  File::create_reserved(path, {4 * count + 4096});
  auto file = File::open_for_writing(path);
  const auto data = file.create_dataset("x", {count}, Element::fp32);
  const rlimit limit{1 << 20, 1 << 20};
  ::setrlimit(RLIMIT_FSIZE, &limit);
  const std::vector<float> values(static_cast<std::size_t>(count), 1.0f);
  try {
    data.write(values, whole(count));
  } catch (const Error& error) {
    const bool refused = error.kind() == ErrorKind::temporary && std::string{error.what()}.find(": x: ") != std::string::npos;
    try {
      File::open_for_reading(path);
    } catch (const Error& again) {
      std::filesystem::remove_all(path.parent_path());  // the child made it anew, and leaves without destructors
      std::exit(refused && poisoned() && again.kind() == ErrorKind::temporary ? 0 : 2);
    }
  }
  std::exit(1);
}

TEST(FileDeathTest, AFailedWriteShutsHdf5) {
  const tests::TemporaryFolder folder;
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(fail_a_write(folder / "x.h5"), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace flotilla::store
