#include "flotilla/program/kept_state.hpp"

#include <array>
#include <map>
#include <utility>
#include <vector>

#include "flotilla/base/error.hpp"
#include "flotilla/model/tensors.hpp"
#include "migration_shares.hpp"

namespace flotilla::program {
namespace {

std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

std::int64_t elements_of(const Holding& holding) {
  std::int64_t sum = 0;
  for (const Rectangle& r : holding.rectangles) sum += r.rows * r.columns;
  return sum;
}

/// What ranks of one plan hold. Shards are one for all replicas of a stage with equal degrees, shares are each rank's own.
class Ranks {
 public:
  using Shards = std::map<int, Holding>;                      ///< by tensor
  using Pieces = std::map<int, std::vector<const Holding*>>;  ///< by tensor
  using Seat = std::array<int, 3>;                            ///< own stage, tensor degree and index

  Ranks(const plan::Plan& plan, const Placement& placement)
      : plan_{plan}, tensors_{model::tensors(plan.model)}, shares_{pieces_of(plan, placement)} {
    for (int s = 0; s < plan::own_stages(plan); ++s)
      for (const plan::Replica& replica : plan.stages[at(s)].replicas)
        for (std::size_t i = 0; i < replica.devices.size(); ++i)
          seats_[replica.devices[i]] = {s, replica.tensor_parallel, static_cast<int>(i)};
    for (std::size_t t = 0; t < shares_.size(); ++t)
      for (const Holding& piece : shares_[t]) pieces_[piece.rank][static_cast<int>(t)].push_back(&piece);
  }
  Ranks(const Ranks&) = delete;  // it points into itself
  Ranks& operator=(const Ranks&) = delete;

  /// Whether the tensor's optimizer is shared out.
  bool shares(int tensor) const { return !shares_.empty() && !shares_[at(tensor)].empty(); }
  Precision precision() const { return plan_.precision; }

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
      if (uses(seat[0], tensors_[at(t)])) found->second.emplace(t, whole_shard(tensors_[at(t)], Rank{}, seat[1], seat[2]));
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
  const std::vector<std::vector<Holding>> shares_;  ///< by tensor
  std::map<Rank, Seat> seats_;
  std::map<Rank, Pieces> pieces_;
  mutable std::map<Seat, Shards> shards_;
};

}  // namespace

struct KeptState::State {
  Ranks from, to;
  std::map<std::pair<Ranks::Seat, Ranks::Seat>, std::int64_t> by_shards{};  ///< numbers that come from shards to shards
  std::map<Ranks::Seat, std::int64_t> wanted_in_shards{};

  /// Of a shard, whose moments others may keep.
  std::int64_t numbers(int tensor) const { return numbers_of_an_element(to.shares(tensor)); }
  bool fills_shards_from_pieces(int tensor) const { return comes_from_pieces(from.shares(tensor), to.shares(tensor), from.precision()); }

  std::int64_t wanted(Rank rank) {
    const auto [found, fresh] = wanted_in_shards.try_emplace(to.seat(rank), 0);
    if (fresh)
      for (const auto& [tensor, shard] : to.shards(found->first)) found->second += elements_of(shard) * numbers(tensor);
    std::int64_t sum = found->second;
    for (const auto& [tensor, pieces] : to.pieces(rank))
      for (const Holding* piece : pieces) sum += elements_of(*piece) * numbers_of_an_element(false);
    return sum;
  }

  std::int64_t kept_between_shards(const Ranks::Seat& old, const Ranks::Seat& fresh) {
    const auto [found, is_new] = by_shards.try_emplace({old, fresh}, 0);
    if (!is_new) return found->second;
    const auto& had = from.shards(old);
    for (const auto& [tensor, shard] : to.shards(fresh))
      if (const auto there = had.find(tensor); there != had.end() && !fills_shards_from_pieces(tensor))
        found->second += covered(shard, {&there->second}) * numbers(tensor);
    return found->second;
  }

  std::int64_t kept(Rank old, Rank fresh) {
    const auto &had_shards = from.shards(from.seat(old)), &shards = to.shards(to.seat(fresh));
    const auto& had = from.pieces(old);
    std::int64_t sum = kept_between_shards(from.seat(old), to.seat(fresh));
    for (const auto& [tensor, pieces] : had)
      if (const auto wanted = shards.find(tensor); wanted != shards.end() && fills_shards_from_pieces(tensor))
        sum += covered(wanted->second, pieces) * numbers(tensor);
    for (const auto& [tensor, pieces] : to.pieces(fresh)) {
      const auto there = had.find(tensor);
      const auto shard = had_shards.find(tensor);
      if (from.shares(tensor) ? there == had.end() : shard == had_shards.end()) continue;
      const auto sources = from.shares(tensor) ? there->second : std::vector<const Holding*>{&shard->second};
      for (const Holding* piece : pieces) sum += covered(*piece, sources) * numbers_of_an_element(false);
    }
    return sum;
  }
};

KeptState::KeptState(const plan::Plan& from, const plan::Plan& to, const Placement& from_placement, const Placement& to_placement)
    : state_{new State{{from, from_placement}, {to, to_placement}}} {}
KeptState::~KeptState() = default;

std::int64_t KeptState::wanted(Rank to) const { return state_->wanted(to); }
std::int64_t KeptState::kept(Rank from, Rank to) const { return state_->kept(from, to); }

}  // namespace flotilla::program
