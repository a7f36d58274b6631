#include "flotilla/store/file.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <thread>

#include "flotilla/base/error.hpp"
#include "support/refusal.hpp"
#include "support/temporary_folder.hpp"

namespace flotilla::store::file_test {
namespace {

using Shape = std::vector<std::int64_t>;

using tests::refusal;

void expect_names(const std::string& message, const std::string& word) { EXPECT_NE(message.find(word), std::string::npos) << message; }

TEST(File, KeepsNamesShapesAndAttributes) {
  const tests::TemporaryFolder folder;
  const auto path = folder / "x.h5";
  {
    auto file = File::create(path);
    file.write_attribute("format", std::string{"flotilla-test"});
    file.write_attribute("step", std::int64_t{1} << 40);
    file.create_dataset("a/b/block.3.weight", {3, 5}, Datatype::fp32);
    file.create_dataset("a/b/block.2.weight", {7}, Datatype::uint32).write_all(std::vector<std::uint32_t>{1, 2, 3, 4, 5, 6, 4000000000u});
    file.close();
  }
  const auto file = File::open_for_reading(path);
  EXPECT_EQ(file.read_text("format"), "flotilla-test");
  EXPECT_EQ(file.read_integer("step"), std::int64_t{1} << 40);
  EXPECT_EQ(file.names("a/b"), (std::vector<std::string>{"block.2.weight", "block.3.weight"}));
  EXPECT_TRUE(file.contains("a/b/block.3.weight"));
  EXPECT_FALSE(file.contains("a/c/block.3.weight"));
  EXPECT_EQ(file.dataset("a/b/block.3.weight").shape(), (Shape{3, 5}));
  EXPECT_EQ(file.dataset("a/b/block.3.weight").element(), Datatype::fp32);
  EXPECT_EQ(file.dataset("a/b/block.2.weight").read_all().back(), 4000000000u);
  EXPECT_LT(std::filesystem::file_size(path), 1u << 16);
}

TEST(File, ThreadsTakeTurns) {
  const tests::TemporaryFolder folder;
  const auto path = folder / "x.h5";
  std::thread{[&] {
    auto file = File::create(path);
    file.write_attribute("step", 7);
    file.close();
  }}.join();
  const auto file = File::open_for_reading(path);
  EXPECT_EQ(file.read_integer("step"), 7) << "the other thread has no file open";
  ::testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_DEATH(std::thread{[&] { File::open_for_reading(path); }}.join(), "HDF5 is used from two threads at once");
}

TEST(File, RefusesWhatIsMissingOrOfAnotherType) {
  const tests::TemporaryFolder folder;
  const auto path = folder / "x.h5";
  {
    auto file = File::create(path);
    file.create_dataset("a/x", {3}, Datatype::fp32);
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
  {
    auto file = File::create(path);
    file.create_dataset("x", {1000}, Datatype::fp32);
    file.close();
  }
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 1);
  expect_names(refusal([&] { File::open_for_reading(path); }), path.string());
  std::ofstream{path} << "this is not HDF5";
  const auto message = refusal([&] { File::open_for_reading(path); });
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  tests::refusal([&] { File::open_for_reading(folder / "none"); });
}

}  // namespace
}  // namespace flotilla::store::file_test
