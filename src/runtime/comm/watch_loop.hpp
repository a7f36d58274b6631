#pragma once
// Private: the watch's thread and what it shares with its owner.
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "heartbeat.hpp"

namespace flotilla::comm {

class Watch::Loop {
 public:
  Loop(const World& world, WatchOptions options, OnTrouble on_trouble);
  ~Loop();

  void request_stop(const std::string& reason, bool urgent);
  std::optional<StopRequest> stop_requested() const;
  void give_up(std::int64_t step);
  std::int64_t given_up() const noexcept { return given_up_; }
  void reach(int place);
  std::vector<int> reached() const;
  std::optional<Trouble> trouble() const;
  void announce_failure(const LastWords& words, Seconds deadline);
  void close(Seconds deadline);

 private:
  bool is_hub() const noexcept { return world_.rank() == Rank{0}; }
  // Under the mutex; whether that was new.
  bool hear_of_giving_up(std::int64_t step);
  bool adopt(const std::optional<StopRequest>&);
  // On the thread. A round is: hear everybody, judge silence, speak, tell the owner.
  void run();
  void round();
  void hear(PeerLine& line, Seconds time);
  void learn(PeerLine& line, const Beat& beat);
  void judge_silence(Seconds time);
  void adopt_wishes();
  void speak(Seconds time);
  void speak_on(PeerLine& line, const Beat& beat);
  void farewell();
  bool all_sent(Rank excused);
  Beat compose() const;
  void cannot_reach(PeerLine& line, const std::string& why);
  void learn_trouble(Trouble trouble);
  void call_owner();
  bool all_left() const;
  void finish();

  const World& world_;
  const WatchOptions options_;
  const OnTrouble on_trouble_;
  const Seconds tick_;

  mutable std::mutex mutex_;
  std::condition_variable wake_, told_;
  std::atomic<std::int64_t> given_up_{-1};  // written under the mutex
  // Under the mutex.
  std::vector<int> reached_;          // by rank; this rank's own, and at rank 0 what it has heard
  std::optional<StopRequest> wish_;   // of this rank
  std::optional<StopRequest> stop_;   // the job's, as rank 0 decided
  std::optional<LastWords> failure_;  // of this rank
  std::optional<Trouble> trouble_;    // first this rank knows of
  bool trouble_is_out_ = false;       // rank 0: all have been sent it; others: rank 0 has said it back
  bool leaving_ = false;              // the owner waits in close()
  bool over_ = false;                 // everybody has left
  bool quit_ = false;                 // the owner wants the thread to end, whatever the others do
  bool news_ = false;                 // something to say before the next beat is due
  bool done_ = false;                 // the thread has ended

  // The thread's own.
  std::unique_ptr<std::vector<PeerLine>> lines_;  // rank 0: to everybody; others: to rank 0
  Seconds last_round_, last_beat_;
  bool said_leaving_ = false, called_ = false;

  std::thread thread_;
};

}  // namespace flotilla::comm
