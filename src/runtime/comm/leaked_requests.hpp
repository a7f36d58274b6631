#pragma once
#include <memory>
#include <mutex>
#include <vector>

namespace flotilla::comm {

/// Keeps memory to the end of the process that MPI may still read: messages to a rank that does not answer cannot be withdrawn.
template <class T>
void keep_for_mpi(std::unique_ptr<T> remains) {
  static std::mutex mutex;
  static auto& leaked = *new std::vector<std::unique_ptr<T>>;  // not destroyed at exit, when MPI may be gone
  const std::lock_guard lock{mutex};
  leaked.push_back(std::move(remains));
}

}  // namespace flotilla::comm
