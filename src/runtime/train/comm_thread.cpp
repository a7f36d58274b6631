#include "comm_thread.hpp"

#include <algorithm>

#include "flotilla/base/clock.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/mpi/backoff.hpp"

namespace flotilla::train {

using program::Queue;

CommThread::CommThread(const comm::World& world, Seconds deadline) : world_{world}, deadline_{deadline}, thread_{[this] { run(); }} {}

CommThread::~CommThread() { stop(); }

void CommThread::stop() {
  stop_ = true;
  bell_.ring();
  if (thread_.joinable()) thread_.join();
}

void CommThread::begin(Binding& binding, DeviceQueues* device, Progress& progress, EventCount& finished,
                       const std::function<bool(BoundInstruction&)>& before_start, std::vector<Seconds>* started,
                       std::vector<Seconds>* ended, Seconds origin) {
  if (queues_of_ != &binding) list_queues(binding);
  for (auto& queue : queues_) {
    queue.next = 0;
    queue.in_flight.clear();
  }
  next_launch_ = 0;
  launched_.clear();
  binding_ = &binding;
  device_ = device;
  progress_ = &progress;
  finished_ = &finished;
  before_start_ = &before_start;
  started_ = started;
  ended_ = ended;
  origin_ = origin;
  ++passes_;
  bell_.ring();
}

void CommThread::list_queues(Binding& binding) {
  queues_.assign(5, {});
  for (int i = 0; i < static_cast<int>(binding.issued_instructions().size()); ++i) {
    const auto& issued = binding.issued_instructions()[static_cast<std::size_t>(i)];
    if (issued.launched) continue;
    const auto queue = issued.instruction->queue;
    if (queue == Queue::send) queues_[0].list.push_back(i);
    if (queue == Queue::receive) queues_[1].list.push_back(i);
    if (queue == Queue::reduce) queues_[2].list.push_back(i);
    if (queue == Queue::sum) queues_[3].list.push_back(i);
    if (queue == Queue::receive_back) queues_[4].list.push_back(i);
  }
  for (auto& queue : queues_) queue.in_flight.reserve(queue.list.size());
  queues_[0].overlaps = queues_[1].overlaps = queues_[4].overlaps = true;
  queues_of_ = &binding;
}

void CommThread::finish() {
  for (;;) {
    const auto heard = pass_done_.listen();
    if (failed()) rethrow();
    if (passes_done_ == passes_) return;
    pass_done_.wait(heard);
  }
}

void CommThread::rethrow() { std::rethrow_exception(error_); }

void CommThread::run() {
  while (!stop_) {
    const auto heard = bell_.listen();
    if (passes_done_ == passes_) {
      bell_.wait(heard);
      continue;
    }
    try {
      run_pass();
    } catch (...) {
      if (!stop_) {
        error_ = std::current_exception();
        failed_ = true;
        finished_->ring();
      }
      pass_done_.ring();
      return;
    }
    ++passes_done_;
    pass_done_.ring();
  }
}

void CommThread::run_pass() {
  mpi::Backoff backoff;
  Seconds last_movement = now();
  for (;;) {
    FLOTILLA_REQUIRE(!stop_, ErrorKind::communication, "the step was given up");
    const auto heard = bell_.listen();
    bool moved = launch_ready();
    moved |= poll_launches();
    bool in_flight = !launched_.empty();
    for (auto& queue : queues_) {
      moved |= start_ready(queue);
      moved |= poll(queue);
      in_flight |= !queue.in_flight.empty();
    }
    if (moved) {
      last_movement = now();
      backoff.reset();
      continue;
    }
    if (!in_flight) {
      if (all_started()) return;
      bell_.wait(heard);  // only an instruction of the compute thread can make something ready
      last_movement = now();
      continue;
    }
    check_deadline(last_movement);
    backoff.pause();
  }
}

bool CommThread::all_started() const {
  const bool queued = std::ranges::all_of(queues_, [](const InOrder& queue) { return queue.next == queue.list.size(); });
  return queued && (device_ == nullptr || next_launch_ == device_->launches().order().size());
}

bool CommThread::launch_ready() {
  if (device_ == nullptr) return false;
  const auto& order = device_->launches().order();
  const auto first = next_launch_;
  for (; next_launch_ < order.size() && ready(order[next_launch_]); ++next_launch_) {
    device_->launch(order[next_launch_]);
    mark(order[next_launch_]);
    launched_.push_back(order[next_launch_]);
  }
  return next_launch_ > first;
}

bool CommThread::poll_launches() {
  return std::erase_if(launched_, [&](int issued) { return device_->launch_done(issued); }) > 0;
}

bool CommThread::ready(int issued) const {
  const auto& waits = binding_->issued_instructions()[static_cast<std::size_t>(issued)].waits;
  return std::all_of(waits.begin(), waits.end(), [&](int wait) { return progress_->done(wait); });
}

bool CommThread::start_ready(InOrder& queue) {
  bool moved = false;
  while (queue.next < queue.list.size() && (queue.overlaps || queue.in_flight.empty()) && ready(queue.list[queue.next])) {
    const int i = queue.list[queue.next++];
    if (device_ != nullptr)
      device_->fetch(i);
    else
      move(i);
    queue.in_flight.push_back({i, device_ == nullptr});
    moved = true;
  }
  return moved;
}

void CommThread::move(int i) {
  if (started_ != nullptr) (*started_)[static_cast<std::size_t>(i)] = now() - origin_;
  auto& issued = binding_->issued_instructions()[static_cast<std::size_t>(i)];
  if ((*before_start_)(issued))
    issued.operation->start_drained(issued.size);
  else
    issued.operation->start(issued.size);
}

bool CommThread::finish_moving(int i) {
  auto& issued = binding_->issued_instructions()[static_cast<std::size_t>(i)];
  if (!issued.operation->progress()) return false;
  if (device_ != nullptr) device_->store(i);
  if (ended_ != nullptr) (*ended_)[static_cast<std::size_t>(i)] = now() - origin_;
  mark(i);
  return true;
}

void CommThread::mark(int i) {
  progress_->mark(i);
  if (binding_->issued_instructions()[static_cast<std::size_t>(i)].awaited_by_other_thread) finished_->ring();
}

bool CommThread::poll(InOrder& queue) {
  bool moved = false, behind = false;  // behind: messages between the same two ranks start in the program's order
  const auto finished = std::remove_if(queue.in_flight.begin(), queue.in_flight.end(), [&](InFlight& each) {
    if (!each.moves) {
      behind = behind || !device_->fetched(each.issued);
      if (behind) return false;
      move(each.issued);
      each.moves = moved = true;
    }
    return finish_moving(each.issued);
  });
  moved |= finished != queue.in_flight.end();
  queue.in_flight.erase(finished, queue.in_flight.end());
  return moved;
}

void CommThread::check_deadline(Seconds last_movement) const {
  if (now() - last_movement > deadline_) overdue();
}

void CommThread::overdue() const {
  std::string waiting;
  bool on_gpu = launched_.empty();
  for (const int i : launched_) {
    const auto& issued = binding_->issued_instructions()[static_cast<std::size_t>(i)];
    if (waiting.empty())
      waiting =
          text("'", issued.instruction->name, "' microbatch ", issued.microbatch, " (by NCCL, ", device_->launches().partners(i), ")");
  }
  for (const auto& queue : queues_)
    for (const auto& each : queue.in_flight) {
      const auto& issued = binding_->issued_instructions()[static_cast<std::size_t>(each.issued)];
      on_gpu &= !each.moves;
      if (waiting.empty())
        waiting = text("'", issued.instruction->name, "' microbatch ", issued.microbatch, " (", issued.operation->describe(), ")");
    }
  FLOTILLA_REQUIRE(!on_gpu, ErrorKind::unavailable, "the GPU has not moved for ", deadline_, ": it hangs before ", waiting,
                   "; see nvidia-smi and dmesg");
  throw Error{ErrorKind::communication,
              text("nothing has moved for ", deadline_, ": ", waiting, "; a peer or link is down or very slow (--comm.deadline)")};
}

}  // namespace flotilla::train
