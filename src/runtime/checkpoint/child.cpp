#include "child.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "flotilla/base/error.hpp"

namespace flotilla::checkpoint {
namespace {

constexpr unsigned longest_seconds = 120;
constexpr rlim_t most_cpu_seconds = 60;
constexpr char done = '+', refused = '-';

void send(int pipe, std::string_view words) {
  while (!words.empty()) {
    const auto count = ::write(pipe, words.data(), words.size());
    if (count <= 0) ::_exit(1);
    words.remove_prefix(static_cast<std::size_t>(count));
  }
}

[[noreturn]] void be_child(int pipe, const std::function<std::string()>& work) {
  const rlimit cpu{most_cpu_seconds, most_cpu_seconds}, none{0, 0};
  ::setrlimit(RLIMIT_CPU, &cpu);
  ::setrlimit(RLIMIT_CORE, &none);
  ::alarm(longest_seconds);
  ::dup2(::open("/dev/null", O_WRONLY | O_CLOEXEC), STDERR_FILENO);
  std::string answer;
  try {
    answer = done + work();
  } catch (const std::exception& error) {
    answer = refused + std::string{error.what()};
  }
  send(pipe, answer);
  ::_exit(0);
}

std::string receive_all(int pipe) {
  std::string all;
  std::array<char, 1 << 16> part{};
  for (;;) {
    const auto count = ::read(pipe, part.data(), part.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return all;
    all.append(part.data(), static_cast<std::size_t>(count));
  }
}

}  // namespace

std::string in_child(const std::filesystem::path& file, const std::function<std::string()>& work) {
  std::array<int, 2> pipe{};
  FLOTILLA_REQUIRE(::pipe2(pipe.data(), O_CLOEXEC) == 0, ErrorKind::unavailable, "no pipe to a child process: ", std::strerror(errno));
  const int child = ::fork();
  FLOTILLA_REQUIRE(child >= 0, ErrorKind::unavailable, "no child process: ", std::strerror(errno));
  if (child == 0) be_child(pipe[1], work);
  ::close(pipe[1]);
  const auto answer = receive_all(pipe[0]);
  ::close(pipe[0]);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  const bool whole = WIFEXITED(status) && WEXITSTATUS(status) == 0 && !answer.empty();
  FLOTILLA_REQUIRE(whole, ErrorKind::bad_input, file.string(), ": damaged: HDF5 ended while it read the file",
                   WIFSIGNALED(status) ? text(" (signal ", WTERMSIG(status), ")") : std::string{});
  FLOTILLA_REQUIRE(answer.front() == done, ErrorKind::bad_input, answer.substr(1));
  return answer.substr(1);
}

}  // namespace flotilla::checkpoint
