#pragma once
#include <cstdint>
#include <functional>
#include <vector>

#include "flotilla/cluster/cluster.hpp"
#include "flotilla/comm/device_group.hpp"
#include "flotilla/comm/group.hpp"
#include "flotilla/gpu/device.hpp"

namespace flotilla::probe {

/// Rounds of exchanges among the members of a group over NCCL, timed on the device as in training: what is enqueued does not wait for the
/// host. All members make the same calls; the times of the first one count.
class DeviceRounds {
 public:
  /// `over_mpi`: the same group, by which the first member tells the others how many rounds there are.
  DeviceRounds(comm::DeviceGroup&, comm::Group& over_mpi, const gpu::Device&, Seconds deadline);

  using Round = std::function<void()>;
  /// Where they are to be enqueued.
  gpu::Stream& stream() { return stream_; }
  /// Adds mean times of a round, as many rounds as the slice has room for, under this size. `share`: of a round, that counts.
  void sample(Bytes size, Seconds slice, double share, const Round&, std::vector<cluster::LinkSample>& into);
  /// Whether the first member's time is not over.
  bool before(Seconds end);

 private:
  Seconds run(int rounds, const Round&);
  std::int64_t of_first(std::int64_t mine);

  comm::DeviceGroup& group_;
  comm::Group& over_mpi_;
  const Seconds deadline_;
  gpu::Stream stream_;
  gpu::Event start_, end_;
};

}  // namespace flotilla::probe
