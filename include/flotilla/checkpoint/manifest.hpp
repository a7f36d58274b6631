#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "flotilla/base/units.hpp"
#include "flotilla/checkpoint/loss_scale.hpp"

namespace flotilla::checkpoint {

/// A file of the checkpoint as it was when the checkpoint was committed.
struct StateFile {
  std::string name;  ///< "state.h5"
  Bytes size;
  std::uint32_t checksum = 0;                    ///< CRC-32C of the file's checksum tables, see docs/formats/checkpoint.md
  std::uint32_t header_checksum = 0;             ///< CRC-32C of HDF5's header
  std::uint32_t structure_checksum = 0;          ///< CRC-32C of all that is not a tensor's data, the header included
  std::vector<std::int64_t> tensor_ranges = {};  ///< first byte and number of bytes of each run of tensor data, ascending
  bool operator==(const StateFile&) const = default;
};

/// step-N/manifest.json, format "flotilla-checkpoint" version 2: docs/formats/checkpoint.md.
struct Manifest {
  std::int64_t step = 0;                  ///< N: iterations done
  std::int64_t optimizer_steps = 0;       ///< updates applied, AdamW's t; smaller than `step` where steps were skipped
  std::optional<LossScale> loss_scale{};  ///< of the next step in fp16
  std::int64_t sequences = 0;             ///< consumed since the beginning
  std::uint64_t seed = 0;
  std::string training;          ///< what must not change on resume, as text; the trainer compares it
  std::string data_fingerprint;  ///< of the training data
  std::string data = {};         ///< JSON text of the sources that they are of, or empty: written before there were any
  std::string plan;              ///< JSON text (files::plan_to_json), or empty
  std::string profile;           ///< JSON text of the cluster profile, or empty
  /// Versions, hosts, CPU type, threads, incarnation, time, ... in the order to show them.
  std::vector<std::pair<std::string, std::string>> provenance;
  /// Filled by save(): fingerprint of the model's tensor names and shapes, and the files.
  std::string tensors;
  std::vector<StateFile> files;
  std::vector<std::string> frozen = {};  ///< likewise: names of tensors that were not trained, of which there are no moments
  /// The weights are not finite or so large that their squares are not, or most steps since the checkpoint before were skipped. save() adds
  /// what it sees in the weights. Such a checkpoint is loaded only where no other is, and no other is removed in its favour.
  bool exploded = false;
  bool operator==(const Manifest&) const = default;
};

/// Indented JSON with a newline at its end. Throws Error{bad_input} when plan or profile is not JSON.
std::string manifest_to_json(const Manifest&);
/// Throws Error{bad_input}: "<source>: <JSON pointer>: <what was expected>". The text's own checksum is compared before anything else.
Manifest manifest_from_json(std::string_view text, std::string_view source);
/// Reads `step_directory`/manifest.json, whose step must be the one that the folder is named after. Local. Throws Error{bad_input}, and
/// Error{temporary, unavailable} when it cannot be read.
Manifest read_manifest(const std::filesystem::path& step_directory);

}  // namespace flotilla::checkpoint
