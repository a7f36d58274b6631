#pragma once
#include <atomic>
#include <exception>
#include <functional>
#include <thread>
#include <vector>

#include "binding.hpp"
#include "device_queues.hpp"
#include "flotilla/base/units.hpp"
#include "progress.hpp"

namespace flotilla::train {

/// Runs the queues of messages and collectives of a binding: one thread, five queues, nothing that blocks. It polls while something is in
/// flight and sleeps otherwise, so that it takes little from the threads that compute. What goes from GPU to GPU it launches in the
/// program's order, whatever the queue: a launch is done, for those who wait for it, when the GPU has been given it.
class CommThread {
 public:
  CommThread(const comm::World& world, Seconds deadline);
  ~CommThread();
  /// Gives up a pass that is under way. What the thread uses may go then.
  void stop();

  /// Starts a pass over the communication instructions of `binding`. They are marked in `progress` as they end, and `finished` rung.
  /// `before_start` is called on the thread when one starts and says whether it is to be drained. `device`: where the rank computes on a
  /// GPU. Times since `origin` go to `started` and `ended` where they are given.
  void begin(Binding& binding, DeviceQueues* device, Progress& progress, EventCount& finished,
             const std::function<bool(BoundInstruction&)>& before_start, std::vector<Seconds>* started, std::vector<Seconds>* ended,
             Seconds origin);
  /// An instruction of the compute thread is done: queues that wait for one may go on.
  void wake() { bell_.ring(); }
  /// Waits for the pass to end; rethrows what went wrong on the thread.
  void finish();
  /// What went wrong, if anything has. Any thread.
  bool failed() const { return failed_.load(std::memory_order_acquire); }
  [[noreturn]] void rethrow();

 private:
  struct InFlight {
    int issued = 0;
    bool moves = false;  ///< else it waits for what the GPU hands over
  };
  struct InOrder {  ///< one queue: its instructions, how far it has started
    std::vector<int> list;
    std::size_t next = 0;
    std::vector<InFlight> in_flight;
    bool overlaps = false;
  };
  void run();
  void run_pass();
  void list_queues(Binding&);
  bool start_ready(InOrder&);
  bool launch_ready();
  bool poll_launches();
  bool all_started() const;
  void mark(int issued);
  void move(int issued);
  bool poll(InOrder&);
  bool finish_moving(int issued);
  bool ready(int issued) const;
  void check_deadline(Seconds last_movement) const;
  [[noreturn]] void overdue() const;

  const comm::World& world_;
  const Seconds deadline_;
  Binding* binding_ = nullptr;
  DeviceQueues* device_ = nullptr;
  Progress* progress_ = nullptr;
  EventCount* finished_ = nullptr;
  const std::function<bool(BoundInstruction&)>* before_start_ = nullptr;
  std::vector<Seconds>* started_ = nullptr;
  std::vector<Seconds>* ended_ = nullptr;
  Seconds origin_;
  std::vector<InOrder> queues_;
  const Binding* queues_of_ = nullptr;  ///< whose instructions `queues_` lists
  std::size_t next_launch_ = 0;
  std::vector<int> launched_;  ///< and not through

  EventCount bell_;  ///< new pass, instruction done, or end
  std::atomic<int> passes_{0}, passes_done_{0};
  EventCount pass_done_;
  std::atomic<bool> stop_{false}, failed_{false};
  std::exception_ptr error_;
  std::thread thread_;
};

}  // namespace flotilla::train
