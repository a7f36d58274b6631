#pragma once
#include <string>

#include "support/random.hpp"

/// Inputs that are well formed, and made to cost, to nest or to grow: damage of an intact one seldom comes to that.
namespace flotilla::fuzz {

using tests::Dice;

/// A chat template: loops, sums, products, nesting and comparison of values that share parts.
std::string hostile_template(Dice&);
/// A tokenizer.json, from an intact one: normalizers, patterns, added tokens and splits, each of which is understood.
std::string hostile_tokenizer(const std::string& intact, Dice&);
/// A text in which such patterns look far, and often.
std::string hostile_text(Dice&);
/// A checkpoint's manifest damaged, or with hostile words in it, and with the checksum that its text has then.
std::string with_own_checksum(std::string manifest);
std::string hostile_manifest(const std::string& intact, Dice&);
/// Damages what HDF5 reads of a state file; returns the manifest with the checksums of the file as it is then.
std::string sign_damaged_structure(const std::string& manifest, std::string& state, Dice&);
/// What a job script reads: numbers, and what looks like them or like words of a shell.
std::string hostile_counts(Dice&);
/// An outcome.json, or something like it.
std::string hostile_outcome(Dice&);

}  // namespace flotilla::fuzz
