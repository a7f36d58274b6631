// Orders of the pool's places along the pipeline, alone or hierarchically side by side, and how many stages each is split into; then
// degrees and microbatches place by place, as long as the estimate falls.
#include "uneven_pipeline_search.hpp"

#include <algorithm>
#include <bit>
#include <iterator>
#include <numeric>

namespace flotilla::search::pool {
namespace {

struct UnevenCandidate {
  UnevenPipeline line;
  double seconds = 0;
};

class UnevenPipelineSearch {
 public:
  UnevenPipelineSearch(Estimator& estimate, Network& network, const std::vector<int>& microbatches, Refine& refine)
      : estimate_{estimate, network},
        device_pool_{estimate.device_pool()},
        microbatches_{microbatches},
        refine_{refine},
        passes_left_{device_pool_.devices <= tuning::small_pool ? tuning::uneven_passes_of_few : tuning::uneven_passes},
        cuts_left_{std::clamp(tuning::uneven_cuts / device_pool_.devices, tuning::least_uneven_cuts, tuning::largest_uneven_cuts)} {}

  void run() {
    const auto all = orders();
    for (std::size_t i = 0; i < all.size(); ++i) {  // what one order leaves of its lines, the others may have
      allowed_ = cuts_left_ - cuts_left_ * static_cast<int>(all.size() - 1 - i) / static_cast<int>(all.size() - i);
      cuts_left_ -= allowed_;
      try_order(all[i]);
      cuts_left_ += allowed_;
    }
    std::ranges::stable_sort(best_, {}, &UnevenCandidate::seconds);
    if (best_.size() > tuning::uneven_forecasts) best_.resize(tuning::uneven_forecasts);
    for (const UnevenCandidate& ranked : best_) climb(ranked.line);
  }

 private:
  /// Places whose devices work side by side in the same stages.
  using Team = std::vector<int>;
  struct SplitChoice {
    int tensor = 1, microbatch = 1;
  };

  bool one_type(const Team& places) const {
    return std::ranges::all_of(places,
                               [&](int p) { return device_pool_.places[at(p)].type == device_pool_.places[at(places.front())].type; });
  }

  /// Of the whole pool, then of ever fewer of its places: the teams that they can form, in any order along the pipeline.
  std::vector<std::vector<Team>> orders() const {
    std::vector<std::vector<Team>> out;
    const auto places = static_cast<int>(device_pool_.places.size());
    for (int size = places; size > 0; --size)
      for (unsigned mask = 0; mask < 1U << places; ++mask) {
        if (std::popcount(mask) != size) continue;
        Team some;
        for (int p = 0; p < places; ++p)
          if (mask >> p & 1U) some.push_back(p);
        if (!device_pool_.request.restrictions.one_device_type || one_type(some)) add_orders(some, out);
      }
    if (out.size() > tuning::uneven_orders) out.resize(tuning::uneven_orders);
    return out;
  }

  /// All permutations, cut into teams anywhere; a team lists its places in rising order. Teams of one come first.
  static void add_orders(Team places, std::vector<std::vector<Team>>& out) {
    std::vector<std::vector<Team>> found;
    do {
      for (unsigned joins = 0; joins < 1U << (places.size() - 1); ++joins) {
        std::vector<Team> teams{{places.front()}};
        bool rising = true;
        for (std::size_t p = 1; p < places.size(); ++p)
          if (joins >> (p - 1) & 1U) {
            rising = rising && places[p] > teams.back().back();
            teams.back().push_back(places[p]);
          } else {
            teams.push_back({places[p]});
          }
        if (rising) found.push_back(std::move(teams));
      }
    } while (std::ranges::next_permutation(places).found);
    std::ranges::stable_sort(found, [](const auto& a, const auto& b) { return a.size() > b.size(); });
    std::ranges::move(found, std::back_inserter(out));
  }

  /// Each team in one to four stages; its devices are dealt to its stages as evenly as they go.
  void try_order(const std::vector<Team>& teams) {
    std::vector<int> splits(teams.size(), 1);
    for (bool better = true; better;) {
      better = false;
      const double before = try_splits(teams, splits);
      for (std::size_t t = 0; t < splits.size(); ++t) {
        if (splits[t] == tuning::uneven_splits) continue;
        auto more = splits;
        ++more[t];
        if (try_splits(teams, more) < before) splits = more, better = true;
      }
    }
  }

