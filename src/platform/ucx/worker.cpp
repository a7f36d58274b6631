#include "flotilla/ucx/worker.hpp"

#include <algorithm>
#include <cstring>

#include "state.hpp"

namespace flotilla::ucx {
namespace {

/// Settings of a context, from the environment.
struct ConfigTraits {
  using Raw = ucp_config_t*;
  static Raw null() noexcept { return nullptr; }
  static void destroy(Raw config) noexcept { ucp_config_release(config); }
};

UniqueHandle<ConfigTraits> read_config(const std::string& transports) {
  ucp_config_t* raw = nullptr;
  UCX_TRY(ucp_config_read(nullptr, nullptr, &raw));
  UniqueHandle<ConfigTraits> config{raw};
  if (!transports.empty()) UCX_TRY(ucp_config_modify(raw, "TLS", transports.c_str()));
  return config;
}

UniqueHandle<ContextTraits> open_context(int expected_peers, const std::string& transports) {
  const auto config = read_config(transports);
  ucp_params_t params{};
  params.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_ESTIMATED_NUM_EPS;
  params.features = UCP_FEATURE_TAG | UCP_FEATURE_RMA;
  params.estimated_num_eps = static_cast<std::size_t>(std::max(1, expected_peers));
  ucp_context_h context = nullptr;
  UCX_TRY(ucp_init(&params, config.get(), &context));
  return UniqueHandle<ContextTraits>{context};
}

UniqueHandle<WorkerTraits> open_worker(ucp_context_h context) {
  ucp_worker_params_t params{};
  params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  params.thread_mode = UCS_THREAD_MODE_SINGLE;
  ucp_worker_h worker = nullptr;
  UCX_TRY(ucp_worker_create(context, &params, &worker));
  return UniqueHandle<WorkerTraits>{worker};
}

}  // namespace

Worker::Worker(int expected_peers, const std::string& transports) : state_{std::make_shared<State>()} {
  state_->context = open_context(expected_peers, transports);
  state_->worker = open_worker(state_->context.get());
}

Worker::Worker(Worker&&) noexcept = default;
Worker& Worker::operator=(Worker&&) noexcept = default;
Worker::~Worker() = default;

Address Worker::address() const {
  ucp_address_t* raw = nullptr;
  std::size_t size = 0;
  UCX_TRY(ucp_worker_get_address(state_->worker.get(), &raw, &size));
  Address bytes(size);
  std::memcpy(bytes.data(), raw, size);
  ucp_worker_release_address(state_->worker.get(), raw);
  return bytes;
}

void Worker::progress() { ucp_worker_progress(state_->worker.get()); }

std::string library_version() {
  unsigned major = 0, minor = 0, release = 0;
  ucp_get_version(&major, &minor, &release);
  return text("UCX ", major, ".", minor, ".", release);
}

}  // namespace flotilla::ucx
