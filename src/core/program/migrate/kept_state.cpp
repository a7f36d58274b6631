#include "flotilla/program/kept_state.hpp"

#include <array>
#include <map>
#include <utility>
#include <vector>

#include "flotilla/base/error.hpp"
#include "flotilla/model/tensors.hpp"
#include "index.hpp"
#include "migration_shares.hpp"

namespace flotilla::program {
namespace {

/// What ranks of one plan hold. Shards are one for all replicas of a stage with equal degrees, shares are each rank's own.
class Ranks {
 public:
  using Shards = std::map<int, std::vector<RankHolding>>;  ///< by tensor: one
  using Pieces = std::map<int, std::vector<RankHolding>>;  ///< by tensor, apart from each other
  using Seat = std::array<int, 3>;                         ///< own stage, tensor degree and index

  Ranks(const plan::Plan& plan, const RankLocations& placement) : plan_{plan}, tensors_{model::tensors(plan.model)} {
    for (int s = 0; s < plan::own_stages(plan); ++s)
      for (const plan::Replica& replica : plan.stages[at(s)].replicas)
        for (std::size_t i = 0; i < replica.devices.size(); ++i)
          seats_[replica.devices[i]] = {s, replica.tensor_parallel, static_cast<int>(i)};
    const auto all = pieces_of(plan, placement);
    for (std::size_t t = 0; t < all.size(); ++t) {
      std::map<Rank, std::vector<const RankHolding*>> of_rank;
      for (const RankHolding& piece : all[t]) of_rank[piece.rank].push_back(&piece);
      for (const auto& [rank, pieces] : of_rank) pieces_[rank].emplace(static_cast<int>(t), each_once(pieces));
      shares_.push_back(!of_rank.empty());
    }
  }

  Keeping keeping(int tensor) const { return {!shares_.empty() && shares_[at(tensor)], plan_.precision, tensors_[at(tensor)].trained}; }

  const Seat& seat(Rank rank) const {
    const auto found = seats_.find(rank);
    FLOTILLA_ASSERT(found != seats_.end(), "rank ", rank, " of a plan that does not use it");
    return found->second;
  }
  const Pieces& pieces(Rank rank) const {
    static const Pieces none;
    const auto found = pieces_.find(rank);
    return found == pieces_.end() ? none : found->second;
  }
  const Shards& shards(const Seat& seat) const {
    const auto [found, fresh] = shards_.try_emplace(seat);
    for (int t = 0; fresh && t < static_cast<int>(tensors_.size()); ++t)
      if (uses(seat[0], tensors_[at(t)])) found->second[t] = {whole_shard(tensors_[at(t)], Rank{}, seat[1], seat[2])};
    return found->second;
  }

 private:
  bool uses(int own_stage, const model::Tensor& tensor) const {
    for (std::size_t s = at(own_stage); s < plan_.stages.size(); s += at(plan::own_stages(plan_))) {
      const auto inside = [&](int layer) { return plan_.stages[s].first_layer <= layer && layer < plan_.stages[s].last_layer; };
      if (inside(tensor.layer) || inside(tensor.tied_layer)) return true;
    }
    return false;
  }

  const plan::Plan plan_;
  const std::vector<model::Tensor> tensors_;
  std::vector<bool> shares_;  ///< by tensor: whether its optimizer is sharded
  std::map<Rank, Seat> seats_;
  std::map<Rank, Pieces> pieces_;
  mutable std::map<Seat, Shards> shards_;
};

}  // namespace

namespace {

const std::vector<RankHolding>& held(const std::map<int, std::vector<RankHolding>>& by_tensor, int tensor) {
  static const std::vector<RankHolding> none;
  const auto found = by_tensor.find(tensor);
  return found == by_tensor.end() ? none : found->second;
}

std::int64_t elements_of(const std::vector<RankHolding>& holdings) {
  std::int64_t sum = 0;
  for (const RankHolding& one : holdings) sum += program::elements_of(one.rectangles);
  return sum;
}

/// Bytes that an element of a shard takes, and what an element of a piece takes beside what is counted of it in the shard.
struct Sizes {
  std::int64_t shard = 0, piece = 0;
};
Sizes sizes_of(const Keeping& keeping) {
  const std::int64_t state = size_of(Carried::state).count, weights = size_of(Carried::weights).count;
  if (!keeping.trained) return {size_of(Carried::parameters).count, 0};
  if (!keeping.shared) return {state, 0};
  if (keeping.parameters_in_pieces()) return {weights, state - weights};  // weights are made of the parameters where these are
  return {size_of(Carried::parameters).count, size_of(Carried::moments).count};
}

}  // namespace

struct KeptState::State {
  Ranks from, to;
  std::map<std::pair<Ranks::Seat, Ranks::Seat>, std::int64_t> by_shards{};  ///< bytes that are kept between shards
  std::map<Ranks::Seat, std::int64_t> wanted_in_shards{};

