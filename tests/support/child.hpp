#pragma once
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <exception>
#include <functional>
#include <stdexcept>
#include <string>
#include <utility>

/// Short-lived processes of a test. Programs that a test starts, watches and kills with all their children: run/process.hpp.
namespace flotilla::tests {

/// A process that runs `body` and exits with what it returns. Killed and reaped in the end.
class Child {
 public:
  explicit Child(const std::function<int()>& body) : pid_{fork()} {
    if (pid_ < 0) throw std::runtime_error{"no child process"};
    if (pid_ > 0) return;
    int code = 99;
    try {
      code = body();
    } catch (const std::exception& error) {
      std::fprintf(stderr, "child: %s\n", error.what());
    }
    _exit(code);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  pid_t pid() const { return pid_; }
  void signal(int number) const { kill(pid_, number); }
  /// Waits for its end; the exit code, or minus the signal.
  int wait() {
    int status = 0;
    waitpid(std::exchange(pid_, -1), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }
  /// The same, but one that stops is killed.
  int wait_or_kill_stopped() {
    siginfo_t state{};
    waitid(P_PID, static_cast<id_t>(pid_), &state, WEXITED | WSTOPPED | WNOWAIT);
    if (state.si_code == CLD_STOPPED) signal(SIGKILL);
    return wait();
  }

 private:
  pid_t pid_;
};

struct Finished {
  int exit_code = -1;  ///< -1: it was killed, or could not be started
  std::string output;
  bool says(const std::string& words) const { return output.find(words) != std::string::npos; }
};

/// Runs a line of the shell; the output has both streams.
inline Finished run_line(const std::string& line) {
  Finished result;
  std::FILE* const pipe = popen(("{ " + line + "\n} 2>&1").c_str(), "r");
  if (pipe == nullptr) return result;
  std::array<char, 4096> part;
  for (std::size_t got; (got = std::fread(part.data(), 1, part.size(), pipe)) > 0;) result.output.append(part.data(), got);
  const int status = pclose(pipe);
  if (WIFEXITED(status)) result.exit_code = WEXITSTATUS(status);
  return result;
}

}  // namespace flotilla::tests
