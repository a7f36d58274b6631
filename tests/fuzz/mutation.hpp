#pragma once
#include <filesystem>
#include <string>

#include "support/random.hpp"

/// Damage of one input, made from an intact one. All of it comes from the dice: the same seed, the same damage.
namespace flotilla::fuzz {

using tests::Dice;

/// A number, word or bytes that programs tend to trip over: limits of types, control characters, long names, shell syntax.
std::string awkward_value(Dice&);

/// A few bytes flipped, removed, repeated, inserted or cut off; integers set to limits of their types.
std::string damaged_bytes(std::string bytes, Dice&);
/// Words and lines removed, repeated, swapped or replaced by awkward values.
std::string damaged_lines(std::string text, Dice&);
/// One to three values of a JSON document replaced, removed, repeated under another key, nested deeply or moved; at times damaged as bytes.
std::string damaged_json(const std::string& text, Dice&);
/// The value of a key, a key or a section of a TOML file replaced or repeated; at times damaged as bytes.
std::string damaged_toml(const std::string& text, Dice&);

/// By the file's name: JSON, TOML, lines or bytes; at times a sparse giant.
void damage_file(const std::filesystem::path&, Dice&);
/// A file or folder somewhere below: damaged, emptied, removed, or replaced by a folder, a pipe, a link to itself or to nothing.
void damage_entry_below(const std::filesystem::path& folder, Dice&);

}  // namespace flotilla::fuzz
