#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/device_names.hpp"
#include "common/submit_options.hpp"
#include "flotilla/slurm/slurm_cluster.hpp"

namespace flotilla::app {

/// What a node's names for its devices mean.
struct NodeDevices {
  std::string type;        ///< as plans call it
  std::string gres;        ///< "gpu:a100", without a count; "": CPUs
  std::string constraint;  ///< the feature that tells these nodes from others with the same gres; "": none is needed
  int count = 0;           ///< in the node
  int used = 0;
  int cpus_each = 1;  ///< CPUs that one device is given
  bool operator==(const NodeDevices&) const = default;
};

/// Makes devices of what a site calls them: first what the job file says, then what the library and the catalogue know under the gres's
/// type or one of the node's features, or a part of them ("nvidia_a100_80gb_pcie" is an A100-80GB).
class SlurmDevices {
 public:
  /// Throws Error for a word of submit.device-types that is not written so or whose type nobody knows.
  SlurmDevices(const SubmitOptions&, DeviceNames&);

  /// Nothing where the node has no devices that anybody knows.
  std::optional<NodeDevices> of(const slurm::SlurmNode&, const std::string& partition);
  /// For people: what was guessed or passed over, each once.
  std::vector<std::string> notes() const { return notes_; }

 private:
  struct Meaning {
    std::string type, constraint;
  };
  std::optional<Meaning> meaning_of(const slurm::Gres&, const slurm::SlurmNode&, const std::string& partition);
  std::optional<Meaning> of_features(const slurm::SlurmNode&, const std::string& beginning);
  /// A word of the site's as a type: the library's name or the catalogue's own; "" where nobody knows it.
  std::string type_of(const std::string& word);
  std::string said(const std::string& key) const;
  void note(const std::string&);

  const SubmitSettings& settings_;
  DeviceNames& names_;
  std::map<std::string, std::string> said_;  ///< upper-case key: type
  std::vector<std::string> notes_;
};

}  // namespace flotilla::app