  double try_splits(const std::vector<Team>& teams, const std::vector<int>& splits) {
    if (std::accumulate(splits.begin(), splits.end(), 0) > device_pool_.request.model.layers()) return never;
    double best = never;
    for (const int m : {1, 4}) {
      std::vector<SplitChoice> start(device_pool_.places.size(), {device_pool_.request.constraints.tensor.value_or(1),
                                                                  std::clamp(m, microbatches_.front(), microbatches_.back())});
      if (const double seconds = descend(teams, splits, start); seconds < best) best = seconds;
    }
    return best;
  }

  /// One place after the other takes the degree and the microbatch that are best while the others keep theirs.
  double descend(const std::vector<Team>& teams, const std::vector<int>& splits, std::vector<SplitChoice>& choices) {
    double best = seconds_of(teams, splits, choices, never);
    for (int round = 0; round < tuning::uneven_rounds; ++round) {
      const double before = best;
      for (const Team& team : teams)
        for (const int p : team) {
          const int widest = device_pool_.types[at(device_pool_.places[at(p)].type)].widest;
          for (const int tensor : device_pool_.degrees)
            for (const int m : microbatches_) {
              if (tensor > widest || device_pool_.request.constraints.tensor.value_or(tensor) != tensor) continue;
              auto other = choices;
              other[at(p)] = {tensor, m};
              if (const double seconds = seconds_of(teams, splits, other, best); seconds < best) best = seconds, choices = other;
            }
        }
      if (best >= before) break;
    }
    return best;
  }

  /// Or `never`, where they are surely more than `enough` and nobody would keep the line.
  double seconds_of(const std::vector<Team>& teams, const std::vector<int>& splits, const std::vector<SplitChoice>& choices,
                    double enough) {
    const int stages = std::accumulate(splits.begin(), splits.end(), 0);
    if (device_pool_.request.constraints.pipeline.value_or(stages) != stages) return never;
    UnevenPipeline line;
    line.stages_replicas.reserve(at(stages));
    for (std::size_t t = 0; t < teams.size(); ++t)
      for (int k = 0; k < splits[t]; ++k) {
        StageReplicas post;
        post.reserve(teams[t].size());
        for (const int p : teams[t]) {
          const auto [tensor, microbatch] = choices[at(p)];
          const int groups = device_pool_.groups(p, tensor), most = device_pool_.request.global_batch / microbatch;
          const int count = std::min(groups * (k + 1) / splits[t] - groups * k / splits[t], most);
          if (count > 0) post.push_back({p, tensor, count, microbatch});
        }
        if (post.empty()) return never;
        line.stages_replicas.push_back(std::move(post));
      }
    const bool pipelines = std::ranges::all_of(line.stages_replicas, [&](const StageReplicas& post) {
      return std::ranges::equal(post, line.stages_replicas.front(), [](const ReplicaGroup& a, const ReplicaGroup& b) {
        return a.count == b.count && a.microbatch == b.microbatch;
      });
    });
    if (pipelines) return never;  // candidates say these
    if (allowed_ <= 0 || hopeless(estimate_.floor(line.stages_replicas))) return never;
    --allowed_;
    const auto seconds = estimate_.cut(line, std::max(enough, worth_keeping()));
    if (!seconds) return never;
    keep({std::move(line), *seconds});
    return *seconds;
  }

  bool hopeless(double seconds) const { return seconds * tuning::uneven_error > worth_keeping(); }
  /// Seconds up to which a line may beat what was found.
  double worth_keeping() const {
    return refine_.found().empty() || !device_pool_.by_throughput() ? never : refine_.found().front().value * tuning::uneven_error;
  }

  void keep(UnevenCandidate ranked) {
    if (std::ranges::any_of(best_, [&](const UnevenCandidate& known) { return known.line == ranked.line; })) return;
    if (hopeless(ranked.seconds / tuning::uneven_error)) return;
    best_.push_back(std::move(ranked));
    if (best_.size() < 4 * tuning::uneven_forecasts) return;
    std::ranges::stable_sort(best_, {}, &UnevenCandidate::seconds);
    best_.resize(tuning::uneven_forecasts);
  }

