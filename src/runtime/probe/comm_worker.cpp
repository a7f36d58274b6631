#include "comm_worker.hpp"

#include <algorithm>

#include "flotilla/base/clock.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/mpi/backoff.hpp"

namespace flotilla::probe {

CommWorker::CommWorker(Seconds deadline) : deadline_{deadline}, thread_{[this] { serve(); }} {}

CommWorker::~CommWorker() {
  stop_ = true;
  work_.ring();
  thread_.join();
}

void CommWorker::run(std::span<const CommTask> comm_tasks) {
  comm_tasks_ = comm_tasks;
  error_ = nullptr;
  ++asked_;
  work_.ring();
  for (;;) {
    const auto heard = finished_.listen();
    if (done_ == asked_) break;
    finished_.wait(heard);
  }
  if (error_) std::rethrow_exception(error_);
}

void CommWorker::serve() {
  for (;;) {
    const auto heard = work_.listen();
    if (stop_) return;
    if (done_ == asked_) {
      work_.wait(heard);
      continue;
    }
    try {
      carry();
    } catch (...) {
      error_ = std::current_exception();
    }
    ++done_;
    finished_.ring();
  }
}

void CommWorker::carry() {
  for (const CommTask& e : comm_tasks_) e.operation->start(e.size);
  const Seconds end = now() + deadline_;
  for (mpi::Backoff backoff;; backoff.pause()) {
    const CommTask* waits_for = nullptr;
    for (const CommTask& e : comm_tasks_)
      if (!e.operation->progress()) waits_for = &e;
    if (waits_for == nullptr) return;
    FLOTILLA_REQUIRE(now() < end, ErrorKind::communication, waits_for->operation->describe(), ": no end within ", deadline_,
                     "; its other end or the network is down");
  }
}

}  // namespace flotilla::probe
