#pragma once
// HDF5 for this room: handles, and failures as Errors.
#include <hdf5.h>

#include <string>
#include <string_view>

#include "flotilla/base/error.hpp"
#include "flotilla/base/unique_handle.hpp"
#include "flotilla/store/file.hpp"

namespace flotilla::store {

/// A thread's turn at HDF5, which it has while it has a file open. HDF5 is not thread-safe: asserts that no other thread has one.
class Turn {
 public:
  Turn();
  ~Turn();
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
};

/// To be called first in every public function on an open file: asserts that the turn is this thread's.
void enter();

/// HDF5's innermost message of the last failure, on one line.
std::string innermost_message();

/// Throws Error{bad_input} for a read, Error{temporary} for a write.
enum class Doing { reading, writing };
[[noreturn]] void fail(Doing, std::string_view place, std::string_view what);

/// `result` of an HDF5 call, negative when it failed: checked(H5Dopen2(...), Doing::reading, place, "cannot open").
template <class Result>
Result checked(Result result, Doing doing, std::string_view place, std::string_view what) {
  if (result < 0) fail(doing, place, what);
  return result;
}

template <herr_t (*Close)(hid_t)>
struct IdTraits {
  using Raw = hid_t;
  static Raw null() noexcept { return H5I_INVALID_HID; }
  static void destroy(Raw id) noexcept { Close(id); }
};
using FileId = UniqueHandle<IdTraits<H5Fclose>>;
using DatasetId = UniqueHandle<IdTraits<H5Dclose>>;
using SpaceId = UniqueHandle<IdTraits<H5Sclose>>;
using TypeId = UniqueHandle<IdTraits<H5Tclose>>;
using PropertiesId = UniqueHandle<IdTraits<H5Pclose>>;
using AttributeId = UniqueHandle<IdTraits<H5Aclose>>;
using GroupId = UniqueHandle<IdTraits<H5Gclose>>;

}  // namespace flotilla::store
