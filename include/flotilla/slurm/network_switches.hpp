#pragma once
#include <map>
#include <string>

namespace flotilla::slurm {

/// The switch that each node hangs on, from the answer to `scontrol show topology`: lines "SwitchName=leaf1 Level=0 ... Nodes=n[1-3]".
/// Empty where the site describes no switches. Throws Error{bad_input} of one line.
std::map<std::string, std::string> switches_of_nodes(const std::string& answer);

}  // namespace flotilla::slurm
