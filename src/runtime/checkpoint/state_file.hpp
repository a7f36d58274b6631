#pragma once
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "checksums.hpp"
#include "flotilla/checkpoint/manifest.hpp"
#include "flotilla/checkpoint/state.hpp"
#include "flotilla/store/file.hpp"
#include "flotilla/store/plain_file.hpp"

/// What state.h5 holds and how it is read: docs/formats/checkpoint.md. All local unless said otherwise.
namespace flotilla::checkpoint {

/// "parameters/block.3.norm1.bias" and "checksums/parameters/block.3.norm1.bias".
std::string dataset_name(StateKind, const std::string& tensor);
std::string checksum_name(StateKind, const std::string& tensor);

/// Fingerprint of names and shapes, in order.
std::string fingerprint(const std::vector<model::Tensor>&);
/// Names of those that are not trained, in order.
std::vector<std::string> frozen_names(const std::vector<model::Tensor>&);
/// The tensors, trained or frozen as they were when the checkpoint was saved. Throws Error{bad_input} for a name that is none of theirs.
std::vector<model::Tensor> as_saved(std::vector<model::Tensor>, const Manifest&);

/// A file whose tensors are not written yet.
struct NewStateFile {
  StateFile facts;                    ///< what a manifest says of it
  std::vector<std::int64_t> offsets;  ///< where each tensor's first byte goes, kind by kind
};
/// The file with its whole structure and checksums, and all of its space reserved. Throws Error{temporary, unavailable}.
NewStateFile create_state_file(const std::filesystem::path&, const std::vector<model::Tensor>&, const ChecksumIndex&,
                               std::vector<std::uint32_t>& checksums, std::int64_t step);
/// Writes what this rank owns. Throws Error{temporary, unavailable}.
void write_owned(const store::PlainFile&, const std::vector<std::int64_t>& offsets, const LocalState&);

/// The dataset of a tensor. Throws Error{bad_input} when it is missing or has another type or shape.
store::Dataset open_tensor(const store::File&, StateKind, const std::string& name, const std::vector<std::int64_t>& shape);
/// The checksums of a dataset with this shape. Throws Error{bad_input} when they are missing or their number is wrong.
std::vector<std::uint32_t> read_checksums(const store::File&, StateKind, const std::string& name, const std::vector<std::int64_t>& shape);

/// All checksum tables, after a check that every tensor is there in its shape, and that the tables are those that the manifest vouches for.
std::vector<std::uint32_t> read_all_checksums(const store::File&, const std::vector<model::Tensor>&, const ChecksumIndex&,
                                              const StateFile& expected);

/// Reads one segment of the tensor that begins at byte `offset` into `values` (of at least its size) and returns its CRC-32C.
std::uint32_t read_segment(const store::PlainFile&, std::int64_t offset, const Segments&, std::int64_t segment, std::span<float> values);
/// "state.h5: parameters/x: segment 3 (from row 96 on) has checksum 1234abcd, expected 5678cdef".
std::string describe_mismatch(const std::string& file, const std::string& dataset, const Segments&, std::int64_t segment,
                              std::uint32_t found, std::uint32_t expected);

}  // namespace flotilla::checkpoint
