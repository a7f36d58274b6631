#pragma once
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cctype>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "flotilla/base/text.hpp"
#include "support/temporary_folder.hpp"
#include "support/waiting.hpp"

/// Programs started, watched and killed by a test. Whatever a test does, nothing that it started outlives it.
namespace flotilla::tests {

using Milliseconds = std::chrono::milliseconds;

/// How a program ended.
struct Ended {
  int code = -1;  ///< exit code, or 128 + signal as a shell has it
  bool in_time = true;
  std::string left;  ///< what still lived when it was too late
  std::string out, err;
};

/// A running program with all it starts: its children carry a mark in their environment, by which they are found even after the launcher's
/// death and in process groups of their own.
class Process {
 public:
  /// Standard output and error go to `folder`/<mark>.out and .err. `environment`: NAME=VALUE, added to the test's own.
  Process(const std::vector<std::string>& command, const std::filesystem::path& folder, const std::vector<std::string>& environment = {})
      : mark_{text(::getpid(), "-", ++count())}, out_{folder / (mark_ + ".out")}, err_{folder / (mark_ + ".err")} {
    pid_ = ::fork();
    if (pid_ == 0) become(command, environment);
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  ~Process() { kill_everything(); }

  int pid() const { return pid_; }
  std::string out() const { return content(out_); }
  std::string err() const { return content(err_); }

  bool running() {
    if (!status_) {
      int status = 0;
      if (::waitpid(pid_, &status, WNOHANG) == pid_) status_ = status;
    }
    return !status_;
  }

  /// What it and its children have written and computed so far: while this changes, it does not hang.
  std::int64_t progress() const {
    std::error_code none;
    std::int64_t sum = 0;
    for (const auto& file : {out_, err_})
      if (const auto size = std::filesystem::file_size(file, none); !none) sum += static_cast<std::int64_t>(size);
    for (const auto& [pid, ignored] : marked()) sum += processor_ticks(pid);
    return sum;
  }

  /// Waits for `condition` while it runs; whether that holds then.
  template <class Condition>
  bool until(Condition condition, Milliseconds pause = Milliseconds{10}, Seconds standstill = standstill_bound()) {
    bool held = false;  // a save that is under way may be over at the next look
    const auto over = [&] { return (held = condition()) || !running(); };
    return tests::until(
               over, [&] { return progress(); }, pause, standstill) &&
           (held || condition());
  }

  /// Waits for its end. Kills everything when it hangs, after so long in which nothing moves.
  Ended wait(Seconds standstill = standstill_bound()) {
    Ended ended;
    ended.in_time = until([&] { return !running(); }, Milliseconds{10}, standstill);
    if (!ended.in_time) {
      ended.left = states();
      kill_everything();
    }
    if (!status_) return ended;  // not even SIGKILL has ended it: a code of -1 is none of a program's
    ended.code = WIFEXITED(*status_) ? WEXITSTATUS(*status_) : 128 + WTERMSIG(*status_);
    ended.out = out();
    ended.err = err();
    return ended;
  }

  /// Process ids of the ranks that mpirun has started and that still live, by rank.
  std::map<int, int> ranks() const {
    std::map<int, int> found;
    for (const auto& [pid, environment] : marked()) {
      static const std::string key{"\0OMPI_COMM_WORLD_RANK=", 22};
      const auto at = environment.find(key);
      if (at != std::string::npos) found[std::atoi(environment.c_str() + at + key.size())] = pid;
    }
    return found;
  }

  /// Everything that was started has ended, given a moment: a launcher may go just before its last child.
  bool nothing_left() {
    return tests::until([&] { return !running() && marked().empty(); }, [&] { return progress(); }, Milliseconds{20});
  }

  /// A line for each living process: id, name, state.
  std::string states() const {
    std::string all;
    for (const auto& [pid, ignored] : marked()) {
      const auto stat = content(text("/proc/", pid, "/stat"));
      all += stat.substr(0, stat.find(')') + 3) + " in " + content(text("/proc/", pid, "/wchan")) + "\n";
    }
    return all;
  }

  void kill_everything() {
    for (int round = 0; round < 3000 && (running() || !marked().empty()); ++round) {
      if (running()) ::kill(pid_, SIGKILL);
      for (const auto& [pid, ignored] : marked()) ::kill(pid, SIGKILL);
      std::this_thread::sleep_for(Milliseconds{10});
    }
  }

 private:
  /// Clock ticks in user and system mode; 0 where it has ended.
  static std::int64_t processor_ticks(int pid) {
    const auto stat = content(text("/proc/", pid, "/stat"));
    const auto name_end = stat.rfind(')');
    if (name_end == std::string::npos) return 0;
    std::istringstream fields{stat.substr(name_end + 1)};
    std::string field;
    for (int i = 0; i < 11; ++i) fields >> field;  // state to cmajflt
    std::int64_t user = 0, system = 0;
    fields >> user >> system;
    return user + system;
  }

  static int& count() {
    static int count = 0;
    return count;
  }

  [[noreturn]] void become(const std::vector<std::string>& command, const std::vector<std::string>& environment) const {
    ::setpgid(0, 0);
    redirect("/dev/null", O_RDONLY, STDIN_FILENO);
    redirect(out_, O_WRONLY | O_CREAT | O_TRUNC, STDOUT_FILENO);
    redirect(err_, O_WRONLY | O_CREAT | O_TRUNC, STDERR_FILENO);
    set_variable(text("TEST_PROCESS_MARK=", mark_));
    for (const auto& variable : environment) set_variable(variable);
    std::vector<char*> arguments;
    for (const auto& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    ::execvp(arguments[0], arguments.data());
    ::_exit(127);
  }

  static void redirect(const std::filesystem::path& file, int flags, int to) {
    const int from = ::open(file.c_str(), flags, 0644);
    ::dup2(from, to);
    ::close(from);
  }

  static void set_variable(const std::string& variable) {
    const auto equals = variable.find('=');
    ::setenv(variable.substr(0, equals).c_str(), variable.substr(equals + 1).c_str(), 1);
  }

  /// Process id and environment of every living process that carries our mark.
  std::map<int, std::string> marked() const {
    const std::string end(1, '\0'), wanted = text(end, "TEST_PROCESS_MARK=", mark_, end);
    std::map<int, std::string> found;
    std::error_code ignored;
    for (const auto& entry : std::filesystem::directory_iterator{"/proc", ignored}) {
      const auto name = entry.path().filename().string();
      if (!std::isdigit(static_cast<unsigned char>(name[0]))) continue;
      auto environment = end + content(entry.path() / "environ");
      if (environment.find(wanted) != std::string::npos) found.emplace(std::stoi(name), std::move(environment));
    }
    return found;
  }

  std::string mark_;
  std::filesystem::path out_, err_;
  int pid_ = -1;
  std::optional<int> status_;
};

}  // namespace flotilla::tests
