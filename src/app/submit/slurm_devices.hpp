#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/device_names.hpp"
#include "common/submit_options.hpp"
#include "flotilla/slurm/slurm_cluster.hpp"

namespace flotilla::app {

/// What a node's names for its devices mean, in one partition.
struct NodeDevices {
  std::string type;        ///< as plans call it
  std::string gres;        ///< "gpu:a100", without a count; "": CPUs
  std::string constraint;  ///< the feature that tells these nodes from others with the same gres; "": none is needed
  int count = 0;           ///< in the node
  int used = 0;
  int cpus_each = 1;  ///< CPUs that one device is given
  bool all = true;    ///< the node has no devices but these
  bool operator==(const NodeDevices&) const = default;
};

/// Makes devices of what a site calls them: first what the job file says, then what the catalogue reads in the gres's type and the node's
/// features (cluster::read_device_word). Of a node with devices of several types those count that multiply most together.
class SlurmDevices {
 public:
  /// Throws Error for a word of submit.device-types that is not written so or whose type nobody knows.
  SlurmDevices(const SubmitOptions&, DeviceNames&);

  /// Nothing where the node has no devices that anybody knows.
  std::optional<NodeDevices> of(const slurm::SlurmNode&, const slurm::Partition&);
  /// For people: what was guessed or passed over, each once.
  std::vector<std::string> notes() const;

 private:
  struct Meaning {
    std::string type, constraint;
  };
  std::optional<Meaning> meaning_of(const slurm::Gres&, const slurm::SlurmNode&, const std::string& partition);
  std::optional<Meaning> read(const slurm::Gres&, const slurm::SlurmNode&, const std::string& partition);
  std::optional<NodeDevices> gpus_of(const slurm::SlurmNode&, const slurm::Partition&);
  std::optional<NodeDevices> cpus_of(const slurm::SlurmNode&, const std::string& partition);
  const cluster::DeviceWord& word(const std::string&);
  std::string said(const std::string& key) const;
  void note(const std::string& words, const std::string& partition = "");
  std::string partition_hint(const std::string& partition);

  const SubmitSettings& settings_;
  DeviceNames& names_;
  std::map<std::string, std::string> said_;           ///< upper-case key: type
  std::map<std::string, cluster::DeviceWord> words_;  ///< that were read already: sites have many nodes and few words
  struct Note {
    std::string words;
    std::vector<std::string> partitions;
  };
  std::vector<Note> notes_;
};

}  // namespace flotilla::app
