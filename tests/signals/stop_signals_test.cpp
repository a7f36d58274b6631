// Real signals, sent to this process, to its threads and to a child.
#include "flotilla/signals/stop_signals.hpp"

#include <gtest/gtest.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <thread>

#include "flotilla/base/clock.hpp"
#include "flotilla/base/error.hpp"
#include "support/child.hpp"

namespace flotilla::signals {
namespace {

TEST(StopSignals, NothingCameBeforeASignal) {
  const StopSignals signals;
  EXPECT_FALSE(signals.received());
  EXPECT_EQ(signals.count(), 0);
}

TEST(StopSignals, RemembersWhichAndWhen) {
  for (const int number : StopSignals::usual()) {
    const StopSignals signals;
    const Seconds before = now();
    ASSERT_EQ(kill(getpid(), number), 0);
    const auto received = signals.received();
    ASSERT_TRUE(received) << signal_name(number);
    EXPECT_EQ(received->number, number);
    EXPECT_GE(received->when, before);
    EXPECT_LE(received->when, now());
  }
}

TEST(StopSignals, FirstStaysAndASecondDoesNotKill) {
  StopSignals signals;
  raise(SIGUSR1);
  const auto first = signals.received();
  raise(SIGTERM);
  raise(SIGTERM);
  raise(SIGINT);
  EXPECT_EQ(signals.received(), first);
  EXPECT_EQ(first->number, SIGUSR1);
  EXPECT_EQ(signals.count(), 4);
  signals.clear();
  EXPECT_FALSE(signals.received());
  raise(SIGINT);
  EXPECT_EQ(signals.received()->number, SIGINT);
}

TEST(StopSignals, AnyThreadMayReceive) {
  const StopSignals signals;
  std::atomic<bool> done{false};
  std::thread thread{[&] {
    while (!done) std::this_thread::yield();
  }};
  pthread_kill(thread.native_handle(), SIGUSR2);
  while (!signals.received()) std::this_thread::yield();
  done = true;
  thread.join();
  EXPECT_EQ(signals.received()->number, SIGUSR2);
}

TEST(StopSignals, InterruptedReadGoesOn) {
  const StopSignals signals;
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  std::atomic<ssize_t> got{-2};
  std::thread reader{[&] {
    char byte = 0;
    got = read(ends[0], &byte, 1);
  }};
  pthread_kill(reader.native_handle(), SIGTERM);
  while (signals.count() == 0) std::this_thread::yield();
  ASSERT_EQ(write(ends[1], "x", 1), 1);
  reader.join();
  EXPECT_EQ(got, 1);
  close(ends[0]);
  close(ends[1]);
}

std::atomic<int> old_handler_calls{0};
extern "C" void old_handler(int) { ++old_handler_calls; }

TEST(StopSignals, RestoresOldHandlers) {
  struct sigaction mine {};
  struct sigaction original {};
  mine.sa_handler = old_handler;
  ASSERT_EQ(sigaction(SIGUSR1, &mine, &original), 0);
  {
    const StopSignals signals;
    raise(SIGUSR1);
    EXPECT_EQ(old_handler_calls, 0);
  }
  raise(SIGUSR1);
  EXPECT_EQ(old_handler_calls, 1);
  sigaction(SIGUSR1, &original, nullptr);
}

TEST(StopSignals, AfterwardsTheyKillAgain) {
  tests::Child child{[] {
    {
      const StopSignals signals;
      raise(SIGTERM);
    }
    raise(SIGTERM);
    return 0;
  }};
  EXPECT_EQ(child.wait(), -SIGTERM);
}

TEST(StopSignals, NohupIsRespected) {
  tests::Child child{[] {
    std::signal(SIGHUP, SIG_IGN);
    std::signal(SIGTERM, SIG_IGN);  // as in a batch script that leaves the signal to what it started
    const StopSignals signals;
    raise(SIGHUP);
    if (signals.count() != 0) return 1;
    raise(SIGTERM);
    return signals.count() == 1 ? 0 : 2;
  }};
  EXPECT_EQ(child.wait(), 0);
}

TEST(StopSignals, OneAtATime) {
  const StopSignals signals;
  EXPECT_THROW(StopSignals{}, Error);
  raise(SIGUSR2);
  EXPECT_TRUE(signals.received()) << "the refused second one must not have taken the handlers away";
}

TEST(StopSignals, RefusesWhatCannotBeHandledAndLeavesNothingBehind) {
  EXPECT_THROW(StopSignals({SIGUSR1, SIGKILL}), Error);
  struct sigaction current {};
  ASSERT_EQ(sigaction(SIGUSR1, nullptr, &current), 0);
  EXPECT_EQ(current.sa_handler, SIG_DFL);
  const StopSignals signals;  // and another may be made
}

TEST(StopSignals, AnEndingProcessIsNotKilledByALateSignal) {
  tests::Child child{[] {
    {
      StopSignals signals;
      signals.ignore_hereafter();
    }
    for (const int number : StopSignals::usual()) raise(number);
    return 75;
  }};
  EXPECT_EQ(child.wait(), 75);
}

TEST(BrokenPipes, FailAndDoNotKill) {
  tests::Child child{[] {
    ignore_broken_pipes();
    int ends[2];
    if (pipe(ends) != 0) return 1;
    close(ends[0]);
    return write(ends[1], "x", 1) < 0 && errno == EPIPE ? 75 : 1;
  }};
  EXPECT_EQ(child.wait(), 75);
}

TEST(SignalName, NamesTheUsual) {
  EXPECT_EQ(signal_name(SIGTERM), "SIGTERM");
  EXPECT_EQ(signal_name(SIGUSR2), "SIGUSR2");
  EXPECT_EQ(signal_name(40), "signal 40");
}

}  // namespace
}  // namespace flotilla::signals
