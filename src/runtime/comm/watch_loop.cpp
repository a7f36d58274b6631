#include "watch_loop.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "flotilla/base/clock.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/mpi/backoff.hpp"
#include "leaked_requests.hpp"

namespace flotilla::comm {
namespace {

constexpr double ticks_per_interval = 10;
constexpr Seconds shortest_tick{0.001};

std::chrono::duration<double> chrono(Seconds time) { return std::chrono::duration<double>{std::max(time.value, 0.0)}; }

}  // namespace

Watch::Loop::Loop(const World& world, WatchOptions options, OnTrouble on_trouble)
    : world_{world},
      options_{options},
      on_trouble_{std::move(on_trouble)},
      tick_{std::max(options.interval / ticks_per_interval, shortest_tick)},
      reached_(static_cast<std::size_t>(world.size())),
      lines_{std::make_unique<std::vector<PeerLine>>()},
      last_round_{now()} {
  const int first = is_hub() ? 1 : 0;
  const int end = is_hub() ? world.size() : 1;
  lines_->reserve(static_cast<std::size_t>(std::max(end - first, 0)));
  for (int r = first; r < end; ++r) lines_->emplace_back(world, Rank{r}, options_.secret, last_round_);
  thread_ = std::thread{[this] { run(); }};
}

Watch::Loop::~Loop() { finish(); }

void Watch::Loop::finish() {
  {
    const std::lock_guard lock{mutex_};
    quit_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

// The owner's side.

void Watch::Loop::request_stop(const std::string& reason, bool urgent) {
  {
    const std::lock_guard lock{mutex_};
    if (leaving_ || (wish_ && (wish_->urgent || !urgent))) return;
    if (wish_)
      wish_->urgent = true;
    else
      wish_ = StopRequest{world_.rank(), reason, urgent};
    news_ = true;
  }
  wake_.notify_all();
}

void Watch::Loop::give_up(std::int64_t step) {
  {
    const std::lock_guard lock{mutex_};
    if (leaving_ || !hear_of_giving_up(step)) return;
    news_ = true;
  }
  wake_.notify_all();
}

bool Watch::Loop::hear_of_giving_up(std::int64_t step) {
  if (step <= given_up_) return false;
  given_up_ = step;
  return true;
}

std::optional<StopRequest> Watch::Loop::stop_requested() const {
  const std::lock_guard lock{mutex_};
  return stop_;
}

void Watch::Loop::reach(int place) {
  const std::lock_guard lock{mutex_};
  reached_.at(world_.rank().index()) = place;
}

std::vector<int> Watch::Loop::reached() const {
  const std::lock_guard lock{mutex_};
  return reached_;
}

std::optional<Trouble> Watch::Loop::trouble() const {
  const std::lock_guard lock{mutex_};
  return trouble_;
}

void Watch::Loop::announce_failure(const LastWords& words, Seconds deadline) {
  std::unique_lock lock{mutex_};
  if (std::this_thread::get_id() == thread_.get_id() || done_) return;
  if (!failure_) failure_ = words;
  news_ = true;
  wake_.notify_all();
  if (!told_.wait_for(lock, chrono(deadline), [&] { return trouble_is_out_ || done_; })) return;
  // The word is on its way; the others read it at their next tick.
  told_.wait_for(lock, chrono(3.0 * tick_), [&] { return done_; });
}

void Watch::Loop::close(Seconds deadline) {
  std::unique_lock lock{mutex_};
  leaving_ = true;
  news_ = true;
  wake_.notify_all();
  const bool told = told_.wait_for(lock, chrono(deadline), [&] { return over_ || trouble_ || done_; });
  const bool over = over_;
  const std::optional<Trouble> trouble = trouble_;
  lock.unlock();
  finish();
  if (over) return;
  FLOTILLA_REQUIRE(!trouble, ErrorKind::communication, to_string(*trouble));
  FLOTILLA_REQUIRE(told, ErrorKind::communication, "some rank did not come to the end of the watch within ", deadline);
}

// The thread's side.

void Watch::Loop::run() {
  for (bool running = true; running;) {
    round();
    call_owner();
    std::unique_lock lock{mutex_};
    if (!over_) wake_.wait_for(lock, chrono(tick_), [&] { return news_ || quit_; });
    running = !quit_ && !over_;
  }
  farewell();
  if (!all_sent(Rank{})) keep_for_mpi(std::move(lines_));
  const std::lock_guard lock{mutex_};
  done_ = true;
  told_.notify_all();
}

void Watch::Loop::round() {
  const Seconds time = now();
  // Who was stopped himself (a suspended job, a debugger) has heard nobody, and it is nobody's fault.
  if (time - last_round_ > options_.deadline / 2.0)
    for (PeerLine& line : *lines_) line.set_heard(time);
  last_round_ = time;
  for (PeerLine& line : *lines_) hear(line, time);
  judge_silence(time);
  adopt_wishes();
  speak(time);
  told_.notify_all();
}

void Watch::Loop::hear(PeerLine& line, Seconds time) {
  try {
    while (const auto beat = line.receive(time)) learn(line, *beat);
  } catch (const Error& error) {
    cannot_reach(line, error.what());
  }
}

void Watch::Loop::learn(PeerLine& line, const Beat& beat) {
  const auto trouble = beat.trouble(world_);
  if (trouble) learn_trouble(*trouble);
  if (beat.leaving != 0) line.hang_up();
  const std::lock_guard lock{mutex_};
  if (!is_hub()) {
    trouble_is_out_ = trouble_is_out_ || trouble;
    over_ = over_ || beat.leaving != 0;
    stop_ = beat.stop();
    hear_of_giving_up(beat.given_up_step);
    return;
  }
  reached_.at(line.peer().index()) = beat.reached;
  news_ = adopt(beat.stop()) || news_;
  news_ = hear_of_giving_up(beat.given_up_step) || news_;
}

bool Watch::Loop::adopt(const std::optional<StopRequest>& request) {
  if (!request || (stop_ && (stop_->urgent || !request->urgent))) return false;
  if (stop_)
    stop_->urgent = true;
  else
    stop_ = request;
  return true;
}

void Watch::Loop::judge_silence(Seconds time) {
  for (const PeerLine& line : *lines_) {
    const Seconds silence = time - line.heard();
    if (!line.listening() || silence <= options_.deadline) continue;
    Trouble trouble{Trouble::Kind::silent, line.peer(), world_.host(line.peer()), silence, {ExitCode::lost_peer, ""}};
    trouble.words.line = to_string(trouble);
    learn_trouble(std::move(trouble));
  }
}

void Watch::Loop::learn_trouble(Trouble trouble) {
  const std::lock_guard lock{mutex_};
  if (trouble_) return;
  trouble_ = std::move(trouble);
  news_ = true;
}

void Watch::Loop::cannot_reach(PeerLine& line, const std::string& why) {
  line.give_up();
  learn_trouble({Trouble::Kind::failed, line.peer(), world_.host(line.peer()), {}, {ExitCode::lost_peer, why}});
}

/// What the owner asked for becomes this rank's, and at rank 0 the job's.
void Watch::Loop::adopt_wishes() {
  const bool all_left = std::ranges::none_of(*lines_, [](const PeerLine& line) { return line.listening(); });
  const std::lock_guard lock{mutex_};
  if (failure_ && !trouble_) trouble_ = Trouble{Trouble::Kind::failed, world_.rank(), world_.host(world_.rank()), {}, *failure_};
  if (!is_hub()) return;
  adopt(wish_);
  over_ = over_ || (leaving_ && all_left && !trouble_);
}

Beat Watch::Loop::compose() const {
  Beat beat;
  const std::lock_guard lock{mutex_};
  const auto& stop = is_hub() ? stop_ : wish_;
  if (stop) beat.set(*stop);
  if (trouble_) beat.set(*trouble_);
  beat.given_up_step = given_up_;
  beat.reached = reached_.at(world_.rank().index());
  beat.leaving = is_hub() ? over_ : leaving_;
  return beat;
}

void Watch::Loop::speak(Seconds time) {
  const bool regular = time - last_beat_ >= options_.interval;
  bool news = false;
  {
    const std::lock_guard lock{mutex_};
    news = std::exchange(news_, false);
    if (said_leaving_ || over_) return;
  }
  if (news || regular)
    for (PeerLine& line : *lines_) line.set_due();
  if (regular) last_beat_ = time;
  const Beat beat = compose();
  for (PeerLine& line : *lines_)
    if (line.due()) speak_on(line, beat);
  const std::lock_guard lock{mutex_};
  if (is_hub() && beat.trouble_rank >= 0) trouble_is_out_ = true;
}

void Watch::Loop::speak_on(PeerLine& line, const Beat& beat) {
  try {
    if (line.send(beat) && beat.leaving != 0) said_leaving_ = !is_hub();
  } catch (const Error& error) {
    cannot_reach(line, error.what());
  }
}

/// What must still get out before the thread ends: at rank 0 that everybody has left (after which nobody sends to it any more), at any rank
/// the trouble it knows of, save to the one that is silent. A send is complete only when its receiver has looked, so this takes a while.
void Watch::Loop::farewell() {
  const Beat beat = compose();
  const bool over = beat.leaving != 0 && is_hub();
  if (!over && beat.trouble_rank < 0) return;
  if (over)
    for (PeerLine& line : *lines_) line.set_due();
  const Seconds end = now() + (over ? options_.deadline : options_.deadline / 2.0);
  for (mpi::Backoff backoff; now() < end; backoff.pause()) {
    for (PeerLine& line : *lines_)
      if (line.due()) speak_on(line, beat);
    if (all_sent(beat.trouble_silent != 0 ? Rank{beat.trouble_rank} : Rank{})) return;
  }
}

bool Watch::Loop::all_sent(Rank excused) {
  return std::ranges::all_of(*lines_, [this, excused](PeerLine& line) {
    try {
      return line.peer() == excused || (!line.due() && line.sent());
    } catch (const Error& error) {
      cannot_reach(line, error.what());
      return true;
    }
  });
}

void Watch::Loop::call_owner() {
  std::optional<Trouble> trouble;
  {
    const std::lock_guard lock{mutex_};
    trouble = trouble_;
  }
  if (!trouble || called_) return;
  called_ = true;
  const bool own_words = trouble->kind == Trouble::Kind::failed && trouble->rank == world_.rank();
  if (on_trouble_ && !own_words) on_trouble_(*trouble);
}

}  // namespace flotilla::comm
