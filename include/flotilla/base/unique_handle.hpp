#pragma once
#include <utility>

namespace flotilla {

/// Sole owner of a C library's handle. Traits: Raw, null(), destroy(Raw) noexcept. Wrappers hold one and default their moves.
template <class Traits>
class UniqueHandle {
 public:
  using Raw = typename Traits::Raw;
  UniqueHandle() noexcept = default;
  explicit UniqueHandle(Raw raw) noexcept : raw_{raw} {}
  UniqueHandle(UniqueHandle&& other) noexcept : raw_{other.release()} {}
  UniqueHandle& operator=(UniqueHandle&& other) noexcept {
    if (this != &other) reset(other.release());
    return *this;
  }
  ~UniqueHandle() { reset(); }

  Raw get() const noexcept { return raw_; }
  explicit operator bool() const noexcept { return raw_ != Traits::null(); }
  Raw release() noexcept { return std::exchange(raw_, Traits::null()); }
  void reset(Raw raw = Traits::null()) noexcept {
    if (raw_ != Traits::null()) Traits::destroy(raw_);
    raw_ = raw;
  }

 private:
  Raw raw_ = Traits::null();
};

}  // namespace flotilla
