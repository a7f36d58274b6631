#include "flotilla/comm/watch.hpp"

#include <unistd.h>

#include <condition_variable>
#include <cstdlib>
#include <ctime>
#include <deque>
#include <functional>
#include <thread>

#include "flotilla/base/clock.hpp"
#include "flotilla/base/error.hpp"
#include "slow_ranks.hpp"
#include "support/waiting.hpp"
#include "world_fixture.hpp"

namespace flotilla::comm {
namespace {

/// Where silence is the matter. A busy machine may keep a thread from running for longer: then again, with more time.
const std::vector<Seconds> deadlines{{4}, {16}, {64}};
WatchOptions quick(Seconds deadline) { return {{0.05}, deadline}; }
Seconds longer_than(Seconds deadline) { return deadline * 1.25; }
/// Where it is not.
constexpr WatchOptions calm{{0.05}, flotilla::tests::hang_bound()};

void sleep(Seconds time) { std::this_thread::sleep_for(std::chrono::duration<double>{time.value}); }

/// Remembers what the watch says.
class Listener {
 public:
  Watch::OnTrouble callback() {
    return [this](const Trouble& trouble) {
      const std::lock_guard lock{mutex_};
      heard_.push_back(trouble);
      told_.notify_all();
    };
  }
  std::vector<Trouble> heard() const {
    const std::lock_guard lock{mutex_};
    return heard_;
  }
  std::optional<Trouble> wait() {
    std::unique_lock lock{mutex_};
    told_.wait_for(lock, std::chrono::duration<double>{patience.value}, [&] { return !heard_.empty(); });
    return heard_.empty() ? std::nullopt : std::optional{heard_.front()};
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable told_;
  std::vector<Trouble> heard_;
};

class WatchTest : public WorldTest {
 protected:
  /// Each watch has a world of its own, and none is freed before the end: what a failed one leaves in flight must reach neither the next
  /// nor a communicator that takes over its number.
  const World& fresh() const {
    static std::deque<World> worlds;
    return worlds.emplace_back(world.control(), patience);
  }
  /// Outside our own channels.
  static bool on_any_rank(bool here) {
    int mine = here ? 1 : 0, any = 0;
    MPI_Allreduce(&mine, &any, 1, MPI_INT, MPI_LOR, MPI_COMM_WORLD);
    return any != 0;
  }
  /// Whether anybody is missed while all work; nobody should be.
  template <class Work>
  bool somebody_is_missed(Work work) const {
    const auto attempt = [&](Seconds deadline) {
      Listener ears;
      bool failed = false;
      try {
        const World& own = fresh();
        Watch watch{own, quick(deadline), ears.callback()};
        work(watch, deadline);
        watch.close(patience);
      } catch (const Error&) {
        failed = true;
      }
      return on_any_rank(failed || !ears.heard().empty());
    };
    return tests::with_deadlines(attempt, std::identity{}, deadlines);
  }
  Listener listener;
};

TEST_F(WatchTest, QuietWhileAllAreWell) {
  if (size == 1) return;  // nobody to hear
  EXPECT_FALSE(somebody_is_missed([](const Watch& watch, Seconds deadline) {
    sleep(longer_than(deadline));
    EXPECT_FALSE(watch.stop_requested());
  }));
}

TEST_F(WatchTest, ClosesAtOnceAndAgain) {
  for (int i = 0; i < 5; ++i) {
    const World& own = fresh();
    Watch watch{own, calm, listener.callback()};
    watch.close(patience);
  }
  EXPECT_TRUE(listener.heard().empty());
}

/// Whoever does not know the secret of the run is silent, whatever it sends.
TEST_F(WatchTest, BeatsWithAnotherSecretAreNotHeard) {
  if (size == 1) return;  // nobody to hear
  const bool stranger = world.rank() == Rank{1};
  const auto named = stranger ? Rank{0} : Rank{1};
  const auto attempt = [&](Seconds deadline) {
    auto options = quick(deadline);
    if (stranger) options.secret.back() = 1;
    Listener ears;
    const World& own = fresh();
    const Watch watch{own, options, ears.callback()};
    const auto trouble = ears.wait();
    meet();  // nobody's watch ends before all have heard
    return trouble;
  };
  const auto another = [&](const std::optional<Trouble>& heard) { return on_any_rank(heard && heard->rank != named); };
  const auto trouble = tests::with_deadlines(attempt, another, deadlines);
  ASSERT_TRUE(trouble);
  EXPECT_EQ(trouble->kind, Trouble::Kind::silent);
  EXPECT_EQ(trouble->rank, named);
}

/// Whoever finishes early is not missed, and whoever finishes late is waited for.
TEST_F(WatchTest, FinishingAtDifferentTimesIsNotTrouble) {
  if (size == 1) return;  // nobody to wait for
  for (const int late : {0, size - 1})
    EXPECT_FALSE(somebody_is_missed([&](const Watch&, Seconds deadline) {
      if (me == late) sleep(longer_than(deadline));
    }));
}

TEST_F(WatchTest, StopRequestOfAnyRankReachesAll) {
  for (int origin = 0; origin < size; ++origin) {
    const World& own = fresh();
    Watch watch{own, calm, listener.callback()};
    if (me == origin) watch.request_stop("SIGTERM");
    ASSERT_TRUE(tests::until([&] { return watch.stop_requested().has_value(); }));
    EXPECT_EQ(*watch.stop_requested(), (StopRequest{Rank{origin}, "SIGTERM"}));
    watch.close(patience);
  }
}

TEST_F(WatchTest, AnUrgentRequestMakesTheFirstOneUrgent) {
  const int last = size - 1;
  const World& own = fresh();
  Watch watch{own, calm, listener.callback()};
  if (me == last) watch.request_stop("a warning");
  ASSERT_TRUE(tests::until([&] { return watch.stop_requested().has_value(); }));
  EXPECT_FALSE(watch.stop_requested()->urgent);
  mpi::barrier(world.messages(), patience);
  if (me == last) watch.request_stop("SIGTERM", true);
  ASSERT_TRUE(tests::until([&] { return watch.stop_requested()->urgent; }));
  EXPECT_EQ(*watch.stop_requested(), (StopRequest{Rank{last}, "a warning", true}));
  watch.close(patience);
}

TEST_F(WatchTest, EveryRankHearsOfAStepThatIsGivenUp) {
  for (int origin = 0; origin < size; ++origin) {
    const World& own = fresh();
    Watch watch{own, calm, listener.callback()};
    EXPECT_EQ(watch.given_up(), -1);
    meet();  // else a quick origin's word is there before a slow rank has looked
    if (me == origin) watch.give_up(7);
    ASSERT_TRUE(tests::until([&] { return watch.given_up() == 7; }));
    if (me == origin) watch.give_up(3);
    EXPECT_EQ(watch.given_up(), 7) << "the highest counts";
    watch.close(patience);
  }
}

TEST_F(WatchTest, RankZeroHearsHowFarEachRankIs) {
  const World& own = fresh();
  Watch watch{own, calm, listener.callback()};
  watch.reach(10 + me);
  std::vector<int> all;
  for (int r = 0; r < size; ++r) all.push_back(10 + r);
  EXPECT_TRUE(me != 0 || tests::until([&] { return watch.reached() == all; }));
  watch.close(patience);
}

TEST_F(WatchTest, RanksThatAskAtOnceGetOneAnswer) {
  const World& own = fresh();
  Watch watch{own, calm, listener.callback()};
  watch.request_stop(text("asked by ", me));
  watch.request_stop("asked again");
  ASSERT_TRUE(tests::until([&] { return watch.stop_requested().has_value(); }));
  const StopRequest mine = *watch.stop_requested();
  EXPECT_EQ(mine.reason, text("asked by ", mine.origin));
  for (const int other : mpi::all_gather(world.messages(), mine.origin.value, patience)) EXPECT_EQ(other, mine.origin.value);
  watch.close(patience);
}

TEST_F(WatchTest, LastWordsReachAllAndTheSpeakerIsNotCalled) {
  for (int origin = 0; origin < size; ++origin) {
    Listener ears;
    const World& own = fresh();
    Watch watch{own, calm, ears.callback()};
    if (me == origin) {
      watch.announce_failure({ExitCode::bad_input, "token file is cut short"}, patience);
      EXPECT_TRUE(watch.trouble());
      EXPECT_TRUE(ears.heard().empty());
    } else {
      const auto trouble = ears.wait();
      ASSERT_TRUE(trouble);
      EXPECT_EQ(trouble->kind, Trouble::Kind::failed);
      EXPECT_EQ(trouble->rank, Rank{origin});
      EXPECT_EQ(trouble->words, (LastWords{ExitCode::bad_input, "token file is cut short"}));
      EXPECT_EQ(to_string(*trouble), world.name(Rank{origin}) + " failed: token file is cut short");
    }
    meet();
    EXPECT_THROW(watch.close(patience), Error);
  }
}

TEST_F(WatchTest, CloseGivesUpOnARankThatDoesNotCome) {
  if (size == 1) return;  // nobody to wait for
  {
    const World& own = fresh();
    Watch watch{own, calm, listener.callback()};
    if (me != size - 1) {
      EXPECT_THROW(watch.close({0.3}), Error);
      meet();
    } else {
      meet();
    }
  }
  EXPECT_TRUE(listener.heard().empty()) << "its watch still lived";
}

/// The stopped rank cannot say a word.
TEST_F(WatchTest, StoppedRankIsNamedToAllWithinTheDeadline) {
  if (size == 1) return;  // nobody to notice
  for (const int stopped : {size - 1, 0}) {
    Seconds allowed;
    const auto attempt = [&](Seconds deadline) {
      allowed = deadline;
      std::optional<Trouble> trouble;
      Listener ears;
      const World& own = fresh();
      Watch watch{own, quick(deadline), ears.callback()};
      while_stopped(stopped, [&] {
        trouble = ears.wait();
        EXPECT_THROW(watch.close({0.1}), Error);
      });
      return trouble;
    };
    const auto another = [&](const std::optional<Trouble>& heard) { return on_any_rank(heard && heard->rank != Rank{stopped}); };
    const auto trouble = tests::with_deadlines(attempt, another, deadlines);
    if (me == stopped) continue;
    ASSERT_TRUE(trouble);
    EXPECT_EQ(trouble->kind, Trouble::Kind::silent);
    EXPECT_EQ(trouble->rank, Rank{stopped});
    EXPECT_EQ(trouble->host, world.host(Rank{stopped}));
    EXPECT_GE(trouble->silence, allowed);
    EXPECT_EQ(trouble->words.code, ExitCode::lost_peer);
  }
}

/// The whole job suspended and continued (scontrol suspend): everybody was away, nobody is lost. One hand stops and continues all: had each
/// rank an alarm of its own, the first to wake would rightly miss one that began to sleep late.
TEST_F(WatchTest, SuspendedJobIsNotTrouble) {
  EXPECT_FALSE(somebody_is_missed([&](const Watch&, Seconds deadline) {
    std::string pids;
    for (const int pid : mpi::all_gather(world.messages(), static_cast<int>(getpid()), patience)) pids += text(' ', pid);
    meet();
    if (me == 0) {
      EXPECT_EQ(std::system(text("kill -STOP", pids, "; sleep ", longer_than(deadline).value, "; kill -CONT", pids).c_str()), 0);
    }
    meet();
    sleep({0.3});
  }));
}

TEST_F(WatchTest, SleepsBetweenBeats) {
  const auto cpu_seconds = [] { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; };
  const World& own = fresh();
  Watch watch{own, {}, listener.callback()};
  const double cpu_before = cpu_seconds();
  const Seconds before = now();
  sleep({1.0});
  EXPECT_LT(cpu_seconds() - cpu_before, 0.5 * (now() - before).value) << "it spins";
  watch.close(patience);
}

}  // namespace
}  // namespace flotilla::comm
