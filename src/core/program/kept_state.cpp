#include "flotilla/program/kept_state.hpp"

#include <map>
#include <vector>

#include "flotilla/base/error.hpp"
#include "flotilla/model/tensors.hpp"
#include "migration_shares.hpp"

namespace flotilla::program {
namespace {

std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

/// What one rank holds of one tensor.
struct Held {
  Holding shard;
  std::vector<const Holding*> pieces;  ///< of its optimizer's share; empty where nothing is shared out, or none of it came to this rank
};
using HeldByTensor = std::map<int, Held>;

/// A plan's ranks.
class Ranks {
 public:
  Ranks(const plan::Plan& plan, const Placement& placement)
      : plan_{plan}, tensors_{model::tensors(plan.model)}, pieces_{pieces_of(plan, placement)} {
    const int own = plan::own_stages(plan);
    for (int s = 0; s < own; ++s)
      for (std::size_t r = 0; r < plan.stages[at(s)].replicas.size(); ++r) {
        const auto& devices = plan.stages[at(s)].replicas[r].devices;
        for (std::size_t i = 0; i < devices.size(); ++i) places_[devices[i]] = {s, static_cast<int>(r), static_cast<int>(i)};
      }
    for (std::size_t t = 0; t < pieces_.size(); ++t)
      for (const Holding& piece : pieces_[t]) pieces_by_rank_[piece.rank][static_cast<int>(t)].push_back(&piece);
  }

  Ranks(const Ranks&) = delete;  // it points into itself
  Ranks& operator=(const Ranks&) = delete;

  /// Whether the tensor's optimizer is shared out.
  bool shares(int tensor) const { return !pieces_.empty() && !pieces_[at(tensor)].empty(); }
  Precision precision() const { return plan_.precision; }

  const HeldByTensor& of(Rank rank) const {
    const auto [found, fresh] = held_.try_emplace(rank);
    if (fresh) found->second = hold(rank);
    return found->second;
  }

 private:
  HeldByTensor hold(Rank rank) const {
    const auto place = places_.find(rank);
    FLOTILLA_ASSERT(place != places_.end(), "rank ", rank, " of a plan that does not use it");
    const auto& replica = plan_.stages[at(place->second.stage)].replicas[at(place->second.replica)];
    HeldByTensor held;
    for (int t = 0; t < static_cast<int>(tensors_.size()); ++t)
      if (uses(place->second.stage, tensors_[at(t)]))
        held[t] = {whole_shard(tensors_[at(t)], rank, replica.tensor_parallel, place->second.tensor_index), {}};
    if (const auto pieces = pieces_by_rank_.find(rank); pieces != pieces_by_rank_.end())
      for (const auto& [tensor, some] : pieces->second) held[tensor].pieces = some;
    return held;
  }

  bool uses(int own_stage, const model::Tensor& tensor) const {
    for (std::size_t s = at(own_stage); s < plan_.stages.size(); s += at(plan::own_stages(plan_))) {
      const auto inside = [&](int layer) { return plan_.stages[s].first_layer <= layer && layer < plan_.stages[s].last_layer; };
      if (inside(tensor.layer) || inside(tensor.tied_layer)) return true;
    }
    return false;
  }

  const plan::Plan plan_;
  const std::vector<model::Tensor> tensors_;
  const std::vector<std::vector<Holding>> pieces_;  ///< by tensor
  std::map<Rank, plan::Place> places_;
  std::map<Rank, std::map<int, std::vector<const Holding*>>> pieces_by_rank_;
  mutable std::map<Rank, HeldByTensor> held_;
};

std::int64_t elements_of(const Holding& holding) {
  std::int64_t sum = 0;
  for (const Rectangle& r : holding.rectangles) sum += r.rows * r.columns;
  return sum;
}

}  // namespace

struct KeptState::State {
  Ranks from, to;

  /// Of a tensor: of the shard the parameters alone where others keep the moments, and of a share parameters and moments.
  template <class Each>
  void for_each_wanted(Rank rank, const Each& each) const {
    for (const auto& [tensor, held] : to.of(rank)) {
      const bool parameters_only = to.shares(tensor);
      each(tensor, held.shard, parameters_only);
      for (const Holding* piece : held.pieces) each(tensor, *piece, false);
    }
  }

  std::int64_t kept(const HeldByTensor& had, int tensor, const Holding& wanted, bool parameters_only) const {
    const auto found = had.find(tensor);
    if (found == had.end()) return 0;
    if (comes_from_pieces(from.shares(tensor), parameters_only, from.precision())) return covered(wanted, found->second.pieces);
    return covered(wanted, {&found->second.shard});
  }
};

KeptState::KeptState(const plan::Plan& from, const plan::Plan& to, const Placement& from_placement, const Placement& to_placement)
    : state_{new State{{from, from_placement}, {to, to_placement}}} {}
KeptState::~KeptState() = default;

std::int64_t KeptState::wanted(Rank to) const {
  std::int64_t sum = 0;
  state_->for_each_wanted(
      to, [&](int, const Holding& holding, bool parameters_only) { sum += elements_of(holding) * numbers_of_an_element(parameters_only); });
  return sum;
}

std::int64_t KeptState::kept(Rank from, Rank to) const {
  const HeldByTensor& had = state_->from.of(from);
  std::int64_t sum = 0;
  state_->for_each_wanted(to, [&](int tensor, const Holding& holding, bool parameters_only) {
    sum += state_->kept(had, tensor, holding, parameters_only) * numbers_of_an_element(parameters_only);
  });
  return sum;
}

}  // namespace flotilla::program
