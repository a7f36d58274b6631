#pragma once
#include <ucp/api/ucp.h>

#include <string>

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

}  // namespace flotilla::ucx
