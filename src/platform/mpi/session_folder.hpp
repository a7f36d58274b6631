#pragma once
#include <filesystem>
#include <string>

#include "flotilla/mpi/session.hpp"

namespace flotilla::mpi {

/// Where Open MPI keeps a job's files on this node: TMPDIR/ompi.HOST.UID. Whoever made it first owns it, and nobody else can start there.
std::filesystem::path usual_session_folder(const Environment&);
/// Why this process cannot work in a session folder: "belongs to user 1000"; empty when it can, or when there is none yet.
std::string why_no_session_folder(const std::filesystem::path&);

/// Made before MPI_Init: where the usual folder is no good, a process that no launcher has started gets one of its own, with a warning, for
/// as long as this lives. One that was launched shares it with other ranks: Error{unavailable} says what to set.
class SessionFolder {
 public:
  SessionFolder();
  SessionFolder(const SessionFolder&) = delete;
  SessionFolder& operator=(const SessionFolder&) = delete;
  ~SessionFolder();

 private:
  std::filesystem::path own_;  // empty: the usual one does
};

}  // namespace flotilla::mpi
