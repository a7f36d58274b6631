#pragma once
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "flotilla/cluster/cluster.hpp"
#include "flotilla/model/config.hpp"
#include "flotilla/model/operations.hpp"
#include "flotilla/simulate/instruction_cost.hpp"
#include "layer_cost.hpp"
#include "network/route.hpp"

namespace flotilla::simulate {

/// What a profile says of its device types, whichever devices it lists: looked up once for many forecasts of profiles that differ in
/// their devices alone. Holds a reference: the profile must outlive it. Remembers what it was asked; threads need one each.
class TypeCosts {
 public:
  explicit TypeCosts(const cluster::Profile& profile) : profile_{profile}, fits_{profile}, layers_{profile} {}
  TypeCosts(const TypeCosts&) = delete;
  TypeCosts& operator=(const TypeCosts&) = delete;

  /// As ProfileCost::operation.
  Cost operation(const model::Config&, const std::string& device_type, model::Operation, const model::LayerShape&);
  /// Of an operation that was measured per element; nothing where it was not.
  const std::optional<Cost>& per_element(const std::string& device_type, std::string_view operation, Precision);

  const FitsByTypes& fits() const { return fits_; }
  const LayerCosts& layers() const { return layers_; }

 private:
  struct Key {
    int type = 0;  ///< of `types_`
    model::Operation operation{};
    int tensor_parallel = 1, tensor_index = 0, sequences = 1, length = 1;
    Precision precision{};
    bool sequence_parallel = false;
    bool operator==(const Key&) const = default;
  };
  struct Hash {
    std::size_t operator()(const Key&) const;
  };
  int number_of(const std::string& device_type);
  Cost unknown(const model::Config&, const std::string& device_type, model::Operation, const model::LayerShape&) const;

  const cluster::Profile& profile_;
  const FitsByTypes fits_;
  const LayerCosts layers_;
  model::Config model_;             ///< of `operations_`
  std::vector<std::string> types_;  ///< that were asked for
  std::unordered_map<Key, Cost, Hash> operations_;
  struct ElementCost {
    int type = 0;  ///< of `types_`
    std::string operation;
    Precision precision{};
    std::optional<Cost> cost;
  };
  std::deque<ElementCost> elements_;  ///< that were asked for
};

}  // namespace flotilla::simulate
