#include <zlib.h>

#include <limits>

#include "flotilla/base/error.hpp"
#include "source.hpp"

namespace flotilla::compression {
namespace {

constexpr int gzip_only = 16;

/// One or several members, one behind the other, as gzip and pigz write them.
class GzipSource : public Decompressor {
 public:
  explicit GzipSource(FileBytes file) : Decompressor{std::move(file)} {
    if (inflateInit2(&state_, MAX_WBITS + gzip_only) != Z_OK) throw std::bad_alloc{};
  }
  GzipSource(const GzipSource&) = delete;
  GzipSource& operator=(const GzipSource&) = delete;
  ~GzipSource() override { inflateEnd(&state_); }

  std::size_t read(std::span<char> bytes) override {
    std::size_t done = 0;
    while (done < bytes.size() && !between_members_at_end()) done += inflate_into(bytes.subspan(done));
    return done;
  }

 private:
  bool between_members_at_end() { return !inside_ && in_.left().empty(); }

  std::size_t inflate_into(std::span<char> bytes) {
    const auto left = in_.left();
    FLOTILLA_REQUIRE(!left.empty(), ErrorKind::bad_input, in_.path().string(), ": byte ", in_.position(), ": gzip data are cut here");
    inside_ = true;
    const auto room = static_cast<uInt>(std::min<std::size_t>(bytes.size(), std::numeric_limits<uInt>::max()));
    state_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(left.data()));  // which zlib only reads
    state_.avail_in = static_cast<uInt>(left.size());
    state_.next_out = reinterpret_cast<Bytef*>(bytes.data());
    state_.avail_out = room;
    const int answer = inflate(&state_, Z_NO_FLUSH);
    in_.take(left.size() - state_.avail_in);
    FLOTILLA_REQUIRE(answer == Z_OK || answer == Z_STREAM_END || answer == Z_BUF_ERROR, ErrorKind::bad_input, in_.path().string(),
                     ": byte ", in_.position(), ": damaged gzip data", state_.msg ? text(": ", state_.msg) : std::string{});
    if (answer == Z_STREAM_END) {
      inside_ = false;
      inflateReset(&state_);
    }
    return room - state_.avail_out;
  }

  z_stream state_{};
  bool inside_ = false;
};

}  // namespace

std::unique_ptr<InputStream::Source> gzip_source(FileBytes file) { return std::make_unique<GzipSource>(std::move(file)); }
std::string gzip_version() { return text("zlib ", zlibVersion()); }

}  // namespace flotilla::compression
