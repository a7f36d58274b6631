#include "line.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace flotilla::search::pool {
namespace {

constexpr double doubt = 0.02;  // of the memory: the forecast decides what is nearly too much
constexpr int halvings = 12;

/// Quanta of each of `count` replicas.
std::vector<int> shares(int quanta, int count) {
  std::vector<int> out(at(count), quanta / count);
  for (int i = 0; i < quanta % count; ++i) ++out[at(i)];
  return out;
}

}  // namespace

std::optional<plan::Plan> plan_of(const Line& line, const Stock& stock) {
  const PoolRequest& request = stock.request;
  plan::Plan plan = plan_without_stages(request);
  plan.quantum = request.global_batch;
  for (const Post& post : line.posts) plan.quantum = std::gcd(plan.quantum, post.microbatch);
  const int quanta = request.global_batch / plan.quantum;
  for (std::size_t s = 0; s < line.posts.size(); ++s) {
    const Post& post = line.posts[s];
    if (post.count > quanta) return std::nullopt;
    const Place& place = stock.places[at(post.place)];
    plan::Stage stage{line.cuts[s], line.cuts[s + 1], line.recompute[s], {}};
    for (const int share : shares(quanta, post.count))
      stage.replicas.push_back(
          {stock.types[at(place.type)].name, place.zone, post.tensor, {}, post.microbatch / plan.quantum, share * plan.quantum});
    plan.stages.push_back(std::move(stage));
  }
  return plan;
}

const Sounding& LineEstimator::sounding(const Post& post, plan::Recompute recompute) {
  return estimate_.soundings().of(stock_.places[at(post.place)].type, post.tensor, post.microbatch, recompute);
}

/// The part of the batch that all replicas of a stage take at once.
double LineEstimator::share_of_turn(const Post& post) const {
  return std::min(1.0, static_cast<double>(post.count) * post.microbatch / stock_.request.global_batch);
}

/// As program::orders_by_clock gives depths.
std::vector<int> LineEstimator::in_flight(const Line& line) const {
  std::vector<int> kept(line.posts.size(), 1);
  double below = 0, next = 0;
  for (std::size_t s = line.posts.size(); s-- > 0;) {
    const double own = share_of_turn(line.posts[s]);
    below += own + (s + 1 < line.posts.size() ? std::max(0.0, next - own) : 0);
    const int microbatches = static_cast<int>(std::ceil(1 / own - 1e-9));
    kept[s] = std::clamp(static_cast<int>(std::ceil(below * microbatches - 1e-6)), 1, microbatches);
    next = own;
  }
  return kept;
}

bool LineEstimator::fits(const Line& line, std::size_t stage, int first, int last, plan::Recompute recompute, int kept) {
  const Post& post = line.posts[stage];
  const auto limit = static_cast<double>(stock_.types[at(stock_.places[at(post.place)].type)].memory.count);
  return limit <= 0 || estimate_.memory(sounding(post, recompute), first, last, kept, post.count) * (1 - doubt) <= limit;
}

/// Seconds for the whole batch, if the stage never waited.
double LineEstimator::pace(const Post& post, int first, int last, plan::Recompute recompute) {
  return estimate_.pass(sounding(post, recompute), first, last) / share_of_turn(post);
}

/// From the first stage on as many layers as the pace and the memory allow; whether all are taken.
bool LineEstimator::fill(Line& line, double most) {
  const int layers = stock_.request.model.layers(), stages = static_cast<int>(line.posts.size());
  const auto kept = in_flight(line);
  line.cuts.assign(1, 0);
  line.recompute.clear();
  for (int s = 0; s < stages; ++s) {
    const int first = line.cuts.back(), end = layers - (stages - 1 - s);
    int best = first;
    plan::Recompute how = plan::Recompute::none;
    for (const auto recompute : {plan::Recompute::none, plan::Recompute::full}) {
      if (!sounding(line.posts[at(s)], recompute).usable) continue;
      int last = first;
      while (last < end && pace(line.posts[at(s)], first, last + 1, recompute) <= most &&
             fits(line, at(s), first, last + 1, recompute, kept[at(s)]))
        ++last;
      if (last > best) best = last, how = recompute;
    }
    if (best == first || (s + 1 == stages && best < layers)) return false;
    line.cuts.push_back(best);
    line.recompute.push_back(how);
  }
  return true;
}