  /// Cuts by a layer, microbatches by a factor of two, a replica to the stage beside its own.
  std::vector<UnevenPipeline> moves(const UnevenPipeline& line) {
    std::vector<UnevenPipeline> list;
    for (std::size_t s = 1; s + 1 < line.cuts.size(); ++s)
      for (const int by : {-1, 1}) {
        UnevenPipeline other = line;
        other.cuts[s] += by;
        if (other.cuts[s - 1] < other.cuts[s] && other.cuts[s] < other.cuts[s + 1]) list.push_back(std::move(other));
      }
    for (std::size_t s = 0; s < line.stages_replicas.size(); ++s)
      for (std::size_t c = 0; c < line.stages_replicas[s].size(); ++c) {
        for (const bool larger : {false, true}) {
          UnevenPipeline other = line;
          int& m = other.stages_replicas[s][c].microbatch;
          if (larger ? m * 2 > microbatches_.back() : m == microbatches_.front()) continue;
          m = larger ? m * 2 : m / 2;
          list.push_back(std::move(other));
        }
        if (s > 0) move_replica(line, s, c, s - 1, list);
        if (s + 1 < line.stages_replicas.size()) move_replica(line, s, c, s + 1, list);
      }
    return list;
  }

  static void move_replica(const UnevenPipeline& line, std::size_t from, std::size_t replica_group, std::size_t to,
                           std::vector<UnevenPipeline>& list) {
    UnevenPipeline other = line;
    ReplicaGroup one = other.stages_replicas[from][replica_group];
    one.count = 1;
    const auto same = [&](const ReplicaGroup& c) {
      return c.place == one.place && c.tensor == one.tensor && c.microbatch == one.microbatch;
    };
    if (const auto there = std::ranges::find_if(other.stages_replicas[to], same); there != other.stages_replicas[to].end())
      ++there->count;
    else
      other.stages_replicas[to].push_back(one);
    if (--other.stages_replicas[from][replica_group].count == 0)
      other.stages_replicas[from].erase(other.stages_replicas[from].begin() + static_cast<std::ptrdiff_t>(replica_group));
    if (!other.stages_replicas[from].empty()) list.push_back(std::move(other));
  }

  std::optional<double> attempt(const UnevenPipeline& line) {
    if (passes_left_ <= 0) return std::nullopt;
    for (const StageReplicas& post : line.stages_replicas)
      for (const ReplicaGroup& replica_group : post) passes_left_ -= replica_group.sequences / replica_group.microbatch;
    return refine_.attempt(plan_of(line, device_pool_));
  }

  void climb(UnevenPipeline here) {
    auto value = attempt(here);
    if (!value) return;
    for (bool moved = true; moved;) {
      moved = false;
      const auto before = estimate_(here);
      for (UnevenPipeline& other : moves(here)) {
        if (passes_left_ <= 0) return;
        const auto seconds = estimate_(other);
        if (!seconds || (before && *seconds > *before * tuning::uneven_error)) continue;
        const auto reached = attempt(other);
        if (!reached || *reached >= *value) continue;
        here = std::move(other), value = reached, moved = true;
        break;
      }
    }
  }

  static constexpr double never = 1e300;

  UnevenPipelineEstimator estimate_;
  const DevicePool& device_pool_;
  const std::vector<int>& microbatches_;
  Refine& refine_;
  std::int64_t passes_left_;
  int cuts_left_, allowed_ = 0;  ///< lines that may yet be cut: by all orders that are to come, by this one
  std::vector<UnevenCandidate> best_;
};

}  // namespace

bool searches_uneven_pipelines(const DevicePool& device_pool, bool routes) {
  const Restrictions& restrictions = device_pool.request.restrictions;
  if (!routes || restrictions.equal_replicas || restrictions.even_layers || restrictions.uniform_degrees) return false;
  if (const Constraints& fixed = device_pool.request.constraints; fixed.data || fixed.recompute || !fixed.cuts.empty()) return false;
  return device_pool.devices <= tuning::uneven_devices && device_pool.places.size() <= tuning::uneven_places && device_pool.devices >= 2;
}

void try_uneven_pipelines(Estimator& estimate, Network& network, const std::vector<int>& microbatches, Refine& refine,
                          const PlanEvaluator& evaluator) {
  if (searches_uneven_pipelines(estimate.device_pool(), !evaluator.runtime().layers))
    UnevenPipelineSearch{estimate, network, microbatches, refine}.run();
}

}  // namespace flotilla::search::pool
