#include "flotilla/store/mapped_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "flotilla/base/descriptor.hpp"
#include "flotilla/base/io_failure.hpp"

namespace flotilla::store {
namespace {

struct ::stat regular_file_facts(int descriptor, const std::filesystem::path& path, std::string_view expected) {
  struct ::stat facts {};
  FLOTILLA_REQUIRE(::fstat(descriptor, &facts) == 0, ErrorKind::bad_input, path.string(), ": cannot be examined: ", std::strerror(errno));
  FLOTILLA_REQUIRE(!S_ISDIR(facts.st_mode), ErrorKind::bad_input, path.string(), ": is a folder; expected ", expected,
                   " (name the files in it one by one)");
  FLOTILLA_REQUIRE(S_ISREG(facts.st_mode), ErrorKind::bad_input, path.string(), ": is not a regular file; expected ", expected);
  FLOTILLA_REQUIRE(facts.st_size > 0, ErrorKind::bad_input, path.string(), ": is empty; expected ", expected);
  return facts;
}

}  // namespace

void MappingTraits::destroy(Raw raw) noexcept { ::munmap(raw.address, raw.size); }

MappedFile MappedFile::open(const std::filesystem::path& path, std::string_view expected) {
  // Without O_NONBLOCK, opening a FIFO would wait for its writer.
  const Descriptor descriptor{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  FLOTILLA_REQUIRE(descriptor, read_error_kind(errno), path.string(), ": cannot be opened for reading: ", std::strerror(errno),
                   "; expected ", expected);
  const auto facts = regular_file_facts(descriptor.get(), path, expected);
  const auto size = static_cast<std::size_t>(facts.st_size);
  void* address = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, descriptor.get(), 0);
  FLOTILLA_REQUIRE(address != MAP_FAILED, ErrorKind::bad_input, path.string(), ": cannot be mapped: ", std::strerror(errno));
  MappedFile file;
  file.path_ = path;
  file.mapping_.reset({address, size});
  file.device_ = facts.st_dev;
  file.inode_ = facts.st_ino;
  return file;
}

void MappedFile::require_whole() const {
  struct ::stat facts {};
  // A deleted or replaced file stays whole for those who have it mapped.
  if (::stat(path_.c_str(), &facts) != 0 || facts.st_dev != device_ || facts.st_ino != inode_) return;
  FLOTILLA_REQUIRE(static_cast<std::size_t>(facts.st_size) >= bytes().size(), ErrorKind::bad_input, path_.string(), ": byte ",
                   facts.st_size, ": the file ends here now, but had ", bytes().size(),
                   " bytes when it was opened; do not change a file while it is being read");
}

void MappedFile::forget() const {
  const auto& raw = mapping_.get();
  if (raw.address != nullptr) ::madvise(raw.address, raw.size, MADV_DONTNEED);
}

}  // namespace flotilla::store
