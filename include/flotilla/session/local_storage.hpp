#pragma once
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "flotilla/checkpoint/local.hpp"
#include "flotilla/session/incarnation.hpp"
#include "flotilla/session/run_config.hpp"

namespace flotilla::session {

/// What `checkpoint.local` may name.
struct NodeNames {
  std::string job;                                                              ///< %j: the batch system's id, empty without one
  std::string host;                                                             ///< %N
  std::function<std::optional<std::string>(const std::string& name)> variable;  ///< $NAME and ${NAME}: of the rank's environment
};
/// The folder that a pattern is on one node. Throws Error{bad_input} for what cannot be replaced, and where the result is no absolute path.
std::filesystem::path local_folder(const std::string& pattern, const NodeNames&);

/// Where the ranks keep local checkpoints; nothing where the job wants none. What an earlier incarnation left there and is newer than all
/// in the run directory is drained into it first; one line says so, or why not. Then the folder is empty, and what others hold of earlier
/// incarnations is void. Collective over the world. Throws comm::AgreedError, as checkpoint::save() does.
std::optional<checkpoint::LocalPlace> take_up_local_storage(const comm::World&, const RunConfig&, const Incarnation&);

}  // namespace flotilla::session
