#include "structure.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <span>

#include "checksums.hpp"
#include "flotilla/base/hash.hpp"
#include "flotilla/base/io_failure.hpp"
#include "flotilla/base/patience.hpp"
#include "flotilla/base/unique_handle.hpp"

namespace flotilla::checkpoint {
namespace {

/// HDF5's superblock and the header of the root group are in it.
constexpr std::int64_t header_bytes = 512, block_bytes = 1 << 20;

struct ReadTraits {
  using Raw = int;
  static Raw null() noexcept { return -1; }
  static void destroy(Raw file) noexcept { ::close(file); }
};

/// Reads pieces of a file and sums them up.
class PlainReader {
 public:
  explicit PlainReader(const std::filesystem::path& path) : path_{path} {
    const int error = patiently(path.native(), [&] {
      file_.reset(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
      return file_ ? 0 : errno;
    });
    require(error);
  }

  /// CRC-32C of a text and then of the bytes from `first` to `last`.
  std::uint32_t add(std::uint32_t crc, std::int64_t first, std::int64_t last) {
    while (first < last) {
      buffer_.resize(static_cast<std::size_t>(std::min(last - first, block_bytes)));
      ssize_t count = 0;
      require(
          patiently(path_.native(), [&] { return (count = ::pread(file_.get(), buffer_.data(), buffer_.size(), first)) < 0 ? errno : 0; }));
      FLOTILLA_REQUIRE(count > 0, ErrorKind::bad_input, path_.string(), ": ends at byte ", first);
      crc = crc32c(std::span{buffer_}.first(static_cast<std::size_t>(count)), crc);
      first += count;
    }
    return crc;
  }

 private:
  void require(int error) const {
    FLOTILLA_REQUIRE(error == 0, io_error_kind(error), path_.string(), ": cannot be read: ", std::strerror(error));
  }

  std::filesystem::path path_;
  UniqueHandle<ReadTraits> file_;
  std::vector<std::byte> buffer_;
};

struct StructureChecksums {
  std::uint32_t header = 0, all = 0;
};

StructureChecksums checksums_of_structure(const std::filesystem::path& state, const StateFile& file) {
  PlainReader reader{state};
  StructureChecksums result;
  const auto& ranges = file.tensor_ranges;
  result.header = reader.add(0, 0, std::min(header_bytes, ranges.empty() ? file.size.count : ranges.front()));
  std::int64_t end = 0;
  for (std::size_t i = 0; i + 1 < ranges.size(); i += 2) {
    result.all = reader.add(result.all, end, ranges[i]);
    end = ranges[i] + ranges[i + 1];
  }
  result.all = reader.add(result.all, end, file.size.count);
  return result;
}

}  // namespace

std::vector<std::int64_t> ranges_of(const std::vector<store::Dataset>& tensors) {
  std::vector<std::pair<std::int64_t, std::int64_t>> ranges;
  for (const auto& data : tensors) ranges.emplace_back(data.file_offset().count, data.elements() * 4);
  std::ranges::sort(ranges);
  std::vector<std::int64_t> numbers;
  for (const auto& [first, bytes] : ranges)
    if (!numbers.empty() && numbers[numbers.size() - 2] + numbers.back() == first)
      numbers.back() += bytes;
    else
      numbers.insert(numbers.end(), {first, bytes});
  return numbers;
}

void add_structure_checksums(const std::filesystem::path& state, StateFile& file) {
  const auto found = checksums_of_structure(state, file);
  file.header_checksum = found.header;
  file.structure_checksum = found.all;
}

void require_structure(const std::filesystem::path& state, const StateFile& file) {
  const auto found = checksums_of_structure(state, file);
  const auto require = [&](const char* what, std::uint32_t is, std::uint32_t expected) {
    FLOTILLA_REQUIRE(is == expected, ErrorKind::bad_input, state.string(), ": ", what, " has checksum ", hex8(is), ", expected ",
                     hex8(expected), ": the file is damaged; an earlier checkpoint may be whole");
  };
  require("the HDF5 header", found.header, file.header_checksum);
  require("the HDF5 structure", found.all, file.structure_checksum);
}

store::File open_compared(const std::filesystem::path& state) {
  std::optional<store::File> file;
  std::string reason;
  const int error = patiently(state.native(), [&] {
    try {
      file.emplace(store::File::open_for_reading(state));
      return 0;
    } catch (const Error& failure) {
      reason = failure.what();
      return store::poisoned() ? ENOTRECOVERABLE : EIO;
    }
  });
  FLOTILLA_REQUIRE(error == 0, ErrorKind::temporary, reason);
  return std::move(*file);
}

}  // namespace flotilla::checkpoint
