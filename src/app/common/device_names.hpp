#pragma once
#include <map>
#include <string>
#include <vector>

#include "flotilla/cluster/catalogue.hpp"
#include "flotilla/cluster/cluster.hpp"

namespace flotilla::app {

/// Whether Flotilla's own runtime computes on such devices: on CPUs and NVIDIA GPUs; nullptr: nobody says that it does not.
bool is_trainable(const cluster::CatalogueEntry*);

/// What device types are called: the library's names first, then those of the catalogue, however they are spelled.
class DeviceNames {
 public:
  DeviceNames(const cluster::Profile& library, const cluster::Catalogue&);

  /// The name that a plan takes; "" where nobody knows it. A name that only the catalogue knows is called as it was asked for first.
  /// Multiplying in TF32 makes another type of a device: those are told apart by their spelling alone.
  std::string type_called(const std::string& name);
  /// A measured type that is called so; "" where there is none.
  std::string measured(const std::string& name) const;
  /// What a site's word may mean: entries of the catalogue, or a slice of a card.
  cluster::DeviceWord read(const std::string& word) const { return cluster::read_device_word(catalogue_, word); }
  /// Devices in a node of a type that is known.
  int per_node(const std::string& type) const;
  /// FLOP/s of half precision, else of fp32; 0 where nobody knows.
  double peak(const std::string& type) const;
  bool is_cpu(const std::string& type) const;
  /// Why this program computes on the CPUs beside such devices: it has no kernels for them; "" where it has, or nobody knows.
  std::string why_no_kernels(const std::string& type) const;
  bool is_trainable(const std::string& type) const { return app::is_trainable(cluster::find(catalogue_, type)); }

  /// "; did you mean 'A100-40' or 'A100-80'?"; "" where nothing is near.
  std::string meant(const std::string& asked) const;
  /// Where people find the others.
  static std::string where_listed();

 private:
  const cluster::Profile& library_;
  const cluster::Catalogue& catalogue_;
  std::vector<std::string> known_;
  std::map<std::string, int> per_node_;
};

}  // namespace flotilla::app
