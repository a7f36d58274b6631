#include "content_hash.hpp"

#include <array>

#include "flotilla/data/file_digest.hpp"
#include "flotilla/store/mapped_file.hpp"

namespace flotilla::data {
namespace {

constexpr std::int64_t whole_below = std::int64_t{64} << 20;  // bytes
constexpr std::int64_t sampled_blocks = 256;
constexpr std::int64_t block_bytes = 64 << 10;

/// Four independent chains keep the multipliers busy: a chain's next step has to wait for its last one.
std::uint64_t block_hash(FileBytes bytes, std::uint64_t hash) {
  std::array<std::uint64_t, 4> chains{hash, ~hash, hash + 1, hash + 2};
  const auto size = byte_count(bytes);
  std::int64_t at = 0;
  for (; at + 32 <= size; at += 32) {
    for (std::size_t i = 0; i < 4; ++i)
      chains[i] = Philox::mix(chains[i] ^ load<std::uint64_t>(bytes, at + 8 * static_cast<std::int64_t>(i)));
  }
  for (; at < size; ++at) chains[0] = Philox::mix(chains[0] ^ load<std::uint8_t>(bytes, at));
  for (const auto chain : chains) hash = combine(hash, chain);
  return hash;
}

}  // namespace

std::uint64_t content_hash(FileBytes bytes) {
  const auto size = byte_count(bytes);
  auto hash = combine(0, static_cast<std::uint64_t>(size));
  if (size < whole_below) return block_hash(bytes, hash);
  const auto span = size - block_bytes;
  for (std::int64_t i = 0; i < sampled_blocks; ++i) {
    // span * i fits: files end at 2^63 bytes, so divide before multiplying.
    const auto start = span / (sampled_blocks - 1) * i + span % (sampled_blocks - 1) * i / (sampled_blocks - 1);
    hash = block_hash(bytes.subspan(static_cast<std::size_t>(start), static_cast<std::size_t>(block_bytes)), hash);
  }
  return hash;
}

std::uint64_t file_digest(const std::filesystem::path& path) {
  const auto file = store::MappedFile::open(path, "a file that is not empty");
  return content_hash(file.bytes());
}

}  // namespace flotilla::data
