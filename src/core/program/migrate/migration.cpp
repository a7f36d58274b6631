#include "flotilla/program/migration.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "flotilla/base/error.hpp"
#include "flotilla/model/tensors.hpp"
#include "migration_shares.hpp"
#include "transfer_sources.hpp"

namespace flotilla::program {
namespace {

/// The shards of a tensor under a plan, stage by stage. Two stages of one device share a tied table.
std::vector<RankHolding> shards_of(const plan::Plan& plan, const model::Tensor& tensor) {
  std::vector<RankHolding> found;
  std::set<Rank> ranks;
  const auto inside = [](int layer, const plan::Stage& stage) { return stage.first_layer <= layer && layer < stage.last_layer; };
  for (const auto& stage : plan.stages)
    if (inside(tensor.layer, stage) || inside(tensor.tied_layer, stage))
      for (const auto& replica : stage.replicas)
        for (int i = 0; i < replica.tensor_parallel; ++i)
          if (const Rank rank = replica.devices[static_cast<std::size_t>(i)]; ranks.insert(rank).second)
            found.push_back(whole_shard(tensor, rank, replica.tensor_parallel, i));
  return found;
}

ElementRun run_of(int tensor, const Rectangle& there, int from_piece, const Rectangle& here, int to_piece, Carried carried) {
  ElementRun run{tensor, here.rows, here.columns, there.offset, there.stride, here.offset, here.stride, from_piece, to_piece, carried};
  if (run.outer == 1 || (run.from_stride == run.inner && run.to_stride == run.inner)) {
    run.inner *= run.outer;
    run.outer = 1;
    run.from_stride = run.to_stride = run.inner;
  }
  return run;
}

/// One tensor under one plan.
struct Layout {
  Keeping keeping;
  std::vector<RankHolding> shards, pieces;

  const std::vector<RankHolding>& parameters() const { return keeping.parameters_in_pieces() ? pieces : shards; }
  const std::vector<RankHolding>& moments() const { return keeping.moments_in_pieces() ? pieces : shards; }
};

class Mover {
 public:
  Mover(const plan::Plan& from, const plan::Plan& to, const RankLocations& placement)
      : from_{from},
        to_{to},
        old_pieces_{pieces_of(from, placement)},
        new_pieces_{pieces_of(to, placement)},
        transfer_sources_{from, to, placement} {}

  void move(int index, const model::Tensor& tensor) {
    index_ = index;
    old_ = layout(from_, tensor, old_pieces_);
    const Layout fresh = layout(to_, tensor, new_pieces_);
    std::map<Rank, std::vector<const RankHolding*>> pieces;
    for (const RankHolding& piece : fresh.pieces) pieces[piece.rank].push_back(&piece);
    for (const RankHolding& shard : fresh.shards) fill(shard, pieces[shard.rank], fresh.keeping);
  }

  Migration done() {
    Migration migration;
    for (auto& [ends, runs] : runs_) {
      std::ranges::stable_partition(runs, [](const ElementRun& run) { return run.carried != Carried::weights; });
      migration.transfers.push_back({ends.first, ends.second, std::move(runs)});
    }
    for (auto& [rank, runs] : within_) migration.within.push_back({rank, rank, std::move(runs)});
    int ranks = 1;
    for (const auto& t : migration.transfers) ranks = std::max({ranks, t.from.value + 1, t.to.value + 1});
    const auto round = [&](const StateTransfer& t) { return (t.to.value - t.from.value + ranks) % ranks; };
    std::ranges::stable_sort(migration.transfers, {}, [&](const StateTransfer& t) { return std::pair{round(t), t.from}; });
    return migration;
  }

 private:
  Layout layout(const plan::Plan& plan, const model::Tensor& tensor, std::vector<std::vector<RankHolding>>& pieces) const {
    Layout layout{{}, shards_of(plan, tensor), {}};
    if (!pieces.empty()) layout.pieces = std::move(pieces[static_cast<std::size_t>(index_)]);
    layout.keeping = {!layout.pieces.empty(), plan.precision, tensor.trained};
    return layout;
  }

