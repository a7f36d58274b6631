#include "state.hpp"

namespace flotilla::ucx {
namespace {

constexpr ucs_status_t no_watch = UCS_OK;

}  // namespace

Pending::Pending(std::unique_ptr<State> state) : state_{std::move(state)} {}
Pending::Pending(Pending&&) noexcept = default;
Pending& Pending::operator=(Pending&&) noexcept = default;
Pending::~Pending() {
  if (state_ && state_->request.under_way()) state_->request.cancel(UCS_ERR_CANCELED);
}

void Pending::wait(Seconds deadline) {
  const ucs_status_t status = state_->request.wait(deadline, no_watch);
  if (status != UCS_OK) fail(state_->peer_name, state_->doing, status, deadline);
}

Pending Endpoint::start_send(std::span<const std::byte> message, std::uint64_t tag) {
  const ucp_worker_h worker = state_->worker->worker.get();
  ucp_request_param_t params{};
  const ucs_status_ptr_t request = ucp_tag_send_nbx(state_->endpoint, message.data(), message.size(), tag, &params);
  return Pending{
      std::unique_ptr<Pending::State>{new Pending::State{state_->worker, state_->peer_name, "sending to it", {worker, request}}}};
}

Pending Endpoint::start_receive(std::span<std::byte> message, std::uint64_t tag) {
  const ucp_worker_h worker = state_->worker->worker.get();
  ucp_request_param_t params{};
  const ucs_status_ptr_t request = ucp_tag_recv_nbx(worker, message.data(), message.size(), tag, whole_tag, &params);
  return Pending{
      std::unique_ptr<Pending::State>{new Pending::State{state_->worker, state_->peer_name, "waiting for its message", {worker, request}}}};
}

}  // namespace flotilla::ucx
