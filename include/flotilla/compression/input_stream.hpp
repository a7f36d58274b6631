#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

/// Files that may be compressed, read from front to back.
namespace flotilla::compression {

/// The bytes of a file, decompressed where its first bytes are those of gzip or zstd. Bounded memory. Local. Move-only.
class InputStream {
 public:
  /// Throws Error{bad_input, unavailable, temporary} with the path; Error{unavailable} where the library for this format was not linked.
  static InputStream open(const std::filesystem::path&);
  InputStream(InputStream&&) noexcept;
  InputStream& operator=(InputStream&&) noexcept;
  ~InputStream();

  /// Fills `bytes` as far as there are any, and returns how many; fewer than asked only at the end. Throws Error{bad_input} with the path
  /// for compressed data that is cut or damaged.
  std::size_t read(std::span<char> bytes);
  /// Passes over that many bytes, by position where the file is not compressed.
  void skip(std::int64_t bytes);
  /// Bytes of the file, as it lies on the disk, that were read: for progress.
  std::int64_t consumed() const;

  /// What takes a file's bytes and gives the text's. One a format.
  class Source;

 private:
  explicit InputStream(std::unique_ptr<Source>);
  std::unique_ptr<Source> source_;
};

/// Whether a file begins as gzip or zstd do. Throws as InputStream::open().
bool is_compressed(const std::filesystem::path&);

/// "zlib 1.2.13, zstd 1.5.4".
std::string library_version();

}  // namespace flotilla::compression
