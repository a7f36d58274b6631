#include "asynchronous_saves.hpp"

#include <algorithm>

#include "flotilla/base/log.hpp"
#include "flotilla/base/print.hpp"
#include "flotilla/comm/agree.hpp"
#include "flotilla/mpi/communicator.hpp"
#include "flotilla/program/checkpoint_share.hpp"
#include "memory_need.hpp"

namespace flotilla::session {
namespace {

/// On a GPU the trainer's state() is a copy in the host's memory already, which the forecast has and only the next state() changes.
checkpoint::StateMemory memory_of(const train::Trainer& trainer) {
  return trainer.host_memory().state.count > 0 ? checkpoint::StateMemory::stays : checkpoint::StateMemory::changes;
}

MemoryNeed need_here(const RunContext& place, const ActivePlan& work) {
  if (memory_of(*work.trainer) == checkpoint::StateMemory::stays) return {};
  const auto& profile = work.chosen.profile;
  const auto* type = cluster::find_type(profile, profile.devices.at(place.world.rank().index()).type);
  const Bytes copy = program::checkpoint_share(work.trainer->program(), work.active->rank());
  return {(work.arena + place.runtime_constant + copy).count,
          memory_limit(place.config.device.memory, type == nullptr ? Bytes{} : type->memory).count};
}

/// Why some rank has no room; empty where all have. Collective.
std::string why_not(const RunContext& place, const ActivePlan& work) {
  const auto needs = mpi::all_gather(work.active->control(), need_here(place, work), place.config.comm.deadline);
  return no_room_for_copies(needs, [&](Rank rank) { return work.active->name(rank); });
}

void tell(const comm::World& active, Bytes copy, Seconds deadline) {
  std::int64_t most = 0;
  for (auto theirs : mpi::all_gather(active.control(), copy.count, deadline)) most = std::max(most, theirs);
  if (active.rank() != Rank{0}) return;
  print(text("checkpoints are written beside the steps: copies of the state take at most ", Bytes{most}, " on a rank\n"));
}

/// Nothing, and `reason`, where the memory cannot be had after all.
std::unique_ptr<checkpoint::BackgroundSave> make(const RunContext& place, const ActivePlan& work, std::string& reason) {
  const auto memory = memory_of(*work.trainer);
  const auto like = memory == checkpoint::StateMemory::stays ? checkpoint::LocalState{} : work.trainer->state();
  try {
    return std::make_unique<checkpoint::BackgroundSave>(*work.active, like, memory, place.config.comm.deadline);
  } catch (const comm::AgreedError& error) {
    if (error.kind() != ErrorKind::unavailable) throw;
    reason = error.what();
    return nullptr;
  }
}

}  // namespace

std::unique_ptr<checkpoint::BackgroundSave> asynchronous_saves(const RunContext& place, ActivePlan& work) {
  work.save_copy = {};
  if (!place.config.checkpoint.asynchronous) return nullptr;
  auto reason = why_not(place, work);
  auto saves = reason.empty() ? make(place, work, reason) : nullptr;
  if (saves) {
    work.save_copy = saves->copy_size();
    tell(*work.active, work.save_copy, place.config.comm.deadline);
  } else if (work.active->rank() == Rank{0}) {
    log::warning("checkpoints are saved synchronously: ", reason, "; more ranks or a larger --device.memory make room");
  }
  return saves;
}

}  // namespace flotilla::session
