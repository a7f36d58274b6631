#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "flotilla/model/tensors.hpp"
#include "flotilla/plan/plan.hpp"

namespace flotilla::search {

struct LayerRange {
  int first = 0, last = 0;  ///< half-open
  auto operator<=>(const LayerRange&) const = default;
};

/// Which member of a tensor-parallel group of which size.
struct Member {
  int degree = 1, index = 0;
  auto operator<=>(const Member&) const = default;
};

/// What a device holds of a model: ascending ranges of layers, and its part of what tensor parallelism cuts.
struct Holding {
  std::vector<LayerRange> layers;
  Member member;
  auto operator<=>(const Holding&) const = default;
};

/// Devices of a plan by what they are and hold: how many of each.
using Place = std::pair<std::string, std::string>;  // type, zone
using Holdings = std::map<Place, std::map<Holding, std::int64_t>>;
Holdings holdings(const plan::Plan&);

/// Counts parameters that two holdings have in common. Tables are made for the pairs of members that are asked for.
class CommonParameters {
 public:
  explicit CommonParameters(const model::Config&);
  std::int64_t operator()(const Holding&, const Holding&) const;

 private:
  struct Table {
    std::vector<std::int64_t> before;  ///< by layer: common parameters of the layers before it; what is tied left out
    std::vector<std::int64_t> tied;    ///< of each tensor that two layers use
  };
  const Table& table(Member, Member) const;
  std::int64_t common(const model::Tensor&, Member, Member) const;

  std::vector<model::Tensor> tensors_, tied_;  ///< that one layer uses, that two use
  int layers_;
  mutable std::map<std::pair<Member, Member>, Table> tables_;
};

}  // namespace flotilla::search
