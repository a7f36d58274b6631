#pragma once
#include <filesystem>
#include <string>
#include <vector>

/// What belongs to a Hugging Face model beside its weights, kept in the run directory from the run's start to its export.
namespace flotilla::weights {

/// `run`/pretrained.
std::filesystem::path carried_folder(const std::filesystem::path& run);

/// tokenizer.json of the folder, or else tokenizer.model; empty where it has neither.
std::filesystem::path tokenizer_in(const std::filesystem::path& folder);
/// The same of what the run of a checkpoint, RUN/step-N, carries along.
std::filesystem::path tokenizer_of_checkpoint(const std::filesystem::path& step);

/// Copies a tokenizer to `to`, which it makes, with what says beside it how conversations are written, or with `chat_template` in its
/// place where that names a file. Local. Throws as carry() does.
void carry_tokenizer(const std::filesystem::path& tokenizer, const std::filesystem::path& chat_template, const std::filesystem::path& to);

/// Copies configuration, tokenizer and licence files of the model's folder, those that are there, to `to`, which it makes. Local.
/// Returns their names. Throws Error{bad_input} where one is larger than 64 MiB, Error{temporary, unavailable} where one cannot be copied.
std::vector<std::string> carry(const std::filesystem::path& model, const std::filesystem::path& to);

}  // namespace flotilla::weights