  std::int64_t wanted(Rank rank) {
    const auto [found, fresh] = wanted_in_shards.try_emplace(to.seat(rank), 0);
    if (fresh)
      for (const auto& [tensor, shard] : to.shards(found->first)) found->second += elements_of(shard) * sizes_of(to.keeping(tensor)).shard;
    std::int64_t sum = found->second;
    for (const auto& [tensor, pieces] : to.pieces(rank)) sum += elements_of(pieces) * sizes_of(to.keeping(tensor)).piece;
    return sum;
  }

  /// What an element takes that both have in their shards.
  std::int64_t size_between_shards(int tensor) const {
    const Keeping old = from.keeping(tensor), fresh = to.keeping(tensor);
    std::int64_t size = 0;
    if (!old.parameters_in_pieces() && !fresh.parameters_in_pieces()) size += size_of(Carried::parameters).count;
    if (fresh.trained && !old.moments_in_pieces() && !fresh.moments_in_pieces()) size += size_of(Carried::moments).count;
    if (fresh.parameters_in_pieces()) size += size_of(Carried::weights).count;
    return size;
  }

  std::int64_t kept_between_shards(const Ranks::Seat& old, const Ranks::Seat& fresh) {
    const auto [found, is_new] = by_shards.try_emplace({old, fresh}, 0);
    if (!is_new) return found->second;
    const auto& had = from.shards(old);
    for (const auto& [tensor, shard] : to.shards(fresh))
      if (const auto size = size_between_shards(tensor); size > 0) found->second += common_elements(shard, held(had, tensor)) * size;
    return found->second;
  }

  std::int64_t kept(Rank old, Rank fresh) {
    const auto &had_shards = from.shards(from.seat(old)), &shards = to.shards(to.seat(fresh));
    const auto &had_pieces = from.pieces(old), &pieces = to.pieces(fresh);
    std::int64_t sum = kept_between_shards(from.seat(old), to.seat(fresh));
    for (const auto& [tensor, shard] : shards) {
      const Keeping before = from.keeping(tensor), after = to.keeping(tensor);
      if (!before.shared && !after.shared) continue;
      const auto both = [&](bool old_pieces, bool new_pieces, Carried carried) {
        return !old_pieces && !new_pieces ? 0  // counted above
                                          : size_of(carried).count * common_elements(new_pieces ? held(pieces, tensor) : shard,
                                                                                     held(old_pieces ? had_pieces : had_shards, tensor));
      };
      sum += both(before.parameters_in_pieces(), after.parameters_in_pieces(), Carried::parameters);
      sum += both(before.moments_in_pieces(), after.moments_in_pieces(), Carried::moments);
      // No weights are wanted where parameters are.
      if (after.parameters_in_pieces())
        sum -= size_of(Carried::weights).count * common_elements(held(pieces, tensor), held(had_shards, tensor));
    }
    return sum;
  }
};

KeptState::KeptState(const plan::Plan& from, const plan::Plan& to, const RankLocations& from_placement, const RankLocations& to_placement)
    : state_{new State{{from, from_placement}, {to, to_placement}}} {}
KeptState::~KeptState() = default;

Bytes KeptState::wanted(Rank to) const { return {state_->wanted(to)}; }
Bytes KeptState::kept(Rank from, Rank to) const { return {state_->kept(from, to)}; }

}  // namespace flotilla::program
