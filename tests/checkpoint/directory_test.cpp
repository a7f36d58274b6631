#include "directory.hpp"

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "flotilla/base/error.hpp"
#include "support/temporary_folder.hpp"

namespace {

const char* end_at = "";  ///< the call at which this process is to end as if it were killed

void maybe_end(const char* call) {
  if (std::string_view{call} == end_at) ::_exit(9);
}

}  // namespace

// In place of the C library's.
extern "C" int rmdir(const char* path) noexcept {
  maybe_end("rmdir");
  return static_cast<int>(::syscall(SYS_rmdir, path));
}
extern "C" int unlinkat(int folder, const char* name, int flags) noexcept {
  maybe_end(name);
  return static_cast<int>(::syscall(SYS_unlinkat, folder, name, flags));
}

namespace flotilla::checkpoint::directory_test {
namespace {

namespace fs = std::filesystem;

void write(const fs::path& path, const std::string& content) { std::ofstream{path} << content; }

std::string read(const fs::path& path) {
  std::ifstream in{path};
  return {std::istreambuf_iterator<char>{in}, {}};
}

void make_committed(const fs::path& run, std::int64_t step) {
  Manifest manifest;
  manifest.step = step;
  make_directory(step_directory(run, step));
  write(step_directory(run, step) / "manifest.json", manifest_to_json(manifest));
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
  for (const char* name : {"step-4", "step-3.new", "other", "other.new", "step-x.new"}) make_directory(run / name);
  fs::create_directory(run / "step-6");
  write(run / "step-6" / "state.h5", "somebody copies a checkpoint");
  fs::create_directory(run / "step-7");
  fs::copy(run / "step-4" / "mark.json", run / "step-7" / "mark.json");
  fs::create_directory_symlink(run / "step-4", run / "step-8");
  fs::create_directory(run / "step-9.0123456789abcdef.tmp");
  fs::create_directory(run / "step-10.0123456789abcdef.tmp");
  write(run / "step-10.0123456789abcdef.tmp" / "mark.json.fedcba9876543210.tmp", "a mark that was being wri");
  fs::create_directory(run / "step-11.0123456789abcdef.tmp");
  write(run / "step-11.0123456789abcdef.tmp" / "foreign", "of somebody else");
  write(run / "step-3.new" / "manifest.json", "whole, but never swapped in");
  auto found = debris(run.path());
  std::sort(found.begin(), found.end());
  EXPECT_EQ(found, (std::vector<fs::path>{run / "step-10.0123456789abcdef.tmp", run / "step-3.new", run / "step-4",
                                          run / "step-9.0123456789abcdef.tmp"}));
  remove_step(run / "step-10.0123456789abcdef.tmp");
  EXPECT_FALSE(fs::exists(run / "step-10.0123456789abcdef.tmp"));
  EXPECT_EQ(uncommitted(run), (std::vector<fs::path>{run / "step-6", run / "step-7", run / "step-8"}));
}

TEST(Directory, CommitMakesAStepExist) {
  const tests::TemporaryFolder run;
  const auto working = working_directory(run.path(), 5);
  EXPECT_EQ(working, step_directory(run.path(), 5));
  make_directory(working);
  prepare_manifest(working, "text");
  EXPECT_EQ(steps(run.path()), Numbers{});
  bool exists = false;
  commit(working, run.path(), 5, exists);
  EXPECT_TRUE(exists);
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
  bool exists = false;
  commit(working, run.path(), 5, exists);
  EXPECT_EQ(read(step_directory(run.path(), 5) / "manifest.json"), "new");
  EXPECT_EQ(debris(run.path()), std::vector<fs::path>{working});
}

TEST(Directory, FailuresNameThePlace) {
  const tests::TemporaryFolder run;
  EXPECT_THROW(make_directory(run / "none/step-1"), Error);
  EXPECT_THROW(prepare_manifest(run / "none", "text"), Error);
  bool exists = false;
  EXPECT_THROW(commit(run / "step-1", run.path(), 1, exists), Error);
  EXPECT_FALSE(exists);
}

TEST(Directory, RemovesAllOfAStep) {
  const tests::TemporaryFolder run;
  make_committed(run.path(), 5);
  remove_step(step_directory(run.path(), 5));
  EXPECT_FALSE(fs::exists(step_directory(run.path(), 5)));
}

/// Wherever it is killed: what is left is still a checkpoint, or the next save removes it.
TEST(Directory, WhatAKilledRemovalLeavesIsRemovedLater) {
  for (const char* call : {"manifest.json", "state.h5", "mark.json", "rmdir"}) {
    const tests::TemporaryFolder run;
    make_committed(run.path(), 5);
    const pid_t child = ::fork();
    if (child == 0) {
      end_at = call;
      remove_step(step_directory(run.path(), 5));
      ::_exit(0);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_EQ(WEXITSTATUS(status), 9) << call << " was never called";
    EXPECT_EQ(uncommitted(run.path()), std::vector<fs::path>{}) << call;
    for (const auto& step : list(run.path())) remove_step(step.directory);
    for (const auto& folder : debris(run.path())) remove_step(folder);
    EXPECT_TRUE(fs::is_empty(run.path())) << call;
  }
}

TEST(Directory, RemovesNothingThatItCannotProve) {
  const tests::TemporaryFolder run;
  make_committed(run.path(), 5);
  write(step_directory(run.path(), 5) / "notes.txt", "mine");
  remove_step(step_directory(run.path(), 5));
  EXPECT_EQ(read(step_directory(run.path(), 5) / "notes.txt"), "mine");
  EXPECT_FALSE(fs::exists(step_directory(run.path(), 5) / "state.h5"));
  fs::create_directories(run / "step-6");
  write(run / "step-6" / "manifest.json", "old");
  EXPECT_THROW(remove_step(run / "step-6"), Error);
  make_committed(run.path(), 7);
  fs::create_directory_symlink(run / "step-7", run / "step-8");
  EXPECT_THROW(remove_step(run / "step-8"), Error);
  EXPECT_TRUE(fs::exists(run / "step-7" / "manifest.json"));
}

TEST(Directory, ExplodedWeightsDoNotCountAsKept) {
  const tests::TemporaryFolder run;
  for (auto step : {1, 2, 3, 4, 5}) make_committed(run.path(), step);
  for (auto step : {3, 4, 5}) {
    Manifest manifest;
    manifest.step = step;
    manifest.exploded = true;
    write(step_directory(run.path(), step) / "manifest.json", manifest_to_json(manifest));
  }
  EXPECT_EQ(beyond_keep(run.path(), 5, 2), std::vector<fs::path>{run / "step-3"});
  EXPECT_EQ(beyond_keep(run.path(), 5, 1), (std::vector<fs::path>{run / "step-1", run / "step-3", run / "step-4"}));
  EXPECT_EQ(latest(run.path())->manifest.step, 2);
}

TEST(Directory, WhatCannotBeReadDoesNotCountAsKept) {
  const tests::TemporaryFolder run;
  for (auto step : {1, 2, 3}) make_committed(run.path(), step);
  write(run / "step-3" / "manifest.json", "{");
  EXPECT_EQ(beyond_keep(run.path(), 3, 1), std::vector<fs::path>{run / "step-1"});
  EXPECT_EQ(latest(run.path())->manifest.step, 2);
  for (auto step : {1, 2}) write(step_directory(run.path(), step) / "manifest.json", "{");
  EXPECT_THROW(latest(run.path()), Error);
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
}  // namespace flotilla::checkpoint::directory_test
