#pragma once
#include <filesystem>
#include <string>
#include <vector>

/// What belongs to a Hugging Face model beside its weights, kept in the run directory from the run's start to its export.
namespace flotilla::weights {

/// `run`/pretrained.
std::filesystem::path carried_folder(const std::filesystem::path& run);

/// Copies configuration, tokenizer and licence files of the model's folder, those that are there, to `to`, which it makes. Local.
/// Returns their names. Throws Error{bad_input} where one is larger than 64 MiB, Error{temporary, unavailable} where one cannot be copied.
std::vector<std::string> carry(const std::filesystem::path& model, const std::filesystem::path& to);

}  // namespace flotilla::weights
