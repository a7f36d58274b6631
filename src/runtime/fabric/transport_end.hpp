#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "flotilla/base/units.hpp"
#include "flotilla/comm/world.hpp"
#include "flotilla/ucx/worker.hpp"

namespace flotilla::fabric {

/// One end of a pair, over one transport. The other end makes the same calls, mirrored. Every wait has a deadline: then
/// Error{communication} names the peer.
class TransportEnd {
 public:
  explicit TransportEnd(Bytes largest) : out(static_cast<std::size_t>(largest.count)), in(out.size()) {}
  virtual ~TransportEnd() = default;

  /// The first so many bytes of `out`, or into `in`.
  virtual void send(Bytes) = 0;
  virtual void receive(Bytes) = 0;
  /// Both at once.
  virtual void exchange(Bytes) = 0;
  virtual bool can_put() const { return false; }
  /// Writes the first bytes of `out` to the peer's `in`; the peer waits in receive() meanwhile.
  virtual void put(Bytes) {}
  /// Waits until what was put has arrived.
  virtual void flush() {}

  std::vector<std::byte> out, in;
};

/// By UCX; tags name who sends. `region` is the peer's `in`, which connect() opens before anything is put.
class UcxEnd : public TransportEnd {
 public:
  UcxEnd(ucx::Worker&, Bytes largest, Seconds deadline);
  /// What the peer needs to put to `in`.
  ucx::Address key() const { return exposed_.key(); }
  void connect(ucx::Worker&, const ucx::Address& worker, const ucx::Address& region, const std::string& peer_name, std::uint64_t tag_out,
               std::uint64_t tag_in);

  void send(Bytes) override;
  void receive(Bytes) override;
  void exchange(Bytes) override;
  bool can_put() const override { return true; }
  void put(Bytes) override;
  void flush() override;

 private:
  ucx::MemoryRegion exposed_;
  Seconds deadline_;
  std::unique_ptr<ucx::Endpoint> peer_;
  std::unique_ptr<ucx::RemoteRegion> region_;  ///< goes before its endpoint
  std::uint64_t tag_out_ = 0, tag_in_ = 0;
};

/// By the trainer's own operations, polled without rest: what the transport does, not what waking a thread takes, which the probe measures.
std::unique_ptr<TransportEnd> make_mpi_end(const comm::World&, Rank peer, Bytes largest, Seconds deadline);

}  // namespace flotilla::fabric
