#include "app/common/terminal.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <string>

#include "flotilla/base/text.hpp"

namespace flotilla::app {
namespace {

std::string in_proc(pid_t process, const char* what) { return text("/proc/", process, "/", what); }

/// From /proc/PID/stat: behind the name, which may hold anything, and the state. 0 where it cannot be read.
pid_t parent_of(pid_t process) {
  std::ifstream file{in_proc(process, "stat")};
  std::string line;
  std::getline(file, line);
  const auto name_end = line.rfind(") ");
  return name_end == std::string::npos ? 0 : static_cast<pid_t>(std::atoi(line.c_str() + std::min(line.size(), name_end + 4)));
}

/// The character device that a process writes to; nothing where it writes to none, or cannot be looked at.
std::optional<dev_t> output_device(pid_t process) {
  struct stat facts {};
  if (::stat(in_proc(process, "fd/1").c_str(), &facts) != 0 || !S_ISCHR(facts.st_mode)) return {};
  return facts.st_rdev;
}

/// The nearest process above that writes elsewhere has made our terminal.
bool launcher_writes_to_terminal() {
  const auto ours = output_device(::getpid());
  for (pid_t process = ::getppid(); process > 1; process = parent_of(process)) {
    const auto theirs = output_device(process);
    if (theirs && theirs == ours) continue;
    const int output = theirs ? ::open(in_proc(process, "fd/1").c_str(), O_WRONLY | O_NOCTTY | O_CLOEXEC) : -1;
    const bool terminal = output >= 0 && ::isatty(output) != 0;
    if (output >= 0) ::close(output);
    return terminal;
  }
  return true;
}

}  // namespace

bool output_is_terminal() {
  if (::isatty(STDOUT_FILENO) == 0) return false;
  static const bool by_launcher = std::getenv("OMPI_COMM_WORLD_SIZE") == nullptr || launcher_writes_to_terminal();
  return by_launcher;
}

}  // namespace flotilla::app
