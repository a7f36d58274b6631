#include "flotilla/health/disk.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <vector>

#include "flotilla/base/clock.hpp"
#include "flotilla/base/descriptor.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/base/hash.hpp"
#include "flotilla/base/philox.hpp"
#include "flotilla/files/text_file.hpp"
#include "flotilla/store/disk.hpp"

namespace flotilla::health {
namespace {

namespace fs = std::filesystem;

constexpr Bytes piece_size{4 << 20};

using Piece = std::vector<std::uint32_t>;

/// Random, so that no file system makes it smaller.
Piece random_piece() {
  Piece piece(static_cast<std::size_t>(piece_size.count) / sizeof(std::uint32_t));
  const Philox random{20261123, 3};
  for (std::size_t i = 0; i < piece.size(); i += 4) {
    const auto four = random(i);
    for (std::size_t k = 0; k < 4; ++k) piece[i + k] = four[k];
  }
  return piece;
}

/// The file of the test; gone with it.
class TestFile {
 public:
  explicit TestFile(const fs::path& folder) : path_{folder / text(".flotilla-bench-", files::unguessable())} {
    file_ = Descriptor{::open(path_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600)};
    if (file_.get() < 0) fail("made");
  }
  TestFile(const TestFile&) = delete;
  TestFile& operator=(const TestFile&) = delete;
  ~TestFile() { ::unlink(path_.c_str()); }

  void write(const Piece& piece) {
    const auto* at = reinterpret_cast<const char*>(piece.data());
    for (std::size_t left = piece.size() * sizeof(piece[0]); left > 0;) {
      const auto done = ::write(file_.get(), at, left);
      if (done < 0 && errno == EINTR) continue;
      if (done <= 0) fail("written");
      at += done, left -= static_cast<std::size_t>(done);
    }
  }
  void flush() {
    if (::fsync(file_.get()) != 0) fail("written to the disk");
    ::posix_fadvise(file_.get(), 0, 0, POSIX_FADV_DONTNEED);
    ::lseek(file_.get(), 0, SEEK_SET);
  }
  void read(Piece& piece) {
    auto* at = reinterpret_cast<char*>(piece.data());
    for (std::size_t left = piece.size() * sizeof(piece[0]); left > 0;) {
      const auto done = ::read(file_.get(), at, left);
      if (done < 0 && errno == EINTR) continue;
      if (done <= 0) fail("read");
      at += done, left -= static_cast<std::size_t>(done);
    }
  }
  double modified() const {
    struct stat facts {};
    if (::fstat(file_.get(), &facts) != 0) fail("asked for its date");
    return static_cast<double>(facts.st_mtim.tv_sec) + 1e-9 * static_cast<double>(facts.st_mtim.tv_nsec);
  }

 private:
  [[noreturn]] void fail(const char* doing) const {
    throw Error{ErrorKind::unavailable, text(path_.string(), " cannot be ", doing, ": ", std::strerror(errno))};
  }
  fs::path path_;
  Descriptor file_;
};

double wall_clock() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

/// One pass over a file of its own, of which less is written where that takes longer than `at_most`. Throws Error{unavailable}: other bytes
/// were read than written.
DiskRates write_and_read(const fs::path& folder, const Piece& piece, Bytes size, Seconds at_most) {
  TestFile file{folder};
  DiskRates rates;
  Bytes written;
  const Seconds start = now();
  while (written < size && (written.count == 0 || now() - start < at_most)) {
    file.write(piece);
    if (written.count == 0) rates.clock_error = wall_clock() - file.modified();
    written += piece_size;
  }
  file.flush();
  rates.write = {static_cast<double>(written.count) / (now() - start).value};
  Piece back(piece.size());
  const Seconds reading = now();
  for (Bytes read; read < written; read += piece_size) {
    file.read(back);
    FLOTILLA_REQUIRE(back == piece, ErrorKind::unavailable, "a file in ", folder.string(), " came back changed");
  }
  rates.read = {static_cast<double>(written.count) / (now() - reading).value};
  return rates;
}

}  // namespace

DiskRates test_disk(const fs::path& folder, Bytes size, Seconds budget) {
  constexpr int fewest = 2, most = 5;
  files::make_folders(folder);
  const Bytes room = store::free_space(folder);
  FLOTILLA_REQUIRE(room > size, ErrorKind::unavailable, "only ", room, " are free on the file system of ", folder.string());
  const Piece piece = random_piece();
  const Seconds end = now() + budget;
  DiskRates best;
  Seconds longest{};
  for (int pass = 0; pass < fewest || (pass < most && now() + longest < end); ++pass) {
    const Seconds start = now();
    const auto rates = write_and_read(folder, piece, size, budget / (2 * fewest));
    longest = std::max(longest, now() - start);
    best.write.value = std::max(best.write.value, rates.write.value);
    best.read.value = std::max(best.read.value, rates.read.value);
    if (pass == 0 || std::abs(rates.clock_error) < std::abs(best.clock_error)) best.clock_error = rates.clock_error;
  }
  return best;
}

}  // namespace flotilla::health
