#pragma once
#include <filesystem>

#include "flotilla/base/units.hpp"

/// What must be asked of the disk below HDF5. Plain POSIX: a failure here is an ordinary Error, unlike one inside parallel I/O:
/// ErrorKind::temporary for a disk that is full or away, unavailable for the rest (flotilla/base/io_failure.hpp).
namespace flotilla::store {

/// Bytes that this user may still write on the file system that holds `path` (a file or a folder).
Bytes free_space(const std::filesystem::path& path);

/// Makes sure that the first `size` bytes of an existing file have room on the disk; the file grows to `size` and keeps its contents.
/// Where the file system cannot allocate without writing, zeros are written past the old end. An error says the
/// bytes needed and the bytes free; the file may then be longer than it was.
void reserve(const std::filesystem::path& file, Bytes size);

/// Waits until a file's contents, or a folder's entries, are on the disk; tells about writes of this node that failed since.
void flush(const std::filesystem::path& file_or_folder);

}  // namespace flotilla::store
