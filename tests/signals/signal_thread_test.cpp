#include "flotilla/signals/signal_thread.hpp"

#include <gtest/gtest.h>
#include <pthread.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "flotilla/signals/stop_signals.hpp"

namespace flotilla::signals {
namespace {

bool blocked(int number) {
  sigset_t mask;
  pthread_sigmask(SIG_BLOCK, nullptr, &mask);
  return sigismember(&mask, number) == 1;
}

TEST(SignalThread, TakesTheSignalsOfThreadsThatCompute) {
  StopSignals stop;
  ASSERT_FALSE(blocked(SIGUSR1));
  {
    SignalThread thread{StopSignals::usual()};
    EXPECT_TRUE(blocked(SIGUSR1) && blocked(SIGTERM) && blocked(SIGUSR2) && blocked(SIGINT));
    std::thread later{[] { EXPECT_TRUE(blocked(SIGUSR1)); }};
    later.join();
    for (int sent = 1; sent <= 20; ++sent) {
      ASSERT_EQ(kill(getpid(), SIGUSR1), 0);
      for (int tries = 0; stop.count() < sent && tries < 60000; ++tries) std::this_thread::sleep_for(std::chrono::milliseconds{1});
      ASSERT_EQ(stop.count(), sent);
    }
  }
  EXPECT_FALSE(blocked(SIGUSR1));
}

}  // namespace
}  // namespace flotilla::signals
