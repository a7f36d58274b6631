#include "flotilla/base/clock.hpp"
#include "flotilla/base/spin.hpp"
#include "state.hpp"

namespace flotilla::ucx {
namespace {

void note_failure(void* argument, ucp_ep_h, ucs_status_t status) { *static_cast<ucs_status_t*>(argument) = status; }

constexpr int cancel_rounds = 100000;

}  // namespace

ucs_status_t UcxRequest::wait(Seconds deadline, const ucs_status_t& peer_failure) {
  if (!UCS_PTR_IS_PTR(request_)) return UCS_PTR_STATUS(request_);
  Spin spin{deadline};
  while (ucp_request_check_status(request_) == UCS_INPROGRESS) {
    const bool progressed = ucp_worker_progress(worker_) != 0;
    if (peer_failure != UCS_OK) return cancel(peer_failure);
    if (ucp_request_check_status(request_) == UCS_INPROGRESS && spin.expired(progressed)) return cancel(UCS_ERR_TIMED_OUT);
  }
  return ucp_request_check_status(request_);
}

ucs_status_t UcxRequest::cancel(ucs_status_t reason) {
  ucp_request_cancel(worker_, request_);
  for (int round = 0; round < cancel_rounds && under_way(); ++round) ucp_worker_progress(worker_);
  return reason;
}

void fail(const std::string& peer, const char* doing, ucs_status_t status, Seconds deadline) {
  if (status == UCS_ERR_TIMED_OUT)
    throw Error{ErrorKind::communication,
                text(peer, ": no answer within ", deadline, " while ", doing, "; the process or its network is gone or stuck")};
  throw Error{ErrorKind::communication, text(peer, ": UCX reports \"", ucs_status_string(status), "\" while ", doing)};
}

Endpoint::State::~State() {
  if (endpoint == nullptr) return;
  ucp_request_param_t params{};
  params.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  params.flags = UCP_EP_CLOSE_FLAG_FORCE;
  ucs_status_ptr_t closing = ucp_ep_close_nbx(endpoint, &params);
  if (!UCS_PTR_IS_PTR(closing)) return;
  const Seconds end = now() + Seconds{0.1};
  while (ucp_request_check_status(closing) == UCS_INPROGRESS && now() < end) ucp_worker_progress(worker->worker.get());
  ucp_request_free(closing);
}

Endpoint Worker::connect(const Address& peer, std::string peer_name, PeerWatch watch) {
  FLOTILLA_REQUIRE(!peer.empty(), ErrorKind::communication, peer_name, ": its UCX address is empty");
  auto state = std::make_unique<Endpoint::State>();
  state->worker = state_;
  state->peer_name = std::move(peer_name);
  ucp_ep_params_t params{};
  params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = reinterpret_cast<const ucp_address_t*>(peer.data());
  params.err_mode = watch == PeerWatch::peer_failure ? UCP_ERR_HANDLING_MODE_PEER : UCP_ERR_HANDLING_MODE_NONE;
  params.err_handler.cb = note_failure;
  params.err_handler.arg = &state->failure;
  const ucs_status_t status = ucp_ep_create(state_->worker.get(), &params, &state->endpoint);
  FLOTILLA_REQUIRE(status == UCS_OK, ErrorKind::communication, state->peer_name, ": UCX cannot reach it: ", ucs_status_string(status),
                   "; check UCX_TLS and UCX_NET_DEVICES if they are set");
  return Endpoint{std::move(state)};
}

Endpoint::Endpoint(std::unique_ptr<State> state) : state_{std::move(state)} {}
Endpoint::Endpoint(Endpoint&&) noexcept = default;
Endpoint& Endpoint::operator=(Endpoint&&) noexcept = default;
Endpoint::~Endpoint() = default;

const std::string& Endpoint::peer_name() const { return state_->peer_name; }

void Endpoint::send(std::span<const std::byte> message, std::uint64_t tag, Seconds deadline) {
  const ucp_worker_h worker = state_->worker->worker.get();
  ucp_request_param_t params{};
  UcxRequest request{worker, ucp_tag_send_nbx(state_->endpoint, message.data(), message.size(), tag, &params)};
  const ucs_status_t status = request.wait(deadline, state_->failure);
  if (status != UCS_OK) fail(state_->peer_name, "sending to it", status, deadline);
}

void Endpoint::receive(std::span<std::byte> message, std::uint64_t tag, Seconds deadline) {
  const ucp_worker_h worker = state_->worker->worker.get();
  // Always a request, never an immediate completion: UCX 1.13 tells the length through requests only.
  ucp_request_param_t params{};
  params.op_attr_mask = UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
  ucs_status_ptr_t raw = ucp_tag_recv_nbx(worker, message.data(), message.size(), tag, whole_tag, &params);
  UcxRequest request{worker, raw};
  const ucs_status_t status = request.wait(deadline, state_->failure);
  if (status != UCS_OK) fail(state_->peer_name, "waiting for its message", status, deadline);
  ucp_tag_recv_info_t info{};
  UCX_TRY(ucp_tag_recv_request_test(raw, &info));
  FLOTILLA_REQUIRE(info.length == message.size(), ErrorKind::communication, state_->peer_name, ": sent ", info.length, " bytes where ",
                   message.size(), " were expected");
}

void Endpoint::close(Seconds deadline) {
  ucp_request_param_t params{};
  const ucp_ep_h endpoint = std::exchange(state_->endpoint, nullptr);
  UcxRequest request{state_->worker->worker.get(), ucp_ep_close_nbx(endpoint, &params)};
  const ucs_status_t status = request.wait(deadline, state_->failure);
  if (status != UCS_OK) fail(state_->peer_name, "disconnecting", status, deadline);
}

}  // namespace flotilla::ucx
