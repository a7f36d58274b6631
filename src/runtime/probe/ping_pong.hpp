#pragma once
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "comm_worker.hpp"
#include "flotilla/cluster/cluster.hpp"
#include "flotilla/comm/process_group.hpp"
#include "flotilla/gpu/device.hpp"

namespace flotilla::probe {

/// Message sizes of a link measurement, in order: 8 B … 8 MiB.
std::vector<Bytes> message_sizes();

/// One end of a link, measured with the operations that training uses. `channel`, `channel` + 1: its own on world.messages(). `pair`: the
/// group of the two ends, for sums; may be null, then none are measured. `gpu`: messages go from its memory and come there, and `pair` is
/// on device memory; null: the host's.
class LinkEnd {
 public:
  LinkEnd(const comm::World&, Rank peer, int channel, comm::ProcessGroup* pair, Seconds deadline, const gpu::DeviceContext* gpu = nullptr);

  std::string peer_name() const { return world_.name(peer_); }
  bool sums() const { return sum_ != nullptr; }
  /// Each returns when its message has gone or come. Throw Error{communication} naming the peer.
  void tell(std::span<const std::byte> note);
  void hear(std::span<std::byte> note);
  void send(Bytes size) { run(*send_, size); }
  void receive(Bytes size) { run(*receive_, size); }
  /// The all-reduce of twice `size` bytes: each end sends one half, adds the other and sends the sum.
  void sum(Bytes size) { run(*sum_, size * 2); }
  /// Sends back what came.
  void echo(Bytes size);
  /// What stands in `out` goes where messages are sent from; what came goes to `in`. Nothing where that is the same place.
  void place(Bytes size);
  void fetch(Bytes size);

  std::vector<std::byte> out, in;  ///< room for the largest message

 private:
  void run(comm::PersistentOperation&, Bytes);

  /// A GPU's part of it.
  struct OnDevice {
    OnDevice(const gpu::DeviceContext&, Bytes largest);
    gpu::Stream stream;
    gpu::DeviceBuffer memory;
    gpu::DevicePointer out, in, reduced, staging;
  };

  const comm::World& world_;
  Rank peer_;
  const Seconds deadline_;
  std::optional<OnDevice> on_device_;
  std::vector<std::byte> note_, reduced_, staging_;
  std::unique_ptr<comm::PersistentOperation> tell_, hear_, send_, receive_, echo_, sum_;
  CommWorker comm_worker_;
};

/// What one link measured: messages one way, and half the time of an all-reduce by the bytes that each end sends in a phase of it.
struct LinkSamples {
  std::vector<cluster::LinkSample> messages, sums;
};

/// Bytes that tell rounds apart, and places in a message.
void fill_pattern(std::span<std::byte> data, int round);

/// The side that asks: half the time of a round trip, one sample per round, the first of each size dropped. Every byte that comes back is
/// compared outside the time. Sizes up to 512 KiB whatever they take (bursts that a network lets through flatter smaller ones), larger ones
/// while the budget lasts. Throws Error{communication}.
LinkSamples ask(LinkEnd&, Seconds budget);
/// The side that answers until the other has done. Throws Error{communication}.
void answer(LinkEnd&);

/// One sample for each size: the mean without the slowest tenth. What a message pays for waking and polling differs from one to the next,
/// so that a median would leave half of it out.
std::vector<cluster::LinkSample> means(const std::vector<cluster::LinkSample>&);

/// Interquartile range / median of the samples' times divided by the fit's.
double scatter_about(const cluster::Link& fit, const std::vector<cluster::LinkSample>&);

}  // namespace flotilla::probe
