// Orders of the pool's places along the pipeline, and how many stages each is split into; then degrees and microbatches place by place, as
// long as the estimate falls.
#include "lines.hpp"

#include <algorithm>
#include <numeric>

namespace flotilla::search::pool {
namespace {

constexpr int most_devices = 256;  // beyond, a forecast takes as long as all others together: few replicas are alike
constexpr std::size_t most_places = 4;
constexpr int most_splits = 4, most_orders = 24, most_rounds = 2;
constexpr int most_cuts = 40'000, least_cuts = 200,
              largest_cuts = 1'500;          // lines that are cut: the first over the devices, within the others
constexpr std::size_t most_kept = 8;         // lines that are forecast
constexpr std::int64_t most_passes = 3'000;  // of microbatches through stages, in all forecasts: they are simulated one by one
constexpr double promising = 1.03;           // estimates of lines err by some per cent, mostly to the good

struct Candidate {
  Line line;
  double seconds = 0;
};

class Lines {
 public:
  Lines(Estimator& estimate, Network& network, const std::vector<int>& microbatches, Refine& refine)
      : estimate_{estimate, network},
        stock_{estimate.stock()},
        microbatches_{microbatches},
        refine_{refine},
        cuts_left_{std::clamp(most_cuts / stock_.devices, least_cuts, largest_cuts)} {}

  void run() {
    std::vector<int> places(stock_.places.size());
    std::iota(places.begin(), places.end(), 0);
    for (int orders = 0; orders < most_orders; ++orders) {
      if (!stock_.request.restrictions.one_device_type || one_type(places)) try_order(places);
      for (int place : places) try_order({place});
      if (!std::ranges::next_permutation(places).found) break;
    }
    std::ranges::stable_sort(best_, {}, &Candidate::seconds);
    if (best_.size() > most_kept) best_.resize(most_kept);
    for (const Candidate& candidate : best_) climb(candidate.line);
  }

 private:
  bool one_type(const std::vector<int>& places) const {
    return std::ranges::all_of(places, [&](int p) { return stock_.places[at(p)].type == stock_.places[at(places.front())].type; });
  }

  /// Each place in one to four stages; the devices of a place are dealt to its stages as evenly as they go.
  void try_order(const std::vector<int>& places) {
    std::vector<int> splits(places.size(), 1);
    for (bool better = true; better;) {
      better = false;
      const double before = try_splits(places, splits);
      for (std::size_t p = 0; p < splits.size(); ++p) {
        if (splits[p] == most_splits) continue;
        auto more = splits;
        ++more[p];
        if (try_splits(places, more) < before) splits = more, better = true;
      }
    }
  }

  double try_splits(const std::vector<int>& places, const std::vector<int>& splits) {
    if (std::accumulate(splits.begin(), splits.end(), 0) > stock_.request.model.layers()) return never;
    std::vector<Choice> choices(places.size());
    double best = never;
    for (const int m : {1, 4}) {
      std::vector<Choice> start(places.size(), {1, std::min(m, microbatches_.back())});
      if (const double seconds = descend(places, splits, start); seconds < best) best = seconds;
    }
    return best;
  }

  struct Choice {
    int tensor = 1, microbatch = 1;
  };

  /// One place after the other takes the degree and the microbatch that are best while the others keep theirs.
  double descend(const std::vector<int>& places, const std::vector<int>& splits, std::vector<Choice>& choices) {
    double best = seconds_of(places, splits, choices);
    for (int round = 0; round < most_rounds; ++round) {
      const double before = best;
      for (std::size_t p = 0; p < places.size(); ++p) {
        const int per_node = stock_.types[at(stock_.places[at(places[p])].type)].per_node;
        for (int tensor = 1; tensor <= std::min(per_node, model::largest_tensor_parallel(stock_.request.model)); tensor *= 2)
          for (const int m : microbatches_) {
            auto other = choices;
            other[p] = {tensor, m};
            if (const double seconds = seconds_of(places, splits, other); seconds < best) best = seconds, choices = other;
          }
      }
      if (best >= before) break;
    }
    return best;
  }

