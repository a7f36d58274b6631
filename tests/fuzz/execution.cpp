#include "fuzz/execution.hpp"

#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <iostream>
#include <system_error>

#include "app/command_table.hpp"
#include "app/common/commands.hpp"
#include "flotilla/data/token_file.hpp"
#include "flotilla/files/hugging_face.hpp"
#include "flotilla/model/tensors.hpp"
#include "flotilla/signals/stop_signals.hpp"
#include "flotilla/weights/pretrained.hpp"

namespace flotilla::fuzz {
namespace {

constexpr std::int64_t most_output = 64 << 20;
constexpr Seconds hang_bound_of_one{900};  // wall time; what computes is ended by its processor time, however busy the machine is
constexpr rlim_t most_memory = rlim_t{6} << 30;

/// Sanitizers reserve terabytes of addresses.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool sanitized = true;
#else
constexpr bool sanitized = false;
#endif

[[noreturn]] void fail(const char* what) { throw std::system_error{errno, std::generic_category(), what}; }

/// Reads every token, as a training run does in the course of time.
int read_tokens(std::span<const std::string> arguments) {
  const auto file = data::TokenFile::open(arguments.empty() ? "" : arguments[0]);
  std::vector<std::int32_t> block(4096);
  for (std::int64_t at = 0; at < file.size(); at += 4096) {
    const auto count = std::min<std::int64_t>(4096, file.size() - at);
    file.read(at, std::span{block}.first(static_cast<std::size_t>(count)), 1 << 20);
  }
  file.scan(0, file.size(), 1 << 20);
  static_cast<void>(file.fingerprint());
  return 0;
}

/// Reads every weight, as the ranks of a new run do together.
int read_weights(std::span<const std::string> arguments) {
  const std::filesystem::path folder = arguments.empty() ? "" : arguments[0];
  const auto config = files::read_hugging_face_config(folder / "config.json");
  weights::Pretrained pretrained{folder, config};
  const auto tensors = model::tensors(config);
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    std::vector<float> values(static_cast<std::size_t>(tensors[t].elements()));
    pretrained.read(static_cast<int>(t), {{.inner = tensors[t].elements()}}, values);
  }
  return 0;
}

/// In the place of this process: what slurm/flotilla.sh makes of a run that it did not write.
int read_in_job_script(std::span<const std::string>) {
  const auto script = std::string{FLOTILLA_TESTS_SOURCE} + "/../slurm/flotilla.sh";
  constexpr const char* lines =
      "set -u; . \"$0\"; FLOTILLA_RUN=run FLOTILLA_TRIES=3 flotilla_tries=0 flotilla_tried_at=; flotilla_outcome incarnation; "
      "flotilla_outcome exit_code; flotilla_lacked_room 1; flotilla_accused 1 n0 n1 n2 n3; flotilla_made_progress; flotilla_made_progress; "
      "[ ! -e executed ] || exit 70; exit 0";
  ::execl("/bin/bash", "bash", "-c", lines, script.c_str(), nullptr);
  fail("bash");
}

const std::vector<app::Command>& commands() {
  static const auto table = [] {
    auto all = app::command_table();
    all.push_back(
        {.name = "tokens", .summary = "read a token file", .operands = "FILE", .run = read_tokens, .options = {}, .hidden = true});
    all.push_back(
        {.name = "weights", .summary = "read a model's weights", .operands = "DIR", .run = read_weights, .options = {}, .hidden = true});
    all.push_back(
        {.name = "job-script", .summary = "read a run", .operands = "", .run = read_in_job_script, .options = {}, .hidden = true});
    return all;
  }();
  return table;
}

/// A file in memory that takes what the child writes.
class Capture {
 public:
  Capture() : file_{memfd_create("capture", MFD_CLOEXEC)} {
    if (file_ < 0) fail("memfd_create");
  }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;
  ~Capture() { ::close(file_); }

  void take_over(int descriptor) const { ::dup2(file_, descriptor); }
  std::string text() const {
    std::string all;
    std::array<char, 65536> block;
    for (off_t at = 0;;) {
      const auto got = ::pread(file_, block.data(), block.size(), at);
      if (got <= 0) return all;
      all.append(block.data(), static_cast<std::size_t>(got));
      at += got;
    }
  }

 private:
  int file_;
};

void limit(int resource, rlim_t most, rlim_t hard = 0) {
  const rlimit value{most, std::max(most, hard)};
  ::setrlimit(static_cast<__rlimit_resource>(resource), &value);
}

[[noreturn]] void be_the_program(const Invocation& invocation, rlim_t processor_seconds) {
  ::setpgid(0, 0);
  limit(RLIMIT_CORE, 0);
  if (processor_seconds > 0) limit(RLIMIT_CPU, processor_seconds, processor_seconds + 5);
  limit(RLIMIT_FSIZE, most_output);
  signals::ignore_file_size_limits();  // as main() does
  if (!sanitized) limit(RLIMIT_AS, most_memory);
  if (::chdir(invocation.folder.c_str()) != 0) std::_Exit(127);
  for (const auto& [name, value] : invocation.environment) ::setenv(name.c_str(), value.c_str(), 1);
  const int code = app::run_command(commands(), invocation.arguments, [] { return std::vector<std::pair<std::string, std::string>>{}; });
  std::cout.flush();
  std::_Exit(code);
}

/// Waits for the child's end; kills it and its own children where it hangs.
void await(pid_t child, Outcome& outcome) {
  const int handle = static_cast<int>(::syscall(SYS_pidfd_open, child, 0));
  if (handle < 0) fail("pidfd_open");
  pollfd ended{handle, POLLIN, 0};
  outcome.timed_out = ::poll(&ended, 1, static_cast<int>(hang_bound_of_one.value * 1000)) == 0;
  ::close(handle);
  if (outcome.timed_out) ::kill(-child, SIGKILL);
  int status = 0;
  rusage used{};
  while (::wait4(child, &status, 0, &used) < 0 && errno == EINTR) {
  }
  const auto seconds = [](const timeval& time) { return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec); };
  outcome.processor_seconds = seconds(used.ru_utime) + seconds(used.ru_stime);
  ::kill(-child, SIGKILL);  // what it started and left behind
  if (WIFEXITED(status)) outcome.exit_code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) outcome.signal = WTERMSIG(status);
}

}  // namespace

Outcome execute(const Invocation& invocation, int processor_seconds) {
  const Capture out, err;
  std::cout.flush();
  const pid_t child = ::fork();
  if (child < 0) fail("fork");
  if (child == 0) {
    out.take_over(STDOUT_FILENO);
    err.take_over(STDERR_FILENO);
    be_the_program(invocation, static_cast<rlim_t>(processor_seconds));
  }
  Outcome outcome;
  await(child, outcome);
  outcome.out = out.text();
  outcome.err = err.text();
  return outcome;
}

}  // namespace flotilla::fuzz
