#pragma once
#include "common/submit_options.hpp"
#include "flotilla/slurm/slurm_cluster.hpp"

namespace flotilla::app {

/// The site as its answers describe it, recorded or asked for, and recorded where the options say so. Throws Error{unavailable} where
/// Slurm's commands are not there or the controller does not answer, Error{bad_input} for recorded ones that are not there, and for answers
/// that cannot be understood: with the folder of recorded ones, the command and the line.
slurm::SlurmCluster slurm_cluster_of(const SubmitSettings&);

/// What Slurm says to one more command; with recorded answers what `file` holds.
std::string ask_slurm_cluster(const SubmitSettings&, const std::string& file, const std::vector<std::string>& command);

}  // namespace flotilla::app