std::optional<double> LineEstimator::cut(Line& line) {
  if (line.posts.empty()) return std::nullopt;
  const int layers = stock_.request.model.layers();
  double high = 0, low = 0;
  for (const Post& post : line.posts) {
    if (!sounding(post, plan::Recompute::none).usable) return std::nullopt;
    high = std::max(high, 2 * pace(post, 0, layers, plan::Recompute::full));
  }
  Line best = line;
  if (!fill(best, high)) return std::nullopt;
  for (int i = 0; i < halvings && high - low > 1e-3 * high; ++i) {
    const double middle = (low + high) / 2;
    Line other = line;
    if (fill(other, middle))
      high = middle, best = std::move(other);
    else
      low = middle;
  }
  line = std::move(best);
  return (*this)(line);
}

double LineEstimator::floor(const std::vector<Post>& posts) {
  double rate = 0;  // batches a second of all stages together, each with all layers
  for (const Post& post : posts)
    if (sounding(post, plan::Recompute::none).usable) rate += 1 / pace(post, 0, stock_.request.model.layers(), plan::Recompute::none);
  return rate > 0 ? 1 / rate : 0;
}

/// Sums of a stage's gradients and its optimizer.
double LineEstimator::after(const Line& line, std::size_t stage) {
  const Post& post = line.posts[stage];
  const int first = line.cuts[stage], last = line.cuts[stage + 1], layers = stock_.request.model.layers();
  const int blocks = std::min(last, layers - 1) - std::max(first, 1);
  const Sounding& s = sounding(post, line.recompute[stage]);
  const auto of = [&](double embedding, double block, double head) {
    return (first == 0 ? embedding : 0) + blocks * block + (last == layers ? head : 0);
  };
  // The network knows sums over the columns of a sketch: one whose every stage is this one.
  const Sketch alike{
      line.cuts, line.recompute, {{std::vector<Slot>(line.posts.size(), {post.place, post.tensor}), post.microbatch, post.count}}};
  const auto& sums = network_.sums(alike, static_cast<int>(stage), std::vector<int>(line.posts.size(), 0));
  const double all = of(sums.embedding, sums.block, sums.head), pass = estimate_.pass(s, first, last);
  const double hidden = std::min(0.6 * pass, all - (first == 0 ? sums.embedding : std::min(all, sums.block)));
  return all - std::max(0.0, hidden) + of(s.embedding.update, s.block.update, s.head.update);
}

std::optional<double> LineEstimator::operator()(const Line& line) {
  const auto kept = in_flight(line);
  double slowest = 0, way = 0, turn = 0, last = 0;
  for (std::size_t s = 0; s < line.posts.size(); ++s) {
    const Post& post = line.posts[s];
    if (!sounding(post, line.recompute[s]).usable) return std::nullopt;
    if (!fits(line, s, line.cuts[s], line.cuts[s + 1], line.recompute[s], kept[s])) return std::nullopt;
    const double pass = estimate_.pass(sounding(post, line.recompute[s]), line.cuts[s], line.cuts[s + 1]);
    double behind = 0;
    if (s + 1 < line.posts.size()) {
      const Post& next = line.posts[s + 1];
      const Slot here{post.place, post.tensor}, there{next.place, next.tensor};
      const int microbatch = std::min(post.microbatch, next.microbatch);
      behind = network_.message({here.place, there.place, false, estimate_.flows(here, post.count), estimate_.pieces(here)}, microbatch) +
               network_.message({there.place, here.place, false, estimate_.flows(there, next.count), estimate_.pieces(there)}, microbatch);
    }
    const double whole = std::max(pass, behind / 2) / share_of_turn(post);
    if (whole > slowest) slowest = whole, turn = std::max(pass, behind / 2);
    way += pass + behind;
    last = std::max(last, after(line, s));
  }
  return slowest + std::max(0.0, way - turn) + last;
}

}  // namespace flotilla::search::pool
