// System calls on the run directory that fail, one at a time, several, for a spell and for good, at random places of a short run that
// resumes and saves: no committed step is lost, or passed over in silence. The calls fail by strace's hand; FLOTILLA_FILE_FAULTS asks for
// more of them than CI makes, FLOTILLA_FILE_FAULTS_SEED for others.
#include <cerrno>
#include <cstdio>

#include "run/training.hpp"
#include "support/tier.hpp"

namespace flotilla::tests {
namespace {

constexpr int first_steps = 4, all_steps = 6;
const char* const calls =
    "openat,newfstatat,stat,lstat,statx,rename,renameat2,unlink,unlinkat,rmdir,link,mkdir,getdents64,fsync,"
    "write,pwrite64,fallocate,ftruncate,read,pread64";

/// The n-th call of a kind that some thread makes.
struct Call {
  std::string name;
  int ordinal = 0;
  bool operator<(const Call& other) const { return std::tie(name, ordinal) < std::tie(other.name, other.ordinal); }
};

Words job(const fs::path& run, int steps) {
  return Words{FLOTILLA_BINARY, "train"} + options(run, 1) +
         Words{text("--training.steps=", steps), "--checkpoint.every=2", "--device.memory=400MiB"};
}

Words strace(const fs::path& trace, const Words& expressions) {
  Words words{"strace", "-f", "--seccomp-bpf", "-qq", "-y", "-o", trace.string(), "-etrace=" + std::string{calls}};
  for (const auto& expression : expressions) words.push_back("-e" + expression);
  return words;
}

/// Whether one thread alone makes so many of them: strace counts in each, and Open MPI's own do not get over a failure. How many times its
/// threads wake each other, by reads and writes, is another number every time.
bool is_of_one_thread(const Call& call, const std::map<std::pair<int, std::string>, int>& counts) {
  const bool varies = call.name == "read" || call.name == "write";
  const auto reaches = [&](const auto& made) {
    return made.first.second == call.name && (varies ? 2 * made.second + 10 : made.second) >= call.ordinal;
  };
  return std::ranges::count_if(counts, reaches) == 1;
}

/// Those on the run directory. Lines of a trace begin with the thread's number and the call's name.
std::vector<Call> calls_on(const fs::path& run, const fs::path& trace) {
  std::map<std::pair<int, std::string>, int> counts;
  std::set<Call> found;
  std::ifstream in{trace};
  for (std::string line; std::getline(in, line);) {
    std::istringstream words{line};
    int thread = 0;
    std::string call;
    if (!(words >> thread >> call) || call.find('(') == std::string::npos) continue;
    const auto name = call.substr(0, call.find('('));
    const Call made{name, ++counts[{thread, name}]};
    if (line.find(run.string()) != std::string::npos) found.insert(made);
  }
  std::erase_if(found, [&](const Call& one) { return !is_of_one_thread(one, counts); });
  return {found.begin(), found.end()};
}

/// Whether a call that was made to fail was not on the run directory: threads run in another order every time, so the n-th call of one may
/// be how Open MPI's threads wake each other, which no disk does.
bool strayed(const fs::path& run, const fs::path& trace) {
  std::map<int, std::string> unfinished;
  std::ifstream in{trace};
  for (std::string line; std::getline(in, line);) {
    const int thread = std::atoi(line.c_str());
    if (line.find("<unfinished ...>") != std::string::npos) unfinished[thread] = line;
    if (line.find("(INJECTED)") == std::string::npos) continue;
    const auto& call = line.find(" resumed>") == std::string::npos ? line : unfinished[thread];
    if (call.find(run.string()) == std::string::npos) return true;
  }
  return false;
}

class FileFaults : public testing::Test {
 protected:
  void SetUp() override {
    const auto probe = run({"strace", "-o", "/dev/null", "true"});
    if (probe.code != 0) GTEST_SKIP() << "strace cannot trace here: " << probe.err;
    const auto first = run(job(kept_, first_steps));
    ASSERT_EQ(first.code, 0) << first.err;
    ASSERT_EQ(committed(kept_), (std::vector<std::int64_t>{2, first_steps}));
    restore();
    const auto watched = run(strace(folder() / "watched", {}) + job(run_, all_steps));
    ASSERT_EQ(watched.code, 0) << watched.err;
    calls_ = calls_on(run_, folder() / "watched");
    ASSERT_GT(calls_.size(), 50u);
  }

