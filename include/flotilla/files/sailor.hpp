#pragma once
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "flotilla/files/json.hpp"
#include "flotilla/files/profile_file.hpp"
#include "flotilla/plan/plan.hpp"

/// Data and plans that the Sailor artifact publishes (Strati et al., SOSP 2025; github.com/eth-easl/sailor): docs/formats/profile.md says
/// what becomes of them.
namespace flotilla::files {

struct SailorImport {
  Library library;
  std::vector<std::string> notes;  ///< one line each: a file that is missing and what is lost by it, a model or type that is not known
};

/// Layer times (profiles/), layer sizes (model_info/llm_info.json), link fits (network/), prices (prices/ and the artifact's constants),
/// types (configs/) below `directory`. Unknown files are ignored; missing ones are noted. Throws Error{bad_input} for a file that is not
/// what it should be, and where there is no layer time at all.
SailorImport read_sailor_profiles(const std::filesystem::path& directory);

/// The artifact's own names for models and the shapes that it runs them in: OPT-350, GPT-Neo-2.7, OPT-30, LLAMA-3-8; nullopt for others.
std::optional<model::Config> sailor_model(std::string_view name);

/// Whether the artifact counts the norm before the head as a layer; ours is part of the head.
bool sailor_counts_final_norm(const model::Config&);

/// A plan in any of the artifact's spellings: a measured run or a planner's answer (`pipeline_list`: `layers_per_stage`, `tmp_per_stage`,
/// `dp`; `mbs`, `gbs`), its simulator's echo of one (`pipelines`, `tmp_stages`, `dp_degrees`), an even grid (`P`, `D`, `T`), an entry of a
/// list of plans as stages with counted replicas (`plan`, `microbatch_size`, `global_batch`). `global_batch` where the document does
/// not say it; both must agree where both say it. Devices are not bound; the model's positions are the length; fp32, 1F1B.
/// Throws Error{bad_input} by pointer.
plan::Plan sailor_plan_from_json(const Json&, const model::Config&, std::optional<int> global_batch);

enum class SailorSpelling {
  pipeline_list,  ///< of a measured run and a planner's answer: what the artifact's simulator takes; equally many replicas in every stage
  counted,        ///< stages with counted replicas, as in lists of published plans; any number of them, and any sequence length
};

/// What a plan of ours does not say and a plan of the artifact does.
struct SailorExport {
  SailorSpelling spelling = SailorSpelling::pipeline_list;
  std::map<std::string, int> per_node{};  ///< devices in a node by type; of a type that is not here a replica is a node
  std::string zone = "us-central1-a";     ///< of replicas that name none; the measured runs name this one for other sites too
};

/// A plan in the artifact's format, indented, with a newline at the end. sailor_plan_from_json reads it as an equal plan where the batch
/// is shared as evenly as microbatches go and nothing is bound; what goes beyond is dropped: ranks, and who takes the odd microbatch.
/// Throws Error{bad_input} for an invalid plan and Error{unavailable} for one that the format cannot say: "<source>: <place>: what it
/// is, and how to plan within the format".
std::string sailor_plan_to_json(const plan::Plan&, const std::string& source, const SailorExport& = {});

}  // namespace flotilla::files
