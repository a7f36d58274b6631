#pragma once
#include <filesystem>

namespace flotilla::fuzz {

/// Writes one intact input of every kind into `folder`: job files, plan, profile, library, forecast, planning, config.json, token files,
/// answers of a Slurm site, published plans, a run directory that a short training run of the program has left, and its weights as a
/// Hugging Face model. Throws std::runtime_error where the program does not do what it is asked.
void write_intact_inputs(const std::filesystem::path& folder);

}  // namespace flotilla::fuzz
