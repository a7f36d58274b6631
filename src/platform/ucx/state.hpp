#pragma once
#include <ucp/api/ucp.h>

#include <string>

#include "flotilla/base/clock.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/base/unique_handle.hpp"
#include "flotilla/ucx/worker.hpp"

/// Checks one UCX call; the library or its environment is at fault, not the user's input.
#define UCX_TRY(call)                                                                                                           \
  do {                                                                                                                          \
    const ucs_status_t ucx_try_status = (call);                                                                                 \
    FLOTILLA_REQUIRE(ucx_try_status == UCS_OK, ErrorKind::unavailable, "UCX: ", #call, ": ", ucs_status_string(ucx_try_status), \
                     "; check UCX_TLS and UCX_NET_DEVICES if they are set");                                                    \
  } while (false)

namespace flotilla::ucx {

inline constexpr std::uint64_t whole_tag = ~std::uint64_t{0};

struct ContextTraits {
  using Raw = ucp_context_h;
  static Raw null() noexcept { return nullptr; }
  static void destroy(Raw context) noexcept { ucp_cleanup(context); }
};

struct WorkerTraits {
  using Raw = ucp_worker_h;
  static Raw null() noexcept { return nullptr; }
  static void destroy(Raw worker) noexcept { ucp_worker_destroy(worker); }
};

/// A request under way. Whatever happens it is completed or cancelled before the buffer goes back to its owner.
class UcxRequest {
 public:
  UcxRequest(ucp_worker_h worker, ucs_status_ptr_t request) : worker_{worker}, request_{request} {}
  UcxRequest(const UcxRequest&) = delete;
  UcxRequest& operator=(const UcxRequest&) = delete;
  ~UcxRequest() {
    if (UCS_PTR_IS_PTR(request_)) ucp_request_free(request_);
  }
  bool under_way() const { return UCS_PTR_IS_PTR(request_) && ucp_request_check_status(request_) == UCS_INPROGRESS; }
  /// `peer_failure`: what the library's watch reports meanwhile.
  ucs_status_t wait(Seconds deadline, const ucs_status_t& peer_failure);
  /// A cancelled receive completes in the next rounds of progress. A send that UCX cannot take back keeps its request; then the endpoint's
  /// forced close is what ends it. Returns `reason`.
  ucs_status_t cancel(ucs_status_t reason);

 private:
  ucp_worker_h worker_;
  ucs_status_ptr_t request_;
};

/// Throws the Error of a call that failed.
[[noreturn]] void fail(const std::string& peer, const char* doing, ucs_status_t status, Seconds deadline);

/// Order of members: the worker goes before its context.
struct Worker::State {
  UniqueHandle<ContextTraits> context;
  UniqueHandle<WorkerTraits> worker;
};

/// The error callback holds its address, so it never moves.
struct Endpoint::State {
  std::shared_ptr<Worker::State> worker;
  ucp_ep_h endpoint = nullptr;
  std::string peer_name;
  ucs_status_t failure = UCS_OK;  ///< what the library's watch reported

  State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State();
};

struct Pending::State {
  std::shared_ptr<Worker::State> worker;
  std::string peer_name;
  const char* doing;
  UcxRequest request;
};

/// Unmapped before the context goes.
struct MemoryRegion::State {
  std::shared_ptr<Worker::State> worker;
  ucp_mem_h memory = nullptr;
  std::span<std::byte> bytes;

  State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() {
    if (memory != nullptr) ucp_mem_unmap(worker->context.get(), memory);
  }
};

struct RemoteRegion::State {
  ucp_rkey_h key = nullptr;
  std::uint64_t address = 0, size = 0;

  State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() {
    if (key != nullptr) ucp_rkey_destroy(key);
  }
};

}  // namespace flotilla::ucx
