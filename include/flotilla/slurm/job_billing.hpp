#pragma once
#include <optional>
#include <string>

namespace flotilla::slurm {

/// Slurm's billing units (TRESBillingWeights) that each node of a job takes for an hour, from the answer to `scontrol show job --oneliner
/// ID`: "TRES=...,billing=48" or "AllocTRES=..." over NumNodes. Nothing where the site bills nothing for it. Throws Error{bad_input} of one
/// line where the answer is no job's.
std::optional<double> billing_of_a_node(const std::string& answer);

}  // namespace flotilla::slurm
