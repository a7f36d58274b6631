#include "flotilla/program/migration.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>

#include "flotilla/base/error.hpp"
#include "flotilla/model/tensors.hpp"
#include "flotilla/plan/shard_layout.hpp"
#include "migration_shares.hpp"

namespace flotilla::program {
namespace {

/// Along a tensor's axis, in logical units; the whole tensor is one unit where no axis cuts it.
model::UnitRange units_of(const model::Tensor& tensor, int degree, int index) {
  return tensor.axis == model::Axis::none ? model::UnitRange{0, 1} : model::share(tensor.units(), degree, index);
}

/// Where units lie in a shard that holds `held`.
struct Local {
  std::int64_t offset = 0, stride = 0;
};

/// How a tensor's elements lie around its cut dimension.
struct Shape {
  explicit Shape(const model::Tensor& tensor) {
    if (tensor.axis == model::Axis::none) {
      unit = tensor.elements();
      return;
    }
    const auto cut = static_cast<std::size_t>(tensor.dimension);
    for (std::size_t d = 0; d < cut; ++d) outer *= tensor.shape[d];
    for (std::size_t d = cut + 1; d < tensor.shape.size(); ++d) unit *= tensor.shape[d];
    unit *= tensor.unit;
    fused = tensor.fused;
  }
  Local local(model::UnitRange held, std::int64_t first, std::int64_t part) const {
    return {(part * held.count() + first - held.first) * unit, fused * held.count() * unit};
  }
  std::int64_t outer = 1, unit = 1, fused = 1;  // `unit` in elements of one row of one fused part
};

Run run_of(int tensor, const Shape& shape, model::UnitRange units, std::int64_t part, model::UnitRange from, model::UnitRange to) {
  const auto source = shape.local(from, units.first, part), target = shape.local(to, units.first, part);
  Run run{tensor, shape.outer, units.count() * shape.unit, source.offset, source.stride, target.offset, target.stride, -1, -1, false};
  if (run.outer == 1 || (run.from_stride == run.inner && run.to_stride == run.inner)) {
    run.inner *= run.outer;
    run.outer = 1;
    run.from_stride = run.to_stride = run.inner;
  }
  return run;
}

/// The replicas that hold a tensor under a plan, stage by stage.
std::vector<const plan::Replica*> holders(const plan::Plan& plan, const model::Tensor& tensor) {
  std::vector<const plan::Replica*> found;
  const auto inside = [](int layer, const plan::Stage& stage) { return stage.first_layer <= layer && layer < stage.last_layer; };
  for (const auto& stage : plan.stages)
    if (inside(tensor.layer, stage) || inside(tensor.tied_layer, stage))
      for (const auto& replica : stage.replicas) found.push_back(&replica);
  return found;
}

class Mover {
 public:
  Mover(const plan::Plan& from, const plan::Plan& to, const Placement& placement)
      : from_{from}, to_{to}, old_pieces_{pieces_of(from, placement)}, new_pieces_{pieces_of(to, placement)} {}

  void move(int index, const model::Tensor& tensor) {
    index_ = index;
    tensor_ = &tensor;
    shape_.emplace(tensor);
    old_ = holders(from_, tensor);
    if (!pieces(old_pieces_).empty() || !pieces(new_pieces_).empty()) return move_pieces();
    std::map<Rank, model::UnitRange> served;
    int turn = index;
    for (const auto* replica : holders(to_, tensor)) {
      for (int i = 0; i < replica->tensor_parallel; ++i) {
        const Rank rank = replica->devices[static_cast<std::size_t>(i)];
        const auto wanted = units_of(tensor, replica->tensor_parallel, i);
        if (served.try_emplace(rank, wanted).second) serve(*replica, rank, wanted, turn);  // two stages of one device share a tied table
      }
      ++turn;
    }
  }

  Migration done() {
    Migration migration;
    for (auto& [ends, runs] : runs_) migration.transfers.push_back({ends.first, ends.second, std::move(runs)});
    int ranks = 1;
    for (const auto& t : migration.transfers) ranks = std::max({ranks, t.from.value + 1, t.to.value + 1});
    const auto round = [&](const Transfer& t) { return (t.to.value - t.from.value + ranks) % ranks; };
    std::ranges::stable_sort(migration.transfers, {}, [&](const Transfer& t) { return std::pair{round(t), t.from}; });
    return migration;
  }

 private:
  const std::vector<Holding>& pieces(const std::vector<std::vector<Holding>>& of) const {
    static const std::vector<Holding> none;
    return of.empty() ? none : of[static_cast<std::size_t>(index_)];
  }

  /// Where the old plan or the new one shares the tensor's optimizer out.
  void move_pieces() {
    int turn = index_;
    std::set<Rank> served;
    for (const auto* replica : holders(to_, *tensor_)) {
      for (int i = 0; i < replica->tensor_parallel; ++i) {
        const Rank rank = replica->devices[static_cast<std::size_t>(i)];
        if (!served.insert(rank).second) continue;
        const bool shared = !pieces(new_pieces_).empty();
        fill(whole_shard(*tensor_, rank, replica->tensor_parallel, i), *replica, turn, shared);
        for (const Holding& piece : pieces(new_pieces_))
          if (piece.rank == rank) fill(piece, *replica, turn, false);
      }
      ++turn;
    }
  }

