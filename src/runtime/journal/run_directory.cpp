#include "flotilla/journal/run_directory.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <thread>

#include "flotilla/base/clock.hpp"
#include "flotilla/base/io_failure.hpp"
#include "flotilla/base/log.hpp"
#include "flotilla/files/look.hpp"
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

  /// Nothing when the folder cannot be listed now.
  std::optional<bool> holds() const noexcept;
  bool beat() noexcept;
  void beat_every(std::stop_token, Seconds interval);
  void start_heart(Seconds interval);
};

namespace {

void make_folders(const std::filesystem::path& run) {
  try {
    files::make_folders(run);
    // Its name may be the user's own link; the folders in it are none.
    for (const auto& folder : {std::filesystem::canonical(run), incarnations_folder(run), run / "outcomes"}) files::make_own_folder(folder);
  } catch (const Error& error) {
    throw Error{error.kind(), text(run.string(), ": cannot be made a run directory: ", error.what())};
  }
}

bool is_of_own_job(const Claim& holder, const LockOptions& options) { return !options.job.empty() && holder.job == options.job; }

/// How old this holder's heartbeat is when it is taken for dead.
Seconds stale_after(const Claim& holder, const LockOptions& options) {
  return is_of_own_job(holder, options) ? std::min(options.stale_after, options.own_job_stale_after) : options.stale_after;
}

/// How long this holder is waited for: a job never waits for another's, and for its own earlier start until that must be stale.
Seconds patience(const Claim& holder, const LockOptions& options) {
  return is_of_own_job(holder, options) ? std::max(options.wait, stale_after(holder, options) + options.heartbeat) : options.wait;
}

std::string takeover_note(const Claim& holder, Standing standing, double now) {
  if (standing == Standing::released) return {};
  return text(description(holder, now), standing == Standing::dead ? ", is dead" : ", no longer answers", "; taken over");
}

[[noreturn]] void refuse_held(const std::filesystem::path& run, const Claim& holder, double now, const LockOptions& options) {
  throw Error{ErrorKind::unavailable, text(run.string(), ": in use by ", description(holder, now),
                                           "; wait until it ends, stop it, or choose another run directory (",
                                           "without a heartbeat it is taken over after ", stale_after(holder, options), ")")};
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
    const auto standing = judge(*holder, clock, stale_after(*holder, options));
    if (standing != Standing::held) return {last, takeover_note(*holder, standing, clock)};
    if (waited >= patience(*holder, options)) refuse_held(run, *holder, clock, options);
    if (!told) {
      log::info(run.string(), ": in use by ", description(*holder, clock), "; waiting up to ", patience(*holder, options),
                " for it to end");
    }
    std::this_thread::sleep_for(std::chrono::milliseconds{200});
  }
}

/// Names of files that this program writes into a run directory and its folders: "outcome.json", "17.json", "17.3.json", "clock".
bool writes_such_files(std::string_view name) {
  for (const std::string_view ours : {"outcome.json", "profile.json", "control.json", "submission.json", "submit.sh", "clock"})
    if (name == ours) return true;
  return name.ends_with(".json") && name.find_first_not_of("0123456789.") == name.size() - std::string_view{"json"}.size();
}

/// Removes what processes of this user that were killed while they wrote have left: files under names that only this program gives, last
/// changed `age` seconds ago or longer; outcomes at once. What cannot be seen now is there at the next start, too.
void clear_leftovers(const std::filesystem::path& folder, double clock, double age) {
  for (const auto& name : files::names_in(folder, impatient).value_or(std::vector<std::string>{})) {
    const auto stem = files::stem_of_unfinished(name);
    if (!writes_such_files(stem)) continue;
    const auto facts = files::facts_of(folder / name, impatient);
    if (!facts || facts->type != files::FileType::regular || !facts->mine) continue;
    if (clock - facts->modified >= (stem == "outcome.json" ? 0 : age)) ::unlink((folder / name).c_str());
  }
}

/// Outcomes are written by ranks of the run alone, and those that still write are of an incarnation that is over. Elsewhere somebody may be
/// writing: another job that wants the directory, somebody who asks for another plan.
void clear_leftovers(const std::filesystem::path& run) {
  try {
    const double clock = file_system_clock(incarnations_folder(run));
    clear_leftovers(run / "outcomes", clock, 0);
    for (const auto& folder : {run, incarnations_folder(run)}) clear_leftovers(folder, clock, 60);
  } catch (const Error& error) {
    log::debug(error.what(), "; left-over files stay until the next start");
  }
}

/// An earlier incarnation's: scripts must not take it for ours.
void remove_outcome(const std::filesystem::path& run) {
  const auto file = outcome_file(run);
  const int error = patiently(file.native(), [&] { return ::unlink(file.c_str()) == 0 ? 0 : errno; });
  FLOTILLA_REQUIRE(error == 0 || io_failure(error) == IoFailure::absent, io_error_kind(error), file.string(),
                   ": cannot be removed: ", std::strerror(error));
}

}  // namespace

std::optional<bool> RunDirectory::State::holds() const noexcept {
  try {
    return newest_incarnation(run, impatient) == claim.number;
  } catch (...) {
    return std::nullopt;
  }
}

bool RunDirectory::State::beat() noexcept {
  const std::lock_guard lock{mutex};
  if (claim.released > 0 || !holds().value_or(true)) return false;
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
    FLOTILLA_REQUIRE(vacancy.last < last_incarnation, ErrorKind::bad_input, claim_file(path, vacancy.last).string(),
                     ": no incarnation has a higher number; remove the file if no run wrote it");
    state->claim.number = vacancy.last + 1;
    state->claim.started = wall_clock();
    state->note = std::move(vacancy.note);
    // Numbers are never used twice, so whoever makes the next one's file has won, however late the others come.
  } while (!publish_once(claim_file(path, state->claim.number), to_json(state->claim)));
  remove_outcome(path);
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
  return state_->claim.released == 0 && state_->holds().value_or(false);
}

void RunDirectory::require_mine() const {
  const int newest = newest_incarnation(state_->run);
  {
    const std::lock_guard lock{state_->mutex};
    if (newest == state_->claim.number && state_->claim.released == 0) return;
  }
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
    if (files::facts_of(file, impatient)) files::write_text(file, to_json(state_->claim));
  } catch (...) {
    // Whoever comes next finds this process dead, or its heartbeat stale.
  }
}

std::optional<DirectoryHolder> newest_holder(const std::filesystem::path& run) {
  const auto claim = read_claim(run, newest_incarnation(run));
  if (!claim) return std::nullopt;
  return DirectoryHolder{claim->number,      claim->process.host, claim->process.pid,
                         claim->job,         claim->started,      std::max(0.0, wall_clock() - claim->heartbeat),
                         claim->released > 0};
}

std::filesystem::path step_folder(const std::filesystem::path& run, std::int64_t step) { return run / text("step-", step); }
std::filesystem::path metrics_file(const std::filesystem::path& run) { return run / "metrics.jsonl"; }
std::filesystem::path outcome_file(const std::filesystem::path& run) { return run / "outcome.json"; }

}  // namespace flotilla::journal
