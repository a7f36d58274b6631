#include "flotilla/journal/run_directory.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "flotilla/base/clock.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/base/log.hpp"
#include "flotilla/files/text_file.hpp"
#include "incarnation.hpp"
#include "publish.hpp"

namespace flotilla::journal {

struct RunDirectory::State {
  std::filesystem::path run;
  Claim claim;
  std::string note;
  std::mutex mutex;  ///< over `claim` and its file
  std::condition_variable_any wake;
  std::jthread heart;  ///< last: it must end before the rest does

  bool holds() const noexcept;
  bool beat() noexcept;
  void beat_every(std::stop_token, Seconds interval);
  void start_heart(Seconds interval);
};

namespace {

void make_folders(const std::filesystem::path& run) {
  std::error_code failed;
  std::filesystem::create_directories(incarnations_folder(run), failed);
  FLOTILLA_REQUIRE(!failed, ErrorKind::bad_input, run.string(), ": cannot be made a run directory: ", failed.message());
}

/// How long this holder is waited for: a job never waits for another's, and for its own earlier start until that must be stale.
Seconds patience(const Claim& holder, const LockOptions& options) {
  const bool own_job = !options.job.empty() && holder.job == options.job;
  return own_job ? std::max(options.wait, options.stale_after + options.heartbeat) : options.wait;
}

std::string takeover_note(const Claim& holder, Standing standing, double now) {
  if (standing == Standing::released) return {};
  return text(description(holder, now), standing == Standing::dead ? ", is dead" : ", no longer answers", "; taken over");
}

[[noreturn]] void refuse_held(const std::filesystem::path& run, const Claim& holder, double now, const LockOptions& options) {
  throw Error{ErrorKind::unavailable, text(run.string(), ": in use by ", description(holder, now),
                                           "; wait until it ends, stop it, or choose another run directory (",
                                           "without a heartbeat it is taken over after ", options.stale_after, ")")};
}

/// Waits until nobody holds the directory; returns the number of the last incarnation, 0 for none, and what to note.
struct Vacancy {
  int last = 0;
  std::string note;
};
Vacancy wait_for_vacancy(const std::filesystem::path& run, const LockOptions& options, Seconds since) {
  for (bool told = false;; told = true) {
    const int last = newest_incarnation(run);
    if (last == 0) return {};
    // In this order: between two of these lines this process may stand still for long (stopped, suspended, a busy machine). A heartbeat
    // read before the clock would seem as old as that, and patience read last could be over without another look at the holder.
    const Seconds waited = now() - since;
    const double clock = file_system_clock(incarnations_folder(run));
    const auto holder = read_claim(run, last);
    if (!holder) return {last, {}};  // its file was taken away: who held it sees that, too
    const auto standing = judge(*holder, clock, options.stale_after);
    if (standing != Standing::held) return {last, takeover_note(*holder, standing, clock)};
    if (waited >= patience(*holder, options)) refuse_held(run, *holder, clock, options);
    if (!told) {
      log::info(run.string(), ": in use by ", description(*holder, clock), "; waiting up to ", patience(*holder, options),
                " for it to end");
    }
    std::this_thread::sleep_for(std::chrono::milliseconds{200});
  }
}

/// Removes what processes that were killed while they wrote have left: files under names of their own, last changed `age` seconds ago or
/// longer; outcomes at once.
void clear_leftovers(const std::filesystem::path& folder, double clock, double age) {
  std::error_code failed;
  for (std::filesystem::directory_iterator entry{folder, failed}, end; !failed && entry != end; entry.increment(failed)) {
    const auto name = entry->path().filename().string();
    struct ::stat facts {};
    if (!(name.ends_with(".tmp") || name.ends_with(".own")) || ::lstat(entry->path().c_str(), &facts) != 0 || !S_ISREG(facts.st_mode))
      continue;
    const double least = name.starts_with("outcome.json.") ? 0 : age;
    if (clock - static_cast<double>(facts.st_mtim.tv_sec) >= least) ::unlink(entry->path().c_str());
  }
}

/// Outcomes are written by ranks of the run alone, and those that still write are of an incarnation that is over. Elsewhere somebody may be
/// writing: another job that wants the directory, somebody who asks for another plan.
void clear_leftovers(const std::filesystem::path& run) {
  const double clock = file_system_clock(incarnations_folder(run));
  clear_leftovers(run / "outcomes", clock, 0);
  for (const auto& folder : {run, incarnations_folder(run)}) clear_leftovers(folder, clock, 60);
}

}  // namespace

bool RunDirectory::State::holds() const noexcept {
  try {
    return newest_incarnation(run) == claim.number;
  } catch (...) {
    return false;
  }
}

bool RunDirectory::State::beat() noexcept {
  const std::lock_guard lock{mutex};
  if (claim.released > 0 || !holds()) return false;
  try {
    ::utimensat(AT_FDCWD, claim_file(run, claim.number).c_str(), nullptr, 0);
  } catch (...) {
    return false;
  }
  return true;
}

void RunDirectory::State::beat_every(std::stop_token stop, Seconds interval) {
  std::mutex unused;
  std::unique_lock lock{unused};
  const std::chrono::duration<double> period{interval.value};
  while (!wake.wait_for(lock, stop, period, [&] { return stop.stop_requested(); })) {
    if (!beat()) return;
  }
}

void RunDirectory::State::start_heart(Seconds interval) {
  if (interval.value <= 0) return;
  // Signals are for the threads that wait for them; a new thread inherits the mask.
  sigset_t all{}, before{};
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  heart = std::jthread{[this, interval](std::stop_token stop) { beat_every(std::move(stop), interval); }};
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

RunDirectory RunDirectory::open(const std::filesystem::path& path, const LockOptions& options) {
  make_folders(path);
  auto state = std::make_unique<State>();
  state->run = path;
  state->claim.process = this_process();
  state->claim.job = options.job;
  const auto since = now();
  do {
    auto vacancy = wait_for_vacancy(path, options, since);
    state->claim.number = vacancy.last + 1;
    state->claim.started = wall_clock();
    state->note = std::move(vacancy.note);
    // Numbers are never used twice, so whoever makes the next one's file has won, however late the others come.
  } while (!publish_once(claim_file(path, state->claim.number), to_json(state->claim)));
  ::unlink(outcome_file(path).c_str());  // an earlier incarnation's: scripts must not take it for ours
  clear_leftovers(path);
  state->start_heart(options.heartbeat);
  return RunDirectory{std::move(state)};
}

RunDirectory::RunDirectory(std::unique_ptr<State> state) : state_{std::move(state)} {}
RunDirectory::RunDirectory(RunDirectory&&) noexcept = default;
RunDirectory& RunDirectory::operator=(RunDirectory&& other) noexcept {
  if (this != &other) {
    release();
    state_ = std::move(other.state_);
  }
  return *this;
}
RunDirectory::~RunDirectory() { release(); }

const std::filesystem::path& RunDirectory::path() const { return state_->run; }
int RunDirectory::incarnation() const { return state_->claim.number; }
const std::string& RunDirectory::note() const { return state_->note; }

bool RunDirectory::touch() noexcept { return state_->beat(); }
bool RunDirectory::still_mine() const noexcept {
  const std::lock_guard lock{state_->mutex};
  return state_->claim.released == 0 && state_->holds();
}

void RunDirectory::require_mine() const {
  if (still_mine()) return;
  const int newest = newest_incarnation(state_->run);
  const auto holder = newest > state_->claim.number ? read_claim(state_->run, newest) : std::nullopt;
  throw Error{ErrorKind::unavailable,
              text(state_->run.string(), ": incarnation ", state_->claim.number, " no longer holds it",
                   holder ? ": taken over by " + description(*holder, wall_clock()) : ": its incarnation file is gone or released",
                   "; this process stops and writes nothing more")};
}

void RunDirectory::release() noexcept {
  if (!state_) return;
  state_->heart.request_stop();
  const std::lock_guard lock{state_->mutex};
  // A forked child leaves its parent's lock alone.
  if (state_->claim.released > 0 || state_->claim.process.pid != ::getpid()) return;
  state_->claim.released = wall_clock();
  try {
    const auto file = claim_file(state_->run, state_->claim.number);
    if (std::filesystem::exists(file)) files::write_text(file, to_json(state_->claim));
  } catch (...) {
    // Whoever comes next finds this process dead, or its heartbeat stale.
  }
}

std::optional<Holder> newest_holder(const std::filesystem::path& run) {
  const auto claim = read_claim(run, newest_incarnation(run));
  if (!claim) return std::nullopt;
  return Holder{claim->number,      claim->process.host, claim->process.pid,
                claim->job,         claim->started,      std::max(0.0, wall_clock() - claim->heartbeat),
                claim->released > 0};
}

std::filesystem::path step_folder(const std::filesystem::path& run, std::int64_t step) { return run / text("step-", step); }
std::filesystem::path metrics_file(const std::filesystem::path& run) { return run / "metrics.jsonl"; }
std::filesystem::path outcome_file(const std::filesystem::path& run) { return run / "outcome.json"; }

}  // namespace flotilla::journal