  void restore() const {
    fs::remove_all(run_);
    fs::copy(kept_, run_, fs::copy_options::recursive);
  }

  /// One call fails, or two to four after it too, or three of them; a few for good.
  Words random_faults(std::mt19937& random) const {
    const std::array errors{"ESTALE", "EIO", "EACCES", "EDQUOT", "ENOSPC"};
    Words faults;
    for (auto left = random() % 4 == 0 ? 3 : 1; left > 0; --left) {
      const auto& call = calls_[random() % calls_.size()];
      const std::string error = errors[random() % errors.size()];
      std::string length;
      if (random() % 8 == 0)
        length = error == "EACCES" ? "+" : text("..", call.ordinal + 1 + static_cast<int>(random() % 3));  // others for good: waited for
      faults.push_back(text("inject=", call.name, ":error=", error, ":when=", call.ordinal, length));
    }
    return faults;
  }

  /// The newest committed step that is sound.
  std::int64_t newest_sound() const {
    std::int64_t newest = 0;
    for (const auto& step : checkpoint::list(run_)) {
      EXPECT_EQ(checkpoint::describe(step.directory, true).damaged_segments(), 0) << step.directory;
      newest = step.step;
    }
    return newest;
  }

  void expect_nothing_lost(const Ended& ended) const {
    const bool started = ended.err.find("MPI_INIT") == std::string::npos;  // the call may have been one of Open MPI's daemon
    EXPECT_TRUE(ended.code == 0 || ended.code == 66 || ended.code == 69 || !started) << "exit code " << ended.code << "\n" << ended.err;
    EXPECT_GE(newest_sound(), ended.code == 0 ? all_steps : first_steps) << ended.err;
    const bool resumed =
        ended.err.find(text("resuming after step ", first_steps)) != std::string::npos;  // a line of stdout may be what fails
    const bool told = ended.err.find("trying an earlier checkpoint") != std::string::npos;
    EXPECT_TRUE(resumed || told || ended.code != 0) << "another step was resumed, and nobody said why\n" << ended.out << ended.err;
    if (ended.code == 0) return;
    const auto again = run(job(run_, all_steps));
    EXPECT_EQ(again.code, 0) << again.err;
    EXPECT_EQ(newest_sound(), all_steps) << again.err;
  }

  fs::path kept_ = folder() / "kept", run_ = folder() / "run";
  std::vector<Call> calls_;
};

/// The save fails after every byte was written, on a system that says so last; training goes on, and saves again.
TEST_F(FileFaults, ASaveThatCannotBeFlushedIsTriedAgain) {
  restore();
  const auto state = run_ / text("step-", all_steps) / "state.h5";
  const Words failing{"strace", "-f", "-qq", "-o", "/dev/null", "-P", state.string(), "-e", "inject=fsync:error=EIO:when=2"};
  const auto ended = run(failing + job(run_, all_steps));
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_NE(ended.err.find("cannot be flushed to the disk"), std::string::npos) << ended.err;
  EXPECT_EQ(newest_sound(), all_steps) << ended.err;
}

TEST_F(FileFaults, NoCommittedStepIsLost) {
  const int injections = of_tier(8, 200, "FLOTILLA_FILE_FAULTS");
  std::mt19937 random{static_cast<unsigned>(of_tier(1414, 1414, "FLOTILLA_FILE_FAULTS_SEED"))};
  const auto trace = folder() / "injected";
  int ended_well = 0, refused = 0, strays = 0;
  while (ended_well + refused < injections) {
    const auto faults = random_faults(random);
    SCOPED_TRACE(testing::PrintToString(faults));
    restore();
    const auto ended = run(strace(trace, faults) + job(run_, all_steps));
    if (strayed(run_, trace)) {
      ASSERT_LT(++strays, injections) << "most faults do not meet the run directory";
      continue;
    }
    expect_nothing_lost(ended);
    ++(ended.code == 0 ? ended_well : refused);
  }
  std::printf("%d injections among %zu calls: %d runs went on, %d were refused; %d strayed, and others were made\n", injections,
              calls_.size(), ended_well, refused, strays);
}

}  // namespace
}  // namespace flotilla::tests
