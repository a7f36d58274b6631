#pragma once
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <string_view>

#include "flotilla/base/error.hpp"
#include "support/refusal.hpp"
#include "support/temporary_folder.hpp"

namespace flotilla::journal::testing {

/// A run directory of one test.
using RunFolder = tests::TemporaryFolder;

using tests::content;
using tests::expect_contains;
using tests::refusal;

inline void write(const std::filesystem::path& path, std::string_view text) { std::ofstream{path, std::ios::binary} << text; }

/// As if `path` was last touched this many seconds ago.
inline void age(const std::filesystem::path& path, int seconds) {
  std::filesystem::last_write_time(path, std::filesystem::file_time_type::clock::now() - std::chrono::seconds{seconds});
}

/// A process that runs `body` and exits with what it returns. Killed and reaped in the end.
class Child {
 public:
  explicit Child(const std::function<int()>& body) : pid_{fork()} {
    if (pid_ == 0) {
      int code = 99;
      try {
        code = body();
      } catch (const std::exception& error) {
        std::fprintf(stderr, "child: %s\n", error.what());
      }
      _exit(code);
    }
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
    waitpid(pid_, &status, 0);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

 private:
  pid_t pid_;
};

/// Waits until `condition` holds; a test failure after a minute.
inline void wait_until(const std::function<bool()>& condition) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes{1};
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) throw std::runtime_error{"waited for a minute in vain"};
    usleep(2000);
  }
}

}  // namespace flotilla::journal::testing
