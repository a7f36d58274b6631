#include "combine.hpp"

#include <algorithm>
#include <cstring>
#include <functional>

namespace flotilla::checkpoint {
namespace {

constexpr int tag = 0x7000;  // agreements have those up to 0x3fff; every MPI has this one

template <class T, class Operation>
void combine(const mpi::Communicator& communicator, std::vector<T>& values, Operation operation, Seconds deadline) {
  std::vector<T> other;
  for (int distance = 1; distance < communicator.size(); distance *= 2) {
    if (communicator.rank() & distance) {
      auto request = communicator.send(std::as_bytes(std::span{values}), communicator.rank() - distance, tag);
      mpi::wait(request, deadline, "sending checksums");
      return;
    }
    if (communicator.rank() + distance >= communicator.size()) continue;
    other.resize(values.size());
    auto request = communicator.receive(std::as_writable_bytes(std::span{other}), communicator.rank() + distance, tag);
    mpi::wait(request, deadline, "receiving checksums");
    std::transform(values.begin(), values.end(), other.begin(), values.begin(), operation);
  }
}

template <class T>
std::vector<T> broadcast_values(const mpi::Communicator& communicator, const std::vector<T>& values, Seconds deadline) {
  const auto bytes = std::as_bytes(std::span{values});
  std::string mine(bytes.size(), '\0');
  if (communicator.rank() == 0) std::memcpy(mine.data(), bytes.data(), bytes.size());
  const auto text = mpi::broadcast_string(communicator, mine, 0, deadline);
  std::vector<T> result(text.size() / sizeof(T));
  std::memcpy(result.data(), text.data(), result.size() * sizeof(T));
  return result;
}

}  // namespace

void combine_xor(const mpi::Communicator& communicator, std::vector<std::uint32_t>& values, Seconds deadline) {
  combine(communicator, values, std::bit_xor<>{}, deadline);
}

void combine_sum(const mpi::Communicator& communicator, std::vector<std::uint64_t>& values, Seconds deadline) {
  combine(communicator, values, std::plus<>{}, deadline);
}

std::vector<std::uint32_t> broadcast(const mpi::Communicator& communicator, const std::vector<std::uint32_t>& values, Seconds deadline) {
  return broadcast_values(communicator, values, deadline);
}

std::vector<std::int64_t> broadcast(const mpi::Communicator& communicator, const std::vector<std::int64_t>& values, Seconds deadline) {
  return broadcast_values(communicator, values, deadline);
}

}  // namespace flotilla::checkpoint
