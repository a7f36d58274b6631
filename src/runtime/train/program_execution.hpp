#pragma once
#include <memory>
#include <optional>

#include "arena.hpp"
#include "binding.hpp"
#include "comm_thread.hpp"
#include "connections.hpp"
#include "device_launches.hpp"
#include "device_queues.hpp"
#include "executor.hpp"
#include "host_buffers.hpp"

namespace flotilla::train {

inline constexpr int channels_per_chunk = 2;  ///< of a program's messages

inline const program::RankClass& class_of(const program::Program& program, Rank rank) {
  return program.classes.at(static_cast<std::size_t>(program.ranks.at(rank.index()).rank_class));
}

/// Nothing for a CPU.
std::optional<gpu::DeviceContext> open_gpu(const compute::ComputeDevice&);

/// Of this rank's backend. `cache`: as compute::Setup's.
compute::Setup setup_of(const program::Program&, Rank, const Options&, int cache = 0);

/// A program on this rank: bound to memory and network, and what runs it. `pinned`: where the rank computes on a GPU.
class ProgramExecution {
 public:
  ProgramExecution(const program::Program& program, const comm::World& active, const std::optional<gpu::PinnedBuffer>& pinned,
                   const std::optional<gpu::DeviceContext>& gpu, const Arena& arena, const Connections& connections,
                   compute::Backend& backend, CommThread& comm, int channel_base, const Options& options)
      : host_{gpu ? std::make_unique<HostBuffers>(*pinned, class_of(program, active.rank())) : nullptr},
        binding_{program, active.rank(), arena, host_.get(), active, connections, channel_base},
        queues_{gpu ? std::make_unique<DeviceQueues>(*gpu, *backend.stream(), binding_, *host_,
                                                     DeviceLaunches{binding_, connections, options}, options.record)
                    : nullptr},
        executor_{binding_, backend, comm, queues_.get(), options.deadline, options.poison, options.record} {}

  const Binding& binding() const { return binding_; }
  Executor& executor() { return executor_; }

 private:
  std::unique_ptr<HostBuffers> host_;  ///< where the rank computes on a GPU, as the queues
  Binding binding_;
  std::unique_ptr<DeviceQueues> queues_;
  Executor executor_;
};

/// Hands the class's buffer for the matrix library to the backend.
void set_scratch(compute::Backend&, const Binding&);
/// The backend chooses and proves what it runs for this rank's microbatches. Local, as making the backend is: who builds a trainer agrees.
void prepare(compute::Backend&, const Binding&);

}  // namespace flotilla::train
