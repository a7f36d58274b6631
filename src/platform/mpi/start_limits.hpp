#pragma once
// Private: limits of a process with which MPI_Init would end it, with exit code 1 and a page of text.
#include <string>

namespace flotilla::mpi {

/// "the limit of open files is 16 (ulimit -n); MPI needs 25 at the least"; empty if no limit prevents the start of MPI.
std::string why_too_limited();

/// A process that no launcher has started has no others to start either: while one of these lives, Open MPI need not look for ssh, and fail
/// without a PATH. Programs that are started later do not inherit it.
class LoneStart {
 public:
  LoneStart();
  ~LoneStart();
  LoneStart(const LoneStart&) = delete;
  LoneStart& operator=(const LoneStart&) = delete;

 private:
  bool set_ = false;
};

}  // namespace flotilla::mpi
