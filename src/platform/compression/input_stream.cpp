#include "flotilla/compression/input_stream.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include "flotilla/base/error.hpp"
#include "source.hpp"

namespace flotilla::compression {
namespace {

class PlainSource : public InputStream::Source {
 public:
  explicit PlainSource(FileBytes file) : file_{std::move(file)} {}
  std::size_t read(std::span<char> bytes) override { return file_.read(bytes); }
  void skip(std::int64_t bytes) override { file_.skip(bytes); }
  std::int64_t consumed() const override { return file_.position(); }

 private:
  FileBytes file_;
};

enum class Packing { none, gzip, zstd };

/// By the first bytes; the place in the file stays.
Packing packing_of(FileBytes& file) {
  std::array<char, 4> magic{};
  const auto there = file.read(magic);
  file.skip(-static_cast<std::int64_t>(there));
  const std::string_view begin{magic.data(), there};
  if (begin.starts_with("\x1f\x8b")) return Packing::gzip;
  return begin == "\x28\xb5\x2f\xfd" ? Packing::zstd : Packing::none;
}

FileBytes open_file(const std::filesystem::path& path) {
  std::error_code unknown;  // what else is wrong with it is said when it is opened
  const auto type = std::filesystem::status(path, unknown).type();
  FLOTILLA_REQUIRE(type != std::filesystem::file_type::not_found, ErrorKind::no_input, path.string(), ": no such file");
  FLOTILLA_REQUIRE(type == std::filesystem::file_type::regular || unknown, ErrorKind::bad_input, path.string(),
                   ": expected a regular file");
  return FileBytes{store::PlainFile::open_for_reading(path)};
}

std::unique_ptr<InputStream::Source> source_of(FileBytes file) {
  switch (packing_of(file)) {
    case Packing::gzip: return gzip_source(std::move(file));
    case Packing::zstd: return zstd_source(std::move(file));
    case Packing::none: break;
  }
  return std::make_unique<PlainSource>(std::move(file));
}

}  // namespace

std::size_t FileBytes::read(std::span<char> bytes) {
  const auto count = static_cast<std::size_t>(std::min<std::int64_t>(std::ssize(bytes), size_ - at_));
  file_.read(std::as_writable_bytes(bytes.first(count)), at_);
  at_ += static_cast<std::int64_t>(count);
  return count;
}

void FileBytes::skip(std::int64_t bytes) {
  FLOTILLA_REQUIRE(bytes <= size_ - at_, ErrorKind::bad_input, path().string(), ": ends at byte ", size_, "; expected at least ",
                   at_ + bytes);
  at_ += bytes;
}

std::span<const char> BlockReader::left() {
  if (left_.empty()) left_ = std::span{block_}.first(file_.read(block_));
  return left_;
}

void Decompressor::skip(std::int64_t bytes) {
  std::vector<char> passed(1 << 17);
  while (bytes > 0) {
    const auto wanted = std::span{passed}.first(static_cast<std::size_t>(std::min<std::int64_t>(bytes, std::ssize(passed))));
    const auto count = read(wanted);
    FLOTILLA_REQUIRE(count == wanted.size(), ErrorKind::bad_input, in_.path().string(),
                     ": ends before the place where reading stopped last");
    bytes -= static_cast<std::int64_t>(count);
  }
}

InputStream::InputStream(std::unique_ptr<Source> source) : source_{std::move(source)} {}
InputStream::InputStream(InputStream&&) noexcept = default;
InputStream& InputStream::operator=(InputStream&&) noexcept = default;
InputStream::~InputStream() = default;

InputStream InputStream::open(const std::filesystem::path& path) { return InputStream{source_of(open_file(path))}; }

std::size_t InputStream::read(std::span<char> bytes) { return source_->read(bytes); }
void InputStream::skip(std::int64_t bytes) { source_->skip(bytes); }
std::int64_t InputStream::consumed() const { return source_->consumed(); }

bool is_compressed(const std::filesystem::path& path) {
  auto file = open_file(path);
  return packing_of(file) != Packing::none;
}

std::string library_version() { return gzip_version() + ", " + zstd_version(); }

}  // namespace flotilla::compression
