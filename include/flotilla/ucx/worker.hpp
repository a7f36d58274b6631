#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "flotilla/base/units.hpp"

/// Point-to-point messages by UCX (UCP tag matching): what the probe measures links with. One thread per worker.
namespace flotilla::ucx {

/// How to reach a worker from another process: opaque bytes, to be carried there by other means.
using Address = std::vector<std::byte>;

/// Whether the library watches for the peer's death. UCX 1.13 has no such watch over shared memory: an endpoint that asks for it talks TCP
/// even inside one node. Where it is off, only deadlines notice.
enum class Watch { peer_failure, off };

class Endpoint;

/// A progress engine with its own context. Move-only; endpoints keep it alive.
class Worker {
 public:
  /// `expected_peers` is a hint. Throws Error{unavailable} when no transport can be opened.
  explicit Worker(int expected_peers = 1);
  Worker(Worker&&) noexcept;
  Worker& operator=(Worker&&) noexcept;
  ~Worker();

  Address address() const;
  /// Local: the connection is made with the first message. `peer_name` ("rank 3 on n2") appears in errors.
  Endpoint connect(const Address& peer, std::string peer_name, Watch watch);
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
