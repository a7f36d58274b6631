#include "flotilla/data/loss_mask.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string_view>
#include <vector>

#include "flotilla/store/plain_file.hpp"
#include "token_layout.hpp"

namespace flotilla::data {
namespace {

constexpr std::string_view mask_magic = "FLOTMASK";
constexpr std::int64_t mask_version_at = 8, mask_tokens_at = 16, mask_bits_at = 24;
constexpr std::uint64_t mask_version = 1;

constexpr std::int64_t bytes_for(std::int64_t tokens) { return (tokens + 7) / 8; }

/// Bits [first, last) of a byte.
constexpr unsigned bits_of_byte(std::int64_t first, std::int64_t last) { return (0xffu << first) & (0xffu >> (8 - last)); }

/// The file's bits, a block at a time, front to back.
class BitWriter {
 public:
  explicit BitWriter(const store::PlainFile& file) : file_{file} {}

  void append(bool value, std::int64_t count) {
    while (count > 0) {
      const auto some = std::min<std::int64_t>(count, 8 - used_);
      if (value) byte_ |= bits_of_byte(used_, used_ + some);
      used_ += some;
      count -= some;
      if (used_ == 8) take_byte();
    }
  }
  void finish() {
    if (used_ > 0) take_byte();
    write();
  }

 private:
  void take_byte() {
    block_.push_back(static_cast<std::byte>(byte_));
    byte_ = 0;
    used_ = 0;
    if (block_.size() >= block_bytes) write();
  }
  void write() {
    file_.write(block_, at_);
    at_ += std::ssize(block_);
    block_.clear();
  }

  static constexpr std::size_t block_bytes = 1 << 20;
  const store::PlainFile& file_;
  std::vector<std::byte> block_;
  std::int64_t at_ = mask_bits_at, used_ = 0;
  unsigned byte_ = 0;
};

void write_head(const store::PlainFile& file, std::int64_t tokens) {
  std::vector<std::byte> head(mask_bits_at);
  std::memcpy(head.data(), mask_magic.data(), mask_magic.size());
  std::memcpy(head.data() + mask_version_at, &mask_version, sizeof mask_version);
  std::memcpy(head.data() + mask_tokens_at, &tokens, sizeof tokens);
  file.write(head, 0);
}

}  // namespace

LossMask LossMask::open(const std::filesystem::path& path, std::int64_t tokens) {
  LossMask mask{store::MappedFile::open(path, "a mask of the tokens that count")};
  const auto bytes = mask.bytes();
  require_header(bytes, path, mask_bits_at, "a loss mask's header");
  if (std::memcmp(bytes.data(), mask_magic.data(), mask_magic.size()) != 0)
    refuse(path, 0, "expected a loss mask's magic ", mask_magic, "; a file of this name beside a .bin says which tokens count in the loss");
  const auto version = load<std::uint64_t>(bytes, mask_version_at);
  if (version != mask_version) refuse(path, mask_version_at, "expected version ", mask_version, " of a loss mask, found ", version);
  const auto there = load<std::uint64_t>(bytes, mask_tokens_at);
  if (there != static_cast<std::uint64_t>(tokens))
    refuse(path, mask_tokens_at, "a mask of ", there, " tokens; expected ", tokens, ", as the .bin has");
  if (byte_count(bytes) != mask_bits_at + bytes_for(tokens))
    refuse(path, mask_tokens_at, tokens, " tokens need a file of ", mask_bits_at + bytes_for(tokens), " bytes, but it has ",
           byte_count(bytes));
  return mask;
}

bool LossMask::counts(std::int64_t token) const {
  return (static_cast<unsigned>(bytes()[static_cast<std::size_t>(mask_bits_at + token / 8)]) >> token % 8 & 1u) != 0;
}

void LossMask::mark(std::int64_t first, std::span<std::int32_t> tokens) const {
  file_.require_whole();
  for (std::size_t i = 0; i < tokens.size(); ++i)
    if (!counts(first + static_cast<std::int64_t>(i))) tokens[i] = ~tokens[i];
}

std::int64_t LossMask::count(std::int64_t first, std::int64_t last) const {
  file_.require_whole();
  std::int64_t count = 0;
  while (first < last) {
    const auto byte = first / 8, end = std::min(last, 8 * (byte + 1));
    const auto bits = static_cast<unsigned>(bytes()[static_cast<std::size_t>(mask_bits_at + byte)]);
    count += std::popcount(bits & bits_of_byte(first - 8 * byte, end - 8 * byte));
    first = end;
  }
  return count;
}

bool LossMask::any(std::int64_t first, std::int64_t last) const {
  constexpr std::int64_t block = 1 << 20;
  for (; first < last; first += block)
    if (count(first, std::min(last, first + block)) > 0) return true;
  return false;
}

void write_loss_mask(const std::filesystem::path& path, std::int64_t tokens, const std::function<bool(TokenRun&)>& next) {
  const auto file = store::PlainFile::create(path);
  write_head(file, tokens);
  BitWriter bits{file};
  std::int64_t at = 0;
  for (TokenRun run; next(run); at = run.last) {
    FLOTILLA_ASSERT(run.first >= at && run.last >= run.first && run.last <= tokens, "tokens ", run.first, " to ", run.last, " of ", tokens);
    bits.append(true, run.first - at);
    bits.append(false, run.last - run.first);
  }
  bits.append(true, tokens - at);
  bits.finish();
  file.flush();
}

}  // namespace flotilla::data
