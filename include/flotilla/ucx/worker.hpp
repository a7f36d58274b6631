#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "flotilla/base/units.hpp"

/// Point-to-point messages by UCX (UCP): tagged messages, and writes to a peer's memory. What fabrics are measured with. One thread per
/// worker.
namespace flotilla::ucx {

/// How to reach a worker from another process: opaque bytes, to be carried there by other means.
using Address = std::vector<std::byte>;

/// Whether the library watches for the peer's death. UCX 1.13 has no such watch over shared memory: an endpoint that asks for it talks TCP
/// even inside one node. Where it is off, only deadlines notice.
enum class PeerWatch { peer_failure, off };

class Endpoint;

/// Memory of this process that peers may write to, while this object lives. Move-only.
class MemoryRegion {
 public:
  MemoryRegion(MemoryRegion&&) noexcept;
  MemoryRegion& operator=(MemoryRegion&&) noexcept;
  ~MemoryRegion();
  /// What a peer needs to write to it: opaque bytes, to be carried there by other means.
  Address key() const;

 private:
  friend class Worker;
  struct State;
  explicit MemoryRegion(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// A peer's MemoryRegion, as an endpoint to that peer reaches it. Must not outlive the endpoint. Move-only.
class RemoteRegion {
 public:
  RemoteRegion(RemoteRegion&&) noexcept;
  RemoteRegion& operator=(RemoteRegion&&) noexcept;
  ~RemoteRegion();

 private:
  friend class Endpoint;
  struct State;
  explicit RemoteRegion(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// A message under way. Its buffer must stay until wait() has returned or thrown, or this object is gone. Move-only.
class Pending {
 public:
  Pending(Pending&&) noexcept;
  Pending& operator=(Pending&&) noexcept;
  /// Cancels what is still under way.
  ~Pending();
  /// Throws Error{communication} naming the peer when `deadline` passes or the library reports a failure; cancels the message then.
  void wait(Seconds deadline);

 private:
  friend class Endpoint;
  struct State;
  explicit Pending(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// A progress engine with its own context. Move-only; endpoints keep it alive.
class Worker {
 public:
  /// `expected_peers` is a hint. `transports`: as in UCX_TLS, "tcp", "sm,self", "rc,ud"; "": what the environment or the library chooses.
  /// Throws Error{unavailable} when no transport can be opened.
  explicit Worker(int expected_peers = 1, const std::string& transports = "");
  Worker(Worker&&) noexcept;
  Worker& operator=(Worker&&) noexcept;
  ~Worker();

  Address address() const;
  /// Local: the connection is made with the first message. `peer_name` ("rank 3 on n2") appears in errors.
  Endpoint connect(const Address& peer, std::string peer_name, PeerWatch watch);
  /// `memory` must outlive the region.
  MemoryRegion expose(std::span<std::byte> memory);
  /// Moves outstanding work on; for waiting with other means than an endpoint's own calls.
  void progress();

  struct State;

 private:
  std::shared_ptr<State> state_;
};

/// One end of a connection. Messages match by tag alone, so let the tag name the sender. Buffers belong to the caller and are free when the
/// call returns or throws. Every call has a deadline, after which the request is cancelled and Error{communication} names the peer.
class Endpoint {
 public:
  Endpoint(Endpoint&&) noexcept;
  Endpoint& operator=(Endpoint&&) noexcept;
  /// Drops what is still under way.
  ~Endpoint();

  void send(std::span<const std::byte> message, std::uint64_t tag, Seconds deadline);
  /// The message must have exactly the size of `message`; Error{communication} otherwise.
  void receive(std::span<std::byte> message, std::uint64_t tag, Seconds deadline);
  /// The same without waiting: messages in both directions at once.
  Pending start_send(std::span<const std::byte> message, std::uint64_t tag);
  Pending start_receive(std::span<std::byte> message, std::uint64_t tag);

  /// `key`: of a region of this endpoint's peer.
  RemoteRegion open(const Address& key);
  /// Writes to the start of the region; `data` may be used again when this returns. The peer must make progress meanwhile.
  void put(std::span<const std::byte> data, const RemoteRegion& region, Seconds deadline);
  /// Waits until all that was put has arrived.
  void flush(Seconds deadline);

  /// Waits until what was sent has left, then disconnects; the peer must make progress meanwhile. The destructor disconnects too, but
  /// without waiting for anybody.
  void close(Seconds deadline);

  const std::string& peer_name() const;

 private:
  friend class Worker;
  struct State;
  explicit Endpoint(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// "UCX 1.13.1", of the library that is loaded.
std::string library_version();

}  // namespace flotilla::ucx
