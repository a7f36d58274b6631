#include "directory.hpp"

#include <gtest/gtest.h>

#include <fstream>

#include "flotilla/base/error.hpp"
#include "support/temporary_folder.hpp"

namespace flotilla::checkpoint {
namespace {

namespace fs = std::filesystem;

void write(const fs::path& path, const std::string& content) { std::ofstream{path} << content; }

std::string read(const fs::path& path) {
  std::ifstream in{path};
  return {std::istreambuf_iterator<char>{in}, {}};
}

void make_committed(const fs::path& run, std::int64_t step) {
  fs::create_directory(step_directory(run, step));
  write(step_directory(run, step) / "manifest.json", "old");
  write(step_directory(run, step) / "state.h5", "old");
}

std::vector<std::int64_t> steps(const fs::path& run) {
  std::vector<std::int64_t> numbers;
  for (const auto& step : list(run)) numbers.push_back(step.step);
  return numbers;
}

using Numbers = std::vector<std::int64_t>;

TEST(Directory, ListsCommittedStepsInOrder) {
  const tests::TemporaryFolder run;
  EXPECT_EQ(steps(run.path()), Numbers{});
  for (auto step : {100, 9, 20}) make_committed(run.path(), step);
  for (const char* name :
       {"step-7", "step-", "step-x", "step-5x", "step-05", "step--5", "step-5.new", "other", "step-99999999999999999999"})
    fs::create_directory(run / name);
  for (const char* name : {"step-05", "step-5.new", "other"}) write(run / name / "manifest.json", "not a step");
  write(run / "step-8", "not a folder");
  EXPECT_EQ(steps(run.path()), (Numbers{9, 20, 100}));
  EXPECT_EQ(steps(run / "none"), Numbers{});
}

TEST(Directory, DebrisIsWhatWasNeverCommitted) {
  const tests::TemporaryFolder run;
  make_committed(run.path(), 3);
  for (const char* name : {"step-4", "step-3.new", "other", "other.new", "step-x.new"}) fs::create_directory(run / name);
  write(run / "step-3.new" / "manifest.json", "whole, but never swapped in");
  auto found = debris(run.path());
  std::sort(found.begin(), found.end());
  EXPECT_EQ(found, (std::vector<fs::path>{run / "step-3.new", run / "step-4"}));
}

TEST(Directory, CommitMakesAStepExist) {
  const tests::TemporaryFolder run;
  const auto working = working_directory(run.path(), 5);
  EXPECT_EQ(working, step_directory(run.path(), 5));
  make_directory(working);
  prepare_manifest(working, "text");
  EXPECT_EQ(steps(run.path()), Numbers{});
  commit(working, run.path(), 5);
  EXPECT_EQ(steps(run.path()), Numbers{5});
  EXPECT_EQ(read(working / "manifest.json"), "text");
}

TEST(Directory, CommitReplacesACommittedStepAtOnce) {
  const tests::TemporaryFolder run;
  make_committed(run.path(), 5);
  const auto working = working_directory(run.path(), 5);
  EXPECT_NE(working, step_directory(run.path(), 5));
  make_directory(working);
  prepare_manifest(working, "new");
  EXPECT_EQ(read(step_directory(run.path(), 5) / "manifest.json"), "old");
  commit(working, run.path(), 5);
  EXPECT_EQ(read(step_directory(run.path(), 5) / "manifest.json"), "new");
  EXPECT_EQ(debris(run.path()), std::vector<fs::path>{working});
}

TEST(Directory, FailuresNameThePlace) {
  const tests::TemporaryFolder run;
  EXPECT_THROW(make_directory(run / "none/step-1"), Error);
  EXPECT_THROW(prepare_manifest(run / "none", "text"), Error);
  EXPECT_THROW(commit(run / "step-1", run.path(), 1), Error);
}

TEST(Directory, RemovesAllOfAStep) {
  const tests::TemporaryFolder run;
  make_committed(run.path(), 5);
  remove_step(step_directory(run.path(), 5));
  EXPECT_FALSE(fs::exists(step_directory(run.path(), 5)));
}

TEST(Directory, KeepsTheNewestUpToTheStep) {
  const tests::TemporaryFolder run;
  for (auto step : {1, 2, 3, 4, 9}) make_committed(run.path(), step);
  const auto beyond = [&](int keep) {
    Numbers numbers;
    for (const auto& path : beyond_keep(run.path(), 4, keep)) numbers.push_back(std::stoll(path.filename().string().substr(5)));
    return numbers;
  };
  EXPECT_EQ(beyond(0), Numbers{});
  EXPECT_EQ(beyond(1), (Numbers{1, 2, 3}));
  EXPECT_EQ(beyond(3), Numbers{1});
  EXPECT_EQ(beyond(4), Numbers{});
}

}  // namespace
}  // namespace flotilla::checkpoint
