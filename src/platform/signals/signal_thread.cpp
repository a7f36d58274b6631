#include "flotilla/signals/signal_thread.hpp"

#include <pthread.h>

namespace flotilla::signals {

SignalThread::SignalThread(const std::vector<int>& signals) : thread_{[this] { over_.wait(false); }} {
  sigset_t mine;
  sigemptyset(&mine);
  for (const int number : signals) sigaddset(&mine, number);
  pthread_sigmask(SIG_BLOCK, &mine, &before_);
}

SignalThread::~SignalThread() {
  over_ = true;
  over_.notify_all();
  thread_.join();
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

}  // namespace flotilla::signals
