#pragma once
#include <filesystem>
#include <vector>

#include "flotilla/checkpoint/manifest.hpp"
#include "flotilla/store/file.hpp"

/// What state.h5 holds beside the tensors' data: HDF5's header and structure, checksum tables, padding. HDF5 crashes on damaged ones, so
/// their bytes are compared by plain reads before it opens the file: docs/formats/checkpoint.md. All local.
namespace flotilla::checkpoint {

/// First byte and number of bytes of each run of data, ascending, of these datasets.
std::vector<std::int64_t> ranges_of(const std::vector<store::Dataset>& tensors);

/// Fills in both checksums of a file that is complete; `ranges` and size are known. Throws Error{temporary, unavailable}.
void add_structure_checksums(const std::filesystem::path& state, StateFile&);

/// Throws Error{bad_input} when header or structure are not those that the manifest vouches for; Error{temporary, unavailable} when they
/// cannot be read.
void require_structure(const std::filesystem::path& state, const StateFile&);

/// Opens a file whose structure was compared, or that was written a moment ago. What fails then is the disk: waited for, then Error{temporary}.
store::File open_compared(const std::filesystem::path& state);

}  // namespace flotilla::checkpoint
