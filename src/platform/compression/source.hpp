#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "flotilla/compression/input_stream.hpp"
#include "flotilla/store/plain_file.hpp"

namespace flotilla::compression {

/// A file's bytes as they lie, from front to back.
class FileBytes {
 public:
  explicit FileBytes(store::PlainFile file) : file_{std::move(file)}, size_{file_.size().count} {}

  const std::filesystem::path& path() const { return file_.path(); }
  std::int64_t position() const { return at_; }
  std::size_t read(std::span<char> bytes);
  void skip(std::int64_t bytes);

 private:
  store::PlainFile file_;
  std::int64_t size_ = 0, at_ = 0;
};

/// A file's bytes in blocks, for what decompresses.
class BlockReader {
 public:
  explicit BlockReader(FileBytes file) : file_{std::move(file)}, block_(1 << 17) {}

  const std::filesystem::path& path() const { return file_.path(); }
  std::int64_t position() const { return file_.position() - static_cast<std::int64_t>(left_.size()); }
  /// What is still to be taken; empty at the file's end only.
  std::span<const char> left();
  void take(std::size_t bytes) { left_ = left_.subspan(bytes); }

 private:
  FileBytes file_;
  std::vector<char> block_;
  std::span<const char> left_;
};

class InputStream::Source {
 public:
  Source() = default;
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;
  virtual ~Source() = default;
  virtual std::size_t read(std::span<char> bytes) = 0;
  virtual void skip(std::int64_t bytes) = 0;
  virtual std::int64_t consumed() const = 0;
};

/// A source whose bytes have no place in the file: passing over them is reading them.
class Decompressor : public InputStream::Source {
 public:
  explicit Decompressor(FileBytes file) : in_{std::move(file)} {}
  void skip(std::int64_t bytes) override;
  std::int64_t consumed() const override { return in_.position(); }

 protected:
  BlockReader in_;
};

std::unique_ptr<InputStream::Source> gzip_source(FileBytes);
std::string gzip_version();
std::unique_ptr<InputStream::Source> zstd_source(FileBytes);
std::string zstd_version();

}  // namespace flotilla::compression
