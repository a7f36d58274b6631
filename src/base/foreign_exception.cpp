#include "flotilla/base/foreign_exception.hpp"

#include <new>
#include <system_error>

namespace flotilla {

ErrorKind kind_of(const std::exception& error) noexcept {
  if (const auto* ours = dynamic_cast<const Error*>(&error)) return ours->kind();
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) return ErrorKind::unavailable;
  const auto* systems = dynamic_cast<const std::system_error*>(&error);
  if (systems == nullptr) return ErrorKind::internal;
  for (const auto refused : {std::errc::resource_unavailable_try_again, std::errc::not_enough_memory, std::errc::too_many_files_open,
                             std::errc::too_many_files_open_in_system, std::errc::no_space_on_device})
    if (systems->code() == refused) return ErrorKind::unavailable;
  return ErrorKind::internal;
}

std::string in_words(const std::exception& error) {
  const auto* systems = dynamic_cast<const std::system_error*>(&error);
  if (systems == nullptr || systems->code() != std::errc::resource_unavailable_try_again) return error.what();
  return text("no thread or process can be started: ", error.what(), "; see ulimit -u, and pids.max of the job's cgroup");
}

}  // namespace flotilla
