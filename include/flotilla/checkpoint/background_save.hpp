#pragma once
#include <functional>
#include <memory>

#include "flotilla/checkpoint/checkpoint.hpp"

namespace flotilla::checkpoint {

/// What becomes of a state that begin() is given.
enum class StateMemory {
  changes,  ///< training goes on in it: it is copied before it changes
  stays     ///< it is a copy already, which stays as it is until the save is over
};

/// save() on a thread of its own and over channels of its own, while every rank goes on. One save at a time. The functions are called by
/// one thread of each rank.
class BackgroundSave {
 public:
  /// Makes the channels; where states change, takes the memory for a copy of what this rank owns of states laid out as `like`, which is all
  /// that it ever takes. Collective. Throws comm::AgreedError{unavailable} where a rank has not the memory.
  BackgroundSave(const comm::World&, const LocalState& like, StateMemory, Seconds deadline);
  /// Where nobody has waited (an exception is passing), gives the thread a moment and then leaves it to itself: the job is about to end.
  ~BackgroundSave();
  BackgroundSave(const BackgroundSave&) = delete;
  BackgroundSave& operator=(const BackgroundSave&) = delete;

  /// Of this rank's copies; 0 where states stay.
  Bytes copy_size() const;
  /// Begins to copy the state and to save the copy; no save may be under way. Every rank is to call it, with the arguments of save(). Where
  /// states change, this one stays as it is until complete_copy(), wait() or the destructor. Local.
  void begin(const std::filesystem::path& run, const LocalState&, const Manifest&, const SaveOptions& = {});
  /// What is to be done with a state, over these channels. What it uses beside them outlives the thread.
  using Save = std::function<SaveReport(const comm::World&, const LocalState&)>;
  /// The same for another way to save.
  void begin(const LocalState&, Save);
  /// Before the state changes: until its copy is whole. This thread takes part; nothing to do where it is whole already. Local.
  void complete_copy();
  /// Begun, and nobody has waited for it.
  bool under_way() const { return thread_ != nullptr; }
  /// Ended on this rank; the others are about to end. Cheap. Throws what ended it where that is no agreement of the ranks: a peer is lost.
  bool over() const;
  /// Until the one under way is over: what save() returns or throws.
  SaveReport wait();

 private:
  struct Shared;
  class Thread;
  std::shared_ptr<Shared> shared_;
  std::unique_ptr<Thread> thread_;
};

}  // namespace flotilla::checkpoint
