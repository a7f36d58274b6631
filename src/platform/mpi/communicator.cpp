#include "flotilla/mpi/communicator.hpp"

#include "message_type.hpp"
#include "mpi_try.hpp"
#include "native.hpp"

namespace flotilla::mpi {
namespace {

/// The standard attaches it to MPI_COMM_WORLD only.
int tag_upper_bound() {
  void* value = nullptr;
  int found = 0;
  MPI_TRY(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &value, &found));
  return found ? *static_cast<int*>(value) : 32767;
}

std::int64_t count(std::span<const std::byte> data) { return static_cast<std::int64_t>(data.size()); }

}  // namespace

Communicator::Communicator(std::unique_ptr<Native> native_handle) : native_{std::move(native_handle)}, largest_tag_{tag_upper_bound()} {
  const MPI_Comm raw = native_->handle.get();
  MPI_TRY(MPI_Comm_rank(raw, &rank_));
  MPI_TRY(MPI_Comm_size(raw, &size_));
}
Communicator::Communicator(Communicator&&) noexcept = default;
Communicator& Communicator::operator=(Communicator&&) noexcept = default;
Communicator::~Communicator() = default;

Communicator Communicator::duplicate(Seconds deadline) const {
  // MPI writes the new handle when the request finishes, which after a deadline may be any time: the place must outlive this call.
  auto place = std::make_unique<MPI_Comm>(MPI_COMM_NULL);
  MPI_Request raw = MPI_REQUEST_NULL;
  MPI_TRY(MPI_Comm_idup(mpi::native(*this), place.get(), &raw));
  Request request{Request::Kind::collective, &raw};
  try {
    wait(request, deadline, "duplicating a communicator");
  } catch (...) {
    static_cast<void>(place.release());
    throw;
  }
  auto copy = std::make_unique<Native>();
  copy->handle.reset(*place);
  return Communicator{std::move(copy)};
}

Communicator Communicator::subset(std::span<const int> ranks, int tag) const {
  MPI_Group all = MPI_GROUP_NULL;
  MPI_Group some = MPI_GROUP_NULL;
  MPI_TRY(MPI_Comm_group(mpi::native(*this), &all));
  const int included = MPI_Group_incl(all, static_cast<int>(ranks.size()), ranks.data(), &some);
  MPI_Group_free(&all);
  MPI_TRY(included);
  MPI_Comm raw = MPI_COMM_NULL;
  const int created = MPI_Comm_create_group(mpi::native(*this), some, tag, &raw);
  MPI_Group_free(&some);
  MPI_TRY(created);
  auto part = std::make_unique<Native>();
  part->handle.reset(raw);
  return Communicator{std::move(part)};
}

Request Communicator::send(std::span<const std::byte> data, int peer, int tag) const {
  const MessageType message{count(data)};
  MPI_Request raw = MPI_REQUEST_NULL;
  MPI_TRY(MPI_Isend(data.data(), message.count(), message.type(), peer, tag, mpi::native(*this), &raw));
  return {Request::Kind::send, &raw};
}

Request Communicator::receive(std::span<std::byte> data, int peer, int tag) const {
  const MessageType message{count(data)};
  MPI_Request raw = MPI_REQUEST_NULL;
  MPI_TRY(MPI_Irecv(data.data(), message.count(), message.type(), peer, tag, mpi::native(*this), &raw));
  return {Request::Kind::receive, &raw};
}

Request Communicator::barrier() const {
  MPI_Request raw = MPI_REQUEST_NULL;
  MPI_TRY(MPI_Ibarrier(mpi::native(*this), &raw));
  return {Request::Kind::collective, &raw};
}

Request Communicator::all_gather(std::span<const std::byte> mine, std::span<std::byte> all) const {
  const MessageType message{count(mine)};
  MPI_Request raw = MPI_REQUEST_NULL;
  MPI_TRY(
      MPI_Iallgather(mine.data(), message.count(), message.type(), all.data(), message.count(), message.type(), mpi::native(*this), &raw));
  return {Request::Kind::collective, &raw};
}

Request Communicator::broadcast(std::span<std::byte> data, int root) const {
  const MessageType message{count(data)};
  MPI_Request raw = MPI_REQUEST_NULL;
  MPI_TRY(MPI_Ibcast(data.data(), message.count(), message.type(), root, mpi::native(*this), &raw));
  return {Request::Kind::collective, &raw};
}

}  // namespace flotilla::mpi
