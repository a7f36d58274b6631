#pragma once
#include <map>
#include <span>
#include <string>
#include <vector>

/// Which rank of a host computes on which of its GPUs.
namespace flotilla::gpu {

/// What one rank of a host has to choose from.
struct RankView {
  std::vector<std::string> visible;  ///< DeviceFacts::uuid, in the order of its driver (CUDA_VISIBLE_DEVICES)
  std::vector<int> usable;           ///< kernel numbers of the hardware threads that it may run on
  bool operator==(const RankView&) const = default;
};

/// uuid -> hardware threads on the device's side of the machine. A device that is not there is near to none.
using DevicePlaces = std::map<std::string, std::vector<int>>;

/// For each rank the place of its device in its own list; -1: it sees none. `ranks`: those of one host, by local rank (SLURM_LOCALID).
/// Ranks that see the fewest devices choose first, so what a launcher bound one by one stays so; then those bound to the fewest threads.
/// Each takes a device that the fewest others have, of these the one that most of its threads are near to, of these the first.
std::vector<int> assign_devices(std::span<const RankView> ranks, const DevicePlaces&);

/// uuid -> its ranks, of the devices that more than one rank has.
std::map<std::string, std::vector<int>> shared_devices(std::span<const RankView> ranks, std::span<const int> assigned);

}  // namespace flotilla::gpu
