#pragma once
#include <filesystem>
#include <vector>

#include "flotilla/checkpoint/manifest.hpp"
#include "flotilla/store/file.hpp"
#include "flotilla/store/plain_file.hpp"

/// What state.h5 holds beside the tensors' data: HDF5's header and structure, checksum tables, padding. HDF5 writes and reads it in memory
/// only: it crashes on damaged ones, and does not get over a disk that fails: docs/formats/checkpoint.md. All local; all throw
/// Error{temporary, unavailable} when the disk fails.
namespace flotilla::checkpoint {

/// An open state.h5.
struct StateReader {
  store::PlainFile data;  ///< the file on the disk, for the tensors' bytes
  store::File structure;
};

/// First byte and number of bytes of each run of data, ascending, of these datasets.
std::vector<std::int64_t> ranges_of(const std::vector<store::Dataset>& tensors);

/// Fills in both checksums of a file whose ranges and size are known.
void add_structure_checksums(const std::filesystem::path& state, StateFile&);

/// Copies the structure of a file that `facts` describes to the same places of another.
void copy_structure(const store::PlainFile& from, const StateFile& facts, const store::PlainFile& to);

/// Opens a file for reading. Throws Error{bad_input} when header or structure are not those that the manifest vouches for.
StateReader open_compared(const std::filesystem::path& state, const StateFile&);

}  // namespace flotilla::checkpoint
