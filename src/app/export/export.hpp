#pragma once
#include <span>
#include <string>

#include "app/common/commands.hpp"
#include "app/common/job.hpp"
#include "flotilla/files/sailor.hpp"
#include "flotilla/weights/export.hpp"

namespace flotilla::app {

/// Options of `flotilla export`.
struct ExportOptions {
  Job::Output output;
  std::string profiles;  ///< that says how many devices of a type a node has; empty: none
  files::SailorSpelling spelling = files::SailorSpelling::pipeline_list;
  std::string zone = files::SailorExport{}.zone;
  weights::WeightExportOptions weights;
};
options::Table export_table(ExportOptions&);
BoundTable export_options();

/// `flotilla export WHAT FILE`: files of ours in the formats of others. Local. What: hf (the weights of a checkpoint, as the folder of
/// a Hugging Face model), sailor-plan (a plan, for that artifact's simulator).
/// Throws Error{usage, bad_input}, and Error{unavailable} for a plan that the format cannot say.
int export_for_others(std::span<const std::string> arguments);

}  // namespace flotilla::app
