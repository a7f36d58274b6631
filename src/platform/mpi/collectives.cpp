#include <cstdint>

#include "flotilla/base/error.hpp"
#include "flotilla/mpi/communicator.hpp"

namespace flotilla::mpi {
namespace {

/// A collective in flight with its buffers.
struct Exchange {
  std::vector<std::byte> mine, all;
  Request request;
};

/// After a deadline MPI may still write into the buffers, and nothing can withdraw a collective: they are given up, not freed.
void finish(std::unique_ptr<Exchange>& exchange, Seconds deadline, const char* what) {
  try {
    wait(exchange->request, deadline, what);
  } catch (...) {
    static_cast<void>(exchange.release());
    throw;
  }
}

std::vector<std::byte> bytes_of(const std::string& text, std::size_t size) {
  std::vector<std::byte> bytes(size);
  std::copy_n(std::as_bytes(std::span{text}).begin(), std::min(size, text.size()), bytes.begin());
  return bytes;
}

std::string text_of(std::span<const std::byte> bytes) {
  std::string text(bytes.size(), '\0');
  std::copy(bytes.begin(), bytes.end(), std::as_writable_bytes(std::span{text}).begin());
  return text;
}

std::vector<std::byte> broadcast_bytes(const Communicator& communicator, std::vector<std::byte> data, int root, Seconds deadline) {
  auto exchange = std::make_unique<Exchange>();
  exchange->all = std::move(data);
  exchange->request = communicator.broadcast(exchange->all, root);
  finish(exchange, deadline, "broadcast");
  return std::move(exchange->all);
}

}  // namespace

void barrier(const Communicator& communicator, Seconds deadline) {
  Request request = communicator.barrier();
  wait(request, deadline, "barrier");
}

std::vector<std::byte> all_gather_bytes(const Communicator& communicator, std::span<const std::byte> mine, Seconds deadline) {
  auto exchange = std::make_unique<Exchange>();
  exchange->mine.assign(mine.begin(), mine.end());
  exchange->all.resize(mine.size() * static_cast<std::size_t>(communicator.size()));
  exchange->request = communicator.all_gather(exchange->mine, exchange->all);
  finish(exchange, deadline, "all-gather");
  return std::move(exchange->all);
}

std::vector<std::string> all_gather_strings(const Communicator& communicator, const std::string& mine, Seconds deadline) {
  const auto sizes = all_gather(communicator, static_cast<std::uint64_t>(mine.size()), deadline);
  const std::size_t longest = *std::max_element(sizes.begin(), sizes.end());
  const auto all = all_gather_bytes(communicator, bytes_of(mine, longest), deadline);
  std::vector<std::string> texts;
  for (std::size_t rank = 0; rank < sizes.size(); ++rank) texts.push_back(text_of(std::span{all}.subspan(rank * longest, sizes[rank])));
  return texts;
}

std::string broadcast_string(const Communicator& communicator, const std::string& value, int root, Seconds deadline) {
  std::vector<std::byte> header(sizeof(std::uint64_t));
  const std::uint64_t mine = value.size();
  std::copy_n(std::as_bytes(std::span{&mine, 1}).begin(), header.size(), header.begin());
  header = broadcast_bytes(communicator, std::move(header), root, deadline);
  std::uint64_t size = 0;
  std::copy(header.begin(), header.end(), std::as_writable_bytes(std::span{&size, 1}).begin());
  return text_of(broadcast_bytes(communicator, bytes_of(value, size), root, deadline));
}

}  // namespace flotilla::mpi
