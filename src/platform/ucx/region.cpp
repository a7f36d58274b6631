#include <array>
#include <cstring>

#include "state.hpp"

namespace flotilla::ucx {
namespace {

/// What a key begins with: where the region is in its owner's memory.
using Place = std::array<std::uint64_t, 2>;  ///< address, size

}  // namespace

MemoryRegion::MemoryRegion(std::unique_ptr<State> state) : state_{std::move(state)} {}
MemoryRegion::MemoryRegion(MemoryRegion&&) noexcept = default;
MemoryRegion& MemoryRegion::operator=(MemoryRegion&&) noexcept = default;
MemoryRegion::~MemoryRegion() = default;

RemoteRegion::RemoteRegion(std::unique_ptr<State> state) : state_{std::move(state)} {}
RemoteRegion::RemoteRegion(RemoteRegion&&) noexcept = default;
RemoteRegion& RemoteRegion::operator=(RemoteRegion&&) noexcept = default;
RemoteRegion::~RemoteRegion() = default;

MemoryRegion Worker::expose(std::span<std::byte> memory) {
  auto state = std::make_unique<MemoryRegion::State>();
  state->worker = state_;
  state->bytes = memory;
  ucp_mem_map_params_t params{};
  params.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH;
  params.address = memory.data();
  params.length = memory.size();
  UCX_TRY(ucp_mem_map(state_->context.get(), &params, &state->memory));
  return MemoryRegion{std::move(state)};
}

Address MemoryRegion::key() const {
  void* packed = nullptr;
  std::size_t size = 0;
  UCX_TRY(ucp_rkey_pack(state_->worker->context.get(), state_->memory, &packed, &size));
  const Place place{reinterpret_cast<std::uint64_t>(state_->bytes.data()), state_->bytes.size()};
  Address key(sizeof place + size);
  std::memcpy(key.data(), place.data(), sizeof place);
  std::memcpy(key.data() + sizeof place, packed, size);
  ucp_rkey_buffer_release(packed);
  return key;
}

RemoteRegion Endpoint::open(const Address& key) {
  FLOTILLA_REQUIRE(key.size() > sizeof(Place), ErrorKind::communication, state_->peer_name, ": the key of its memory is cut short");
  Place place{};
  std::memcpy(place.data(), key.data(), sizeof place);
  auto state = std::make_unique<RemoteRegion::State>();
  state->address = place[0];
  state->size = place[1];
  const ucs_status_t status = ucp_ep_rkey_unpack(state_->endpoint, key.data() + sizeof place, &state->key);
  FLOTILLA_REQUIRE(status == UCS_OK, ErrorKind::communication, state_->peer_name,
                   ": UCX cannot reach its memory: ", ucs_status_string(status));
  return RemoteRegion{std::move(state)};
}

void Endpoint::put(std::span<const std::byte> data, const RemoteRegion& region, Seconds deadline) {
  FLOTILLA_ASSERT(data.size() <= region.state_->size, data.size(), " bytes put to a region of ", region.state_->size);
  ucp_request_param_t params{};
  UcxRequest request{state_->worker->worker.get(),
                     ucp_put_nbx(state_->endpoint, data.data(), data.size(), region.state_->address, region.state_->key, &params)};
  const ucs_status_t status = request.wait(deadline, state_->failure);
  if (status != UCS_OK) fail(state_->peer_name, "writing to its memory", status, deadline);
}

void Endpoint::flush(Seconds deadline) {
  ucp_request_param_t params{};
  UcxRequest request{state_->worker->worker.get(), ucp_ep_flush_nbx(state_->endpoint, &params)};
  const ucs_status_t status = request.wait(deadline, state_->failure);
  if (status != UCS_OK) fail(state_->peer_name, "waiting until it has what was written to its memory", status, deadline);
}

}  // namespace flotilla::ucx
