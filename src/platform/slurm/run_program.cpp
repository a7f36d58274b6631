#include "flotilla/slurm/run_program.hpp"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>
#include <thread>

#include "answer_fields.hpp"
#include "flotilla/base/clock.hpp"
#include "flotilla/base/descriptor.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/base/foreign_text.hpp"

extern char** environ;

namespace flotilla::slurm {
namespace {

constexpr std::size_t most_said = std::size_t{1} << 30;
constexpr Seconds to_die{5};    // of a killed program, unless a file system holds it
constexpr int kill_signal = 9;  // the signal headers belong to another room

struct Pipe {
  Descriptor read, write;
};

Pipe make_pipe() {
  std::array<int, 2> ends{};
  FLOTILLA_REQUIRE(::pipe2(ends.data(), O_CLOEXEC) == 0, ErrorKind::unavailable, "no pipe: ", std::strerror(errno));
  return {Descriptor{ends[0]}, Descriptor{ends[1]}};
}

/// The process and the ends of what it says.
struct Child {
  pid_t id = -1;
  Descriptor out, err;
};

/// Users' settings for Slurm's programs change what these print and ask for (SLURM_TIME_FORMAT, SINFO_FORMAT, SQUEUE_SORT, ...): only what
/// says where the cluster is, and who asks, goes through.
std::vector<char*> clean_environment() {
  static char standard_times[] = "SLURM_TIME_FORMAT=standard";
  std::vector<char*> kept;
  const auto begins = [](const char* variable, std::initializer_list<const char*> these) {
    return std::ranges::any_of(these, [&](const char* word) { return std::string_view{variable}.starts_with(word); });
  };
  for (char** variable = environ; *variable != nullptr; ++variable)
    if (!begins(*variable, {"SLURM_", "SINFO_", "SQUEUE_", "SCONTROL_", "SACCTMGR_"}) ||
        begins(*variable, {"SLURM_CONF=", "SLURM_CONF_SERVER=", "SLURM_JWT="}))
      kept.push_back(*variable);
  kept.insert(kept.end(), {standard_times, nullptr});
  return kept;
}

/// A file in memory with these bytes, to be read from the beginning.
Descriptor file_of(std::string_view bytes) {
  Descriptor file{::memfd_create("input", MFD_CLOEXEC)};
  bool good = static_cast<bool>(file);
  for (std::size_t done = 0; good && done < bytes.size();) {
    const auto wrote = ::pwrite(file.get(), bytes.data() + done, bytes.size() - done, static_cast<off_t>(done));
    good = wrote > 0;
    done += static_cast<std::size_t>(std::max<ssize_t>(wrote, 0));
  }
  FLOTILLA_REQUIRE(good, ErrorKind::unavailable, "no room in memory for a program's input: ", std::strerror(errno));
  return file;
}

Child start(const std::vector<std::string>& arguments, std::string_view input) {
  auto environment = clean_environment();
  std::vector<char*> words;
  for (const auto& argument : arguments) words.push_back(const_cast<char*>(argument.c_str()));
  words.push_back(nullptr);
  const auto in = file_of(input);
  auto out = make_pipe(), err = make_pipe();
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in.get(), STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, out.write.get(), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, err.write.get(), STDERR_FILENO);
  Child child;
  const int failed = ::posix_spawnp(&child.id, words.front(), &actions, nullptr, words.data(), environment.data());
  posix_spawn_file_actions_destroy(&actions);
  FLOTILLA_REQUIRE(failed == 0, ErrorKind::unavailable, printable(arguments.front()), " cannot be started: ", std::strerror(failed));
  child.out = std::move(out.read);
  child.err = std::move(err.read);
  return child;
}

/// Adds what is there to read; false at the end.
bool drain(int descriptor, std::string& into) {
  std::array<char, 65536> buffer;
  const auto got = ::read(descriptor, buffer.data(), buffer.size());
  if (got < 0) return errno == EINTR;
  into.append(buffer.data(), static_cast<std::size_t>(got));
  return got > 0;
}

/// Until both ends are closed. False where the deadline passed or too much was said.
bool listen(const Child& child, ProgramOutput& output, Seconds end) {
  std::array<pollfd, 2> ends{pollfd{child.out.get(), POLLIN, 0}, pollfd{child.err.get(), POLLIN, 0}};
  std::array<std::string*, 2> into{&output.out, &output.err};
  while (ends[0].fd >= 0 || ends[1].fd >= 0) {
    const double left = (end - now()).value;
    if (left <= 0) return false;
    ::poll(ends.data(), ends.size(), static_cast<int>(std::min(left, 3600.0) * 1000) + 1);
    for (std::size_t e = 0; e < ends.size(); ++e)
      if (ends[e].fd >= 0 && ends[e].revents != 0 && !drain(ends[e].fd, *into[e])) ends[e].fd = -1;
    if (output.out.size() + output.err.size() > most_said) return false;
  }
  return true;
}

/// The exit status; nothing while it runs after `end`: it may have closed its output and live on.
std::optional<int> status_of(pid_t id, Seconds end) {
  int status = 0;
  for (pid_t got = 0; got != id; std::this_thread::sleep_for(std::chrono::milliseconds{2})) {
    got = ::waitpid(id, &status, WNOHANG);
    if (got == 0 && now() > end) return std::nullopt;
    if (got < 0 && errno != EINTR) return 127;  // somebody else has waited for it
    if (got == id) break;
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

std::string first_line(const std::string& words) {
  const auto lines = lines_of(words);
  return lines.empty() ? "no output" : std::string{lines.front().substr(0, 300)};
}

}  // namespace

ProgramOutput run_program(const std::vector<std::string>& arguments, Seconds deadline, std::string_view input) {
  FLOTILLA_ASSERT(!arguments.empty());
  const Seconds end = now() + deadline;
  const auto child = start(arguments, input);
  ProgramOutput output;
  auto status = listen(child, output, end) ? status_of(child.id, end) : std::nullopt;
  const bool ended = status.has_value();
  if (!ended) {
    ::kill(child.id, kill_signal);
    status = status_of(child.id, now() + to_die);
  }
  output.status = status.value_or(128 + kill_signal);
  FLOTILLA_REQUIRE(ended, ErrorKind::unavailable, printable(arguments.front()), " did not end within ", deadline,
                   "; is the controller up?");
  return output;
}

std::string answer_of(const std::vector<std::string>& arguments, Seconds deadline, std::string_view input) {
  auto output = run_program(arguments, deadline, input);
  FLOTILLA_REQUIRE(output.good(), ErrorKind::unavailable, printable(arguments.front()), " ended with ", output.status, ": ",
                   first_line(output.err.empty() ? output.out : output.err));
  return std::move(output.out);
}

}  // namespace flotilla::slurm
