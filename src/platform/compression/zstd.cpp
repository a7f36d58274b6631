#include <zstd.h>

#include "flotilla/base/error.hpp"
#include "flotilla/base/unique_handle.hpp"
#include "source.hpp"

namespace flotilla::compression {
namespace {

struct StreamTraits {
  using Raw = ZSTD_DStream*;
  static Raw null() noexcept { return nullptr; }
  static void destroy(Raw stream) noexcept { ZSTD_freeDStream(stream); }
};

/// One or several frames, one behind the other. Windows beyond 128 MiB are refused by the library.
class ZstdSource : public Decompressor {
 public:
  explicit ZstdSource(FileBytes file) : Decompressor{std::move(file)} {
    if (!stream_) throw std::bad_alloc{};
  }

  std::size_t read(std::span<char> bytes) override {
    ZSTD_outBuffer out{bytes.data(), bytes.size(), 0};
    while (out.pos < out.size && decompress(out)) {
    }
    return out.pos;
  }

 private:
  /// False at the end.
  bool decompress(ZSTD_outBuffer& out) {
    const auto left = in_.left();
    ZSTD_inBuffer in{left.data(), left.size(), 0};
    const auto before = out.pos;
    if (left.empty() && wanted_ == 0) return false;
    const auto answer = ZSTD_decompressStream(stream_.get(), &out, &in);
    in_.take(in.pos);
    FLOTILLA_REQUIRE(!ZSTD_isError(answer), ErrorKind::bad_input, in_.path().string(), ": byte ", in_.position(),
                     ": damaged zstd data: ", ZSTD_getErrorName(answer));
    wanted_ = answer;
    FLOTILLA_REQUIRE(!left.empty() || out.pos > before, ErrorKind::bad_input, in_.path().string(), ": byte ", in_.position(),
                     ": zstd data are cut here");
    return true;
  }

  UniqueHandle<StreamTraits> stream_{ZSTD_createDStream()};
  std::size_t wanted_ = 0;  ///< 0 between frames
};

}  // namespace

std::unique_ptr<InputStream::Source> zstd_source(FileBytes file) { return std::make_unique<ZstdSource>(std::move(file)); }
std::string zstd_version() { return text("zstd ", ZSTD_versionString()); }

}  // namespace flotilla::compression
