#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "flotilla/cluster/cluster.hpp"
#include "flotilla/model/config.hpp"

namespace flotilla::sailor {

/// Sums over ranges of layers, K quantities at once. Memory and time go with the ranges of equal layers, not with the layers.
template <std::size_t K>
class PrefixSums {
 public:
  void add(int first, int last, const std::array<double, K>& each) { ranges_.push_back({first, last, each, {}}); }
  /// Call once all are added: true when every layer of 0 ... layers-1 is covered. Of ranges that overlap the first added counts.
  bool finish(int layers);

  double sum(std::size_t k, int first, int last) const { return before(k, last) - before(k, first); }
  double at(std::size_t k, int layer) const { return range_of(layer).each[k]; }

 private:
  struct LayerRun {
    int first, last;
    std::array<double, K> each;
    std::array<double, K> before;  ///< sum over the layers below `first`
  };
  const LayerRun& range_of(int layer) const {
    std::size_t i = 0;
    while (i + 1 < ranges_.size() && ranges_[i].last <= layer) ++i;
    return ranges_[i];
  }
  double before(std::size_t k, int layer) const {
    const LayerRun& range = range_of(layer);
    return range.before[k] + range.each[k] * (layer - range.first);
  }
  std::vector<LayerRun> ranges_;
};

/// What one replica of a stage is, in a SailorTables' own numbers for types and zones.
struct SailorKind {
  int type = 0, zone = 0;
  int tensor_parallel = 1;
  bool operator==(const SailorKind&) const = default;
};

/// What the Sailor artifact's formulas (formulas.hpp) read of a profile, made once for one model: layer times by (type, tensor
/// parallel, microbatch) and layer sizes by tensor parallel as running sums, link fits and prices by number. No lookup allocates or
/// compares strings. A value of its own: the profile may go.
class SailorTables {
 public:
  /// Times and sizes of the layers of `model.name`, in fp32.
  SailorTables(const cluster::Profile&, const model::Config&);

  /// The numbers of a type and a zone by name; nullopt for what the profile does not speak of.
  std::optional<int> type(std::string_view name) const;
  std::optional<int> zone(std::string_view name) const;
  const cluster::DeviceType& type(int number) const { return types_[static_cast<std::size_t>(number)]; }
  const std::string& zone_name(int number) const { return zones_[static_cast<std::size_t>(number)]; }
  int types() const { return static_cast<int>(types_.size()); }
  int zones() const { return static_cast<int>(zones_.size()); }
  int layers() const { return layers_; }

  /// A combination whose layers were all timed, or -1.
  int cell(int type, int tensor_parallel, int sequences) const;
  /// Of one microbatch through layers [first, last) of a measured combination.
  Seconds forward(int cell, int first, int last) const { return {times_[static_cast<std::size_t>(cell)].sum(0, first, last)}; }
  Seconds backward(int cell, int first, int last) const { return {times_[static_cast<std::size_t>(cell)].sum(1, first, last)}; }
  /// The optimizer's step as the profiler took it; 0 where it was not measured.
  Seconds update(int cell, int layer) const { return {times_[static_cast<std::size_t>(cell)].at(2, layer)}; }

  /// Fit between nodes at min(tensor_parallel, devices per node) devices on either side, or of one device each; nullptr where there is
  /// none either way. A direction that was not fitted takes the other's.
  const cluster::LinkFit* link(const SailorKind& from, const SailorKind& to) const;
  const cluster::LinkFit* single_link(const SailorKind& from, const SailorKind& to) const;

  /// False where the profile has no sizes of the model's layers.
  bool sized() const { return whole_ >= 0; }
  /// Bytes that layer `layer` passes on for one sequence; bytes of all weights of the layers, not cut by tensor parallelism.
  double output_bytes(int layer) const;
  double weight_bytes(int first, int last) const;
  /// Elements on one device: parameters, and what a microbatch of one sequence keeps; nullopt for a degree without sizes.
  struct LayerHoldings {
    double parameters = 0, saved = 0;
  };
  std::optional<LayerHoldings> held(int tensor_parallel, int first, int last) const;

  /// USD for a byte from zone to zone: 0 inside a zone unless the profile says otherwise; nullopt where it does not say.
  std::optional<double> egress_price(int from, int to) const;

 private:
  int add_zone(const std::string&);
  void add_times(const cluster::Profile&, const std::string& model);
  void add_sizes(const cluster::Profile&, const std::string& model);
  void add_fits(const cluster::Profile&);
  const cluster::LinkFit* fit(int from_zone, int from_type, int from_count, int to_zone, int to_type, int to_count) const;

  int layers_ = 0;
  std::vector<cluster::DeviceType> types_;
  std::vector<std::string> zones_;
  std::vector<PrefixSums<3>> times_;  ///< forward, backward, update
  std::unordered_map<std::uint64_t, int> cells_;
  std::vector<PrefixSums<3>> sizes_;  ///< parameters, output, saved
  std::unordered_map<int, int> degrees_;
  int whole_ = -1, whole_degree_ = 1;  ///< sizes at the smallest degree: weights are its parameters x its degree
  std::vector<cluster::LinkFit> fits_;
  std::unordered_map<std::uint64_t, std::uint32_t> ends_;
  std::unordered_map<std::uint64_t, int> pairs_;
  std::unordered_map<std::uint64_t, double> egress_;
};

}  // namespace flotilla::sailor