  void fill(const Holding& wanted, const plan::Replica& replica, int turn, bool parameters_only) {
    std::vector<Holding> shards;
    std::vector<const Holding*> sources;
    const auto& kept = pieces(old_pieces_);
    if (comes_from_pieces(!kept.empty(), parameters_only, from_.precision)) {
      for (const bool own : {true, false})
        for (const Holding& piece : kept)
          if (own ? piece.rank == wanted.rank : piece.owned) sources.push_back(&piece);
    } else {
      shards = whole_shards(wanted.rank, source(replica, turn));
      for (const Holding& shard : shards) sources.push_back(&shard);
    }
    cover(index_, wanted, sources, parameters_only, [&](const Holding& from, const Run& run) {
      runs_[{from.rank, wanted.rank}].push_back(run);
    });
  }

  /// The rank's own, if it has one, and those of a replica.
  std::vector<Holding> whole_shards(Rank own, const plan::Replica& source) const {
    std::vector<Holding> shards;
    for (const auto* old : old_)
      for (int i = 0; i < old->tensor_parallel; ++i)
        if (old->devices[static_cast<std::size_t>(i)] == own) shards.push_back(whole_shard(*tensor_, own, old->tensor_parallel, i));
    const int members = tensor_->axis == model::Axis::none ? 1 : source.tensor_parallel;
    for (int i = 0; i < members; ++i)
      shards.push_back(whole_shard(*tensor_, source.devices[static_cast<std::size_t>(i)], source.tensor_parallel, i));
    return shards;
  }

  void serve(const plan::Replica& replica, Rank rank, model::UnitRange wanted, int turn) {
    model::UnitRange own{0, 0};
    for (const auto* old : old_)
      if (const auto at = std::ranges::find(old->devices, rank); at != old->devices.end()) {
        own = units_of(*tensor_, old->tensor_parallel, static_cast<int>(at - old->devices.begin()));
        break;
      }
    const model::UnitRange kept{std::max(own.first, wanted.first), std::min(own.last, wanted.last)};
    if (kept.first >= kept.last) return fetch(source(replica, turn), rank, wanted, wanted);
    add(rank, rank, kept, own, wanted);
    fetch(source(replica, turn), rank, {wanted.first, kept.first}, wanted);
    fetch(source(replica, turn), rank, {kept.last, wanted.last}, wanted);
  }

  const plan::Replica& source(const plan::Replica& target, int turn) const {
    std::vector<const plan::Replica*> near;
    for (const auto* old : old_)
      if (old->zone == target.zone) near.push_back(old);
    const auto& all = near.empty() ? old_ : near;
    return *all[static_cast<std::size_t>(turn) % all.size()];
  }

  void fetch(const plan::Replica& old, Rank to, model::UnitRange units, model::UnitRange held) {
    for (int i = 0; i < old.tensor_parallel && units.count() > 0; ++i) {
      const auto theirs = units_of(*tensor_, old.tensor_parallel, i);
      const model::UnitRange part{std::max(theirs.first, units.first), std::min(theirs.last, units.last)};
      if (part.count() <= 0) continue;
      add(old.devices[static_cast<std::size_t>(i)], to, part, theirs, held);
      if (tensor_->axis == model::Axis::none) return;  // every member holds it; the first gives it
    }
  }

  void add(Rank from, Rank to, model::UnitRange units, model::UnitRange from_held, model::UnitRange to_held) {
    auto& runs = runs_[{from, to}];
    for (std::int64_t part = 0; part < shape_->fused; ++part) runs.push_back(run_of(index_, *shape_, units, part, from_held, to_held));
  }

  const plan::Plan& from_;
  const plan::Plan& to_;
  std::vector<std::vector<Holding>> old_pieces_, new_pieces_;  // by tensor; empty where a plan shares nothing out
  int index_ = -1;
  const model::Tensor* tensor_ = nullptr;
  std::optional<Shape> shape_;
  std::vector<const plan::Replica*> old_;
  std::map<std::pair<Rank, Rank>, std::vector<Run>> runs_;
};

}  // namespace

std::int64_t Transfer::elements() const {
  return std::accumulate(runs.begin(), runs.end(), std::int64_t{0}, [](std::int64_t sum, const Run& run) { return sum + run.elements(); });
}

std::int64_t Transfer::numbers() const {
  return std::accumulate(runs.begin(), runs.end(), std::int64_t{0},
                         [](std::int64_t sum, const Run& run) { return sum + run.elements() * run.kinds(); });
}

Bytes Migration::moved() const {
  Bytes bytes{};
  for (const auto& transfer : transfers)
    if (!transfer.stays()) bytes += transfer.size();
  return bytes;
}

Migration migrate(const plan::Plan& from, const plan::Plan& to, const Placement& placement) {
  auto theirs = to.model;
  theirs.name = from.model.name;
  FLOTILLA_REQUIRE(theirs == from.model, ErrorKind::bad_input, "the plan in use is for ", from.model.name, ", the new one for ",
                   to.model.name, "; training state moves between plans for one model only");
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
