#include "flotilla/data/megatron_writer.hpp"

#include <algorithm>
#include <cstring>
#include <functional>
#include <vector>

#include "flotilla/base/error.hpp"
#include "token_layout.hpp"

namespace flotilla::data {
namespace {

/// Appends numbers to a file, a block at a time.
class Appender {
 public:
  explicit Appender(const store::PlainFile& file) : file_{file} {}

  template <class T>
  void add(T number) {
    const auto* bytes = reinterpret_cast<const std::byte*>(&number);
    block_.insert(block_.end(), bytes, bytes + sizeof number);
    if (block_.size() >= block_bytes) write();
  }
  void write() {
    file_.write(block_, at_);
    at_ += std::ssize(block_);
    block_.clear();
  }

 private:
  static constexpr std::size_t block_bytes = 1 << 20;
  const store::PlainFile& file_;
  std::vector<std::byte> block_;
  std::int64_t at_ = 0;
};

/// Calls f(length, whether a document ends there) for every sequence.
void each_length(const store::PlainFile& lengths, const std::function<void(std::int32_t, bool)>& f) {
  const auto count = lengths.size().count / static_cast<std::int64_t>(sizeof(std::int32_t));
  std::vector<std::int32_t> block(1 << 18);
  for (std::int64_t at = 0; at < count;) {
    const auto some = std::span{block}.first(static_cast<std::size_t>(std::min<std::int64_t>(std::ssize(block), count - at)));
    lengths.read(std::as_writable_bytes(some), at * static_cast<std::int64_t>(sizeof(std::int32_t)));
    for (const auto length : some) f(length < 0 ? ~length : length, length < 0);
    at += std::ssize(some);
  }
}

}  // namespace

void write_megatron_index(const std::filesystem::path& index, const store::PlainFile& lengths, int token_bytes) {
  constexpr std::uint8_t int32_code = 4, uint16_code = 8;
  std::int64_t sequences = 0, documents = 1;
  each_length(lengths, [&](std::int32_t, bool last) { ++sequences, documents += last; });
  const auto file = store::PlainFile::create(index);
  Appender out{file};
  for (const char c : megatron_magic) out.add(c);
  out.add(std::uint64_t{1});
  out.add(token_bytes == 2 ? uint16_code : int32_code);
  out.add(sequences);
  out.add(documents);
  each_length(lengths, [&](std::int32_t length, bool) { out.add(length); });
  std::int64_t pointer = 0;
  each_length(lengths, [&](std::int32_t length, bool) {
    out.add(pointer);
    pointer += std::int64_t{length} * token_bytes;
  });
  std::int64_t sequence = 0;
  out.add(sequence);
  each_length(lengths, [&](std::int32_t, bool last) {
    ++sequence;
    if (last) out.add(sequence);
  });
  out.write();
  file.flush();
}

}  // namespace flotilla::data
