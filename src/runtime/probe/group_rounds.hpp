#pragma once
#include <cstdint>
#include <functional>
#include <vector>

#include "flotilla/cluster/cluster.hpp"
#include "flotilla/comm/device_group.hpp"
#include "flotilla/comm/process_group.hpp"
#include "flotilla/gpu/device.hpp"

namespace flotilla::probe {

/// Timed rounds of exchanges among the members of a group. All members make the same calls; the times of the first one count.
class GroupRounds {
 public:
  /// `over_hosts`: the same group through the hosts' memory, by which the first member tells the others how many rounds there are.
  GroupRounds(comm::ProcessGroup& over_hosts, Seconds deadline) : over_hosts_{over_hosts}, deadline_{deadline} {}
  virtual ~GroupRounds() = default;

  using Round = std::function<void()>;
  /// Adds mean times of a round, as many rounds as the slice has room for, under this size. `share`: of a round, that counts.
  void sample(Bytes size, Seconds slice, double share, const Round&, std::vector<cluster::LinkSample>& into);
  /// Whether the first member's time is not over.
  bool before(Seconds end);

 protected:
  Seconds deadline() const { return deadline_; }

 private:
  /// A round's mean time.
  virtual Seconds run(int rounds, const Round&) = 0;
  std::int64_t of_first(std::int64_t mine);

  comm::ProcessGroup& over_hosts_;
  const Seconds deadline_;
};

/// Over NCCL: a round enqueues, and is timed on the device as in training: what is enqueued does not wait for the host.
class EnqueuedRounds final : public GroupRounds {
 public:
  EnqueuedRounds(comm::DeviceGroup&, comm::ProcessGroup& over_hosts, const gpu::DeviceContext&, Seconds deadline);
  /// Where rounds are to be enqueued.
  gpu::Stream& stream() { return stream_; }

 private:
  Seconds run(int rounds, const Round&) override;

  comm::DeviceGroup& group_;
  gpu::Stream stream_;
  gpu::Event start_, end_;
};

/// After a failure: ends what NCCL has under way on this rank's GPU, since giving memory back waits for the device. `memory` that even then
/// cannot be given back stays taken to the end of the process.
void give_up_exchanges(const gpu::DeviceBuffer& memory, Seconds limit);

/// A round returns when it is through, as this rank's operations of MPI are.
class CompletedRounds final : public GroupRounds {
 public:
  using GroupRounds::GroupRounds;

 private:
  Seconds run(int rounds, const Round&) override;
};

}  // namespace flotilla::probe