  double seconds_of(const std::vector<int>& places, const std::vector<int>& splits, const std::vector<Choice>& choices) {
    Line line;
    for (std::size_t p = 0; p < places.size(); ++p) {
      const int groups = stock_.groups(places[p], choices[p].tensor);
      const int most = stock_.request.global_batch / choices[p].microbatch;
      for (int k = 0; k < splits[p]; ++k) {
        const int count = std::min(groups * (k + 1) / splits[p] - groups * k / splits[p], most);
        if (count < 1) return never;
        line.posts.push_back({places[p], choices[p].tensor, count, choices[p].microbatch});
      }
    }
    const bool columns = std::ranges::all_of(line.posts, [&](const Post& post) {
      return post.count == line.posts.front().count && post.microbatch == line.posts.front().microbatch;
    });
    if (columns) return never;  // sketches say these
    if (cuts_left_ <= 0 || hopeless(estimate_.floor(line.posts))) return never;
    --cuts_left_;
    const auto seconds = estimate_.cut(line);
    if (!seconds) return never;
    keep({std::move(line), *seconds});
    return *seconds;
  }

  bool hopeless(double seconds) const {
    return !refine_.found().empty() && stock_.by_throughput() && seconds > refine_.found().front().value;
  }

  void keep(Candidate candidate) {
    if (std::ranges::any_of(best_, [&](const Candidate& known) { return known.line == candidate.line; })) return;
    if (hopeless(candidate.seconds / promising)) return;
    best_.push_back(std::move(candidate));
    if (best_.size() < 4 * most_kept) return;
    std::ranges::stable_sort(best_, {}, &Candidate::seconds);
    best_.resize(most_kept);
  }

  /// Cuts by a layer, microbatches by a factor of two.
  std::vector<Line> moves(const Line& line) {
    std::vector<Line> list;
    for (std::size_t s = 1; s + 1 < line.cuts.size(); ++s)
      for (const int by : {-1, 1}) {
        Line other = line;
        other.cuts[s] += by;
        if (other.cuts[s - 1] < other.cuts[s] && other.cuts[s] < other.cuts[s + 1]) list.push_back(std::move(other));
      }
    for (std::size_t s = 0; s < line.posts.size(); ++s)
      for (const bool larger : {false, true}) {
        Line other = line;
        int& m = other.posts[s].microbatch;
        if (larger ? m * 2 > microbatches_.back() : m == 1) continue;
        m = larger ? m * 2 : m / 2;
        list.push_back(std::move(other));
      }
    return list;
  }

  std::optional<double> attempt(const Line& line) {
    const auto plan = plan_of(line, stock_);
    if (!plan || passes_ >= most_passes) return std::nullopt;
    for (const Post& post : line.posts) passes_ += stock_.request.global_batch / post.microbatch;
    return refine_.attempt(*plan);
  }

  void climb(Line here) {
    auto value = attempt(here);
    if (!value) return;
    for (bool moved = true; moved;) {
      moved = false;
      const auto before = estimate_(here);
      for (Line& other : moves(here)) {
        if (passes_ >= most_passes) return;
        const auto seconds = estimate_(other);
        if (!seconds || (before && *seconds > *before * promising)) continue;
        const auto reached = attempt(other);
        if (!reached || *reached >= *value) continue;
        here = std::move(other), value = reached, moved = true;
        break;
      }
    }
  }

  static constexpr double never = 1e300;

  LineEstimator estimate_;
  const Stock& stock_;
  const std::vector<int>& microbatches_;
  Refine& refine_;
  std::int64_t passes_ = 0;
  int cuts_left_;
  std::vector<Candidate> best_;
};

}  // namespace

void try_lines(Estimator& estimate, Network& network, const std::vector<int>& microbatches, Refine& refine, const Bench& bench) {
  const Stock& stock = estimate.stock();
  const Restrictions& restrictions = stock.request.restrictions;
  if (bench.runtime().layers || restrictions.equal_replicas || restrictions.even_layers) return;
  if (stock.devices > most_devices || stock.places.size() > most_places || stock.devices < 2) return;
  Lines{estimate, network, microbatches, refine}.run();
}

}  // namespace flotilla::search::pool
