#include "hdf5.hpp"

#include <algorithm>
#include <mutex>
#include <thread>

#include "flotilla/store/file.hpp"

namespace flotilla::store {
namespace {

/// HDF5 started before MPI registers nothing on MPI_COMM_SELF, and told so before that, nothing with atexit(): neither way out of the
/// process enters it again. Hence a static: it runs before main().
[[maybe_unused]] const bool started = [] {
  H5dont_atexit();
  H5open();
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  return true;
}();

/// Whose turn it is: that of the thread which has files open.
struct {
  std::mutex mutex;
  std::thread::id thread;
  int files = 0;
} turn;

herr_t take_first(unsigned, const H5E_error2_t* error, void* message) {
  auto& text = *static_cast<std::string*>(message);
  if (text.empty() && error->desc) text = error->desc;
  return 0;
}

}  // namespace

Turn::Turn() {
  const std::scoped_lock lock{turn.mutex};
  FLOTILLA_ASSERT(turn.files == 0 || turn.thread == std::this_thread::get_id(), "HDF5 is used from two threads at once");
  turn.thread = std::this_thread::get_id();
  ++turn.files;
}

Turn::~Turn() {
  const std::scoped_lock lock{turn.mutex};
  --turn.files;
}

void enter() {
  const std::scoped_lock lock{turn.mutex};
  FLOTILLA_ASSERT(turn.thread == std::this_thread::get_id(), "HDF5 is used from two threads at once");
}

std::string innermost_message() {
  std::string message;
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, take_first, &message);
  std::replace_if(
      message.begin(), message.end(), [](char c) { return c == '\n' || c == '\r'; }, ' ');
  return message.empty() ? "HDF5 gives no reason" : message;
}

void fail(Doing doing, std::string_view place, std::string_view what) {
  const auto message = text(place, ": ", what, ": ", innermost_message());
  throw Error{doing == Doing::writing ? ErrorKind::temporary : ErrorKind::bad_input, message};
}

std::string library_version() {
  unsigned major = 0, minor = 0, release = 0;
  H5get_libversion(&major, &minor, &release);
  return text("HDF5 ", major, ".", minor, ".", release);
}

}  // namespace flotilla::store
