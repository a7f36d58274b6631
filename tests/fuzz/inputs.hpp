#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "fuzz/execution.hpp"
#include "fuzz/mutation.hpp"

namespace flotilla::fuzz {

/// One kind of input. `damage` changes what lies in `folder`, a copy of the intact inputs, and returns the start of the program that reads
/// it.
struct InputKind {
  std::string name;
  std::vector<std::string> needs;  ///< what of the intact inputs has to be in the folder
  Invocation (*damage)(const std::filesystem::path& folder, Dice&);
  int usual = 150, before_a_release = 2000;  ///< executions in the tiers
};

/// Job, plan, profile, library, config.json, manifest, state.h5, token files, weights, tokenizer and text, chat templates, patterns,
/// checkpoints with right checksums, what job scripts read, run directory, site, imports,
/// command line, environment.
const std::vector<InputKind>& input_kinds();

}  // namespace flotilla::fuzz
