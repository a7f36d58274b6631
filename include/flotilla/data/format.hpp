#pragma once
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

/// Token files, memory-mapped, and which sequence is where in which step. Files are described in docs/formats/tokens.md.
namespace flotilla::data {

/// How tokens lie in a file.
enum class Format {
  automatic,   ///< "auto": by content, then by suffix
  text,        ///< "text": every byte is a token, vocabulary 256
  llmc,        ///< "llmc": llm.c's .bin: 256 x int32 header, then uint16
  npy,         ///< "npy": one-dimensional NumPy array of an integer type
  raw_uint16,  ///< "raw-uint16": nothing but little-endian uint16
  raw_uint32,  ///< "raw-uint32": nothing but little-endian uint32
  megatron,    ///< "megatron": Megatron's .bin and .idx
};

std::string to_string(Format);
/// Throws Error{bad_input} naming the known ones.
Format parse_format(std::string_view);
/// The spellings of every format, "auto" first: for help and completion.
std::vector<std::string> format_names();

/// Whether the name promises JSON, whose texts stand between braces and keys.
bool is_named_json(const std::filesystem::path&);

/// Never `automatic`. Throws Error{bad_input} when the file cannot be read or could be several things (bare .bin: uint16 or uint32?),
/// with the spellings to choose from.
Format detect_format(const std::filesystem::path&);

}  // namespace flotilla::data
