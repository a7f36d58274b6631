#include "process.hpp"

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>

#include "flotilla/base/text.hpp"
#include "flotilla/journal/run_directory.hpp"

namespace flotilla::journal {
namespace {

std::string host_name() {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0) return "unknown";
  return name.data();
}

std::string first_line(const std::filesystem::path& path) {
  std::ifstream in{path};
  std::string line;
  std::getline(in, line);
  return line;
}

std::uint64_t pid_namespace() {
  struct ::stat facts {};
  return ::stat("/proc/self/ns/pid", &facts) == 0 ? facts.st_ino : 0;
}

struct ProcessState {
  char state = '?';
  std::uint64_t start = 0;
};

/// Fields 3 and 22 of /proc/PID/stat. The name before them may hold anything, spaces and brackets too.
std::optional<ProcessState> state_of(int pid) {
  const auto line = first_line(text("/proc/", pid, "/stat"));
  const auto name_end = line.rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream in{line.substr(name_end + 1)};
  ProcessState found;
  in >> found.state;
  std::string skipped;
  for (int field = 4; field < 22; ++field) in >> skipped;
  in >> found.start;
  if (!in) return std::nullopt;
  return found;
}

/// A killed process whose main thread is gone may still have a thread inside a write.
bool has_other_threads(int pid) {
  std::error_code gone;
  const std::filesystem::directory_iterator threads{text("/proc/", pid, "/task"), gone};
  return !gone && std::distance(begin(threads), end(threads)) > 1;
}

}  // namespace

double process_began(int pid) {
  std::istringstream uptime{first_line("/proc/uptime")};
  const auto state = state_of(pid);
  double up = 0;
  if (!state || !(uptime >> up)) return 0;
  return wall_clock() - up + static_cast<double>(state->start) / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

double this_process_began() { return process_began(::getpid()); }

Process this_process() {
  const int pid = ::getpid();
  return {host_name(), pid, state_of(pid).value_or(ProcessState{}).start, first_line("/proc/sys/kernel/random/boot_id"), pid_namespace()};
}

bool is_certainly_dead(const Process& other) {
  const auto self = this_process();
  if (other.pid <= 0 || other.boot_id.empty() || other.boot_id != self.boot_id || other.pid_namespace != self.pid_namespace) return false;
  if (::kill(other.pid, 0) != 0) return errno == ESRCH;
  const auto found = state_of(other.pid);
  if (!found) return false;
  if (found->start != other.start) return true;
  return (found->state == 'Z' || found->state == 'X') && !has_other_threads(other.pid);
}

double wall_clock() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

std::string utc_text(double seconds_since_1970) {
  const auto seconds = static_cast<std::time_t>(seconds_since_1970);
  std::tm parts{};
  std::array<char, 64> out{};
  if (gmtime_r(&seconds, &parts) == nullptr) return "an unknown time";
  std::strftime(out.data(), out.size(), "%Y-%m-%d %H:%M:%S UTC", &parts);
  return out.data();
}

}  // namespace flotilla::journal