  /// All that one rank needs of the tensor.
  void fill(const RankHolding& shard, const std::vector<const RankHolding*>& pieces, const Keeping& keeping) {
    const Carried in_pieces = keeping.together() ? Carried::state : Carried::moments;
    const auto once = each_once(pieces, [&](const RankHolding& later, const RankHolding& earlier, const Rectangle& here,
                                            const Rectangle& there) { copy(earlier, there, later, here, in_pieces); });
    const std::vector<RankHolding> whole{shard};
    const auto& parameters = keeping.parameters_in_pieces() ? once : whole;
    const auto& moments = keeping.moments_in_pieces() ? once : whole;
    if (!keeping.trained) {
      fetch(parameters, old_.parameters(), Carried::parameters);
    } else if (keeping.together() && old_.keeping.together()) {
      fetch(parameters, old_.parameters(), Carried::state);
    } else {
      fetch(parameters, old_.parameters(), Carried::parameters);
      fetch(moments, old_.moments(), Carried::moments);
    }
    if (keeping.parameters_in_pieces())
      fill_rest(shard, once);
    else if (keeping.shared)
      fill_packed(pieces, shard);
  }

  /// Of a shard of which the rank keeps but pieces in fp32: what they have, and the weights of the rest.
  void fill_rest(const RankHolding& shard, const std::vector<RankHolding>& pieces) {
    auto rest = shard.rectangles;
    for (const RankHolding& piece : pieces)
      rest = without(std::move(rest), piece,
                     [&](const Rectangle& here, const Rectangle& there) { copy(piece, there, shard, here, Carried::parameters); });
    fetch(shard, std::move(rest), old_.shards, Carried::weights);
  }

  void fill_packed(const std::vector<const RankHolding*>& pieces, const RankHolding& shard) {
    for (const RankHolding* piece : pieces)
      if (piece->packed)
        without(piece->rectangles, shard,
                [&](const Rectangle& here, const Rectangle& there) { copy(shard, there, *piece, here, Carried::parameters); });
  }

  void fetch(const std::vector<RankHolding>& wanted, const std::vector<RankHolding>& holders, Carried carried) {
    for (const RankHolding& one : wanted) fetch(one, one.rectangles, holders, carried);
  }

  void fetch(const RankHolding& wanted, std::vector<Rectangle> missing, const std::vector<RankHolding>& holders, Carried carried) {
    transfer_sources_.fill(std::move(missing), wanted.rank, holders, size_of(carried),
                           [&](const RankHolding& holder, const Rectangle& here, const Rectangle& there) {
                             runs_[{holder.rank, wanted.rank}].push_back(run_of(index_, there, holder.piece, here, wanted.piece, carried));
                           });
  }

  /// From one place of a rank's new state to another.
  void copy(const RankHolding& from, const Rectangle& there, const RankHolding& to, const Rectangle& here, Carried carried) {
    within_[to.rank].push_back(run_of(index_, there, from.piece, here, to.piece, carried));
  }

  const plan::Plan& from_;
  const plan::Plan& to_;
  std::vector<std::vector<RankHolding>> old_pieces_, new_pieces_;  // by tensor; empty where a plan shares nothing out
  TransferSources transfer_sources_;
  int index_ = -1;
  Layout old_;
  std::map<std::pair<Rank, Rank>, std::vector<ElementRun>> runs_;
  std::map<Rank, std::vector<ElementRun>> within_;
};

}  // namespace

std::int64_t StateTransfer::elements() const {
  return std::accumulate(runs.begin(), runs.end(), std::int64_t{0},
                         [](std::int64_t sum, const ElementRun& run) { return sum + run.elements(); });
}

Bytes StateTransfer::size() const {
  return std::accumulate(runs.begin(), runs.end(), Bytes{}, [](Bytes sum, const ElementRun& run) { return sum + run.size(); });
}

Bytes Migration::moved() const {
  Bytes bytes{};
  for (const auto& transfer : transfers)
    if (!transfer.stays()) bytes += transfer.size();
  return bytes;
}

Migration migrate(const plan::Plan& from, const plan::Plan& to, const RankLocations& placement) {
  auto theirs = to.model;
  theirs.name = from.model.name;
  FLOTILLA_REQUIRE(theirs == from.model, ErrorKind::bad_input, "the plan in use is for ", from.model.name, ", the new one for ",
                   to.model.name, "; training state moves between plans for one model only");
  FLOTILLA_REQUIRE(to.precision == from.precision, ErrorKind::bad_input, "the plan in use is in ", to_string(from.precision),
                   ", the new one in ", to_string(to.precision), "; training state moves between plans of one precision only");
  for (const auto* plan : {&from, &to})
    for (const auto& stage : plan->stages)
      for (const auto& replica : stage.replicas)
        FLOTILLA_ASSERT(static_cast<int>(replica.devices.size()) == replica.tensor_parallel, "a plan that is not bound to ranks");
  Mover mover{from, to, placement};
  const auto tensors = model::tensors(to.model);
  for (std::size_t t = 0; t < tensors.size(); ++t) mover.move(static_cast<int>(t), tensors[t]);
  return mover.done();
}

}  // namespace flotilla::program
