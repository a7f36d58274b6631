#include "measures.hpp"

#include <algorithm>
#include <cmath>

namespace flotilla::search::rules {
namespace {

constexpr int deepest = 30'000;

bool same_curve(const cluster::LinkFit& x, const cluster::LinkFit& y) { return x.a == y.a && x.b == y.b && x.c == y.c; }

/// Work against time of the stages that a kind can hold, the best for each time.
struct Hold {
  double time, work;
};

std::vector<Hold> holds(const Measures& measures, int kind, int layers) {
  std::vector<Hold> all, best;
  for (int first = 0; first < layers; ++first)
    for (int last = first + 1; last <= layers && measures.fits(kind, first, last, 1); ++last)
      all.push_back({measures.time(kind, first, last, false), measures.least_compute(last) - measures.least_compute(first)});
  std::ranges::sort(all, [](const Hold& x, const Hold& y) { return x.time != y.time ? x.time < y.time : x.work > y.work; });
  for (const Hold& hold : all)
    if (best.empty() || hold.work > best.back().work) best.push_back(hold);
  return best;
}

}  // namespace

void add_once(Fits& fits, const cluster::LinkFit* fit) {
  if (fit && std::ranges::none_of(fits, [&](const auto& known) { return same_curve(known, *fit); })) fits.push_back(*fit);
}

double message(const Fits& fits, double bytes) {
  double least = never;
  for (const auto& fit : fits) least = std::min(least, sailor::sailor_message(fit, bytes).value);
  return least;
}

Links::Links(const FormulaProblem& p) : kinds{static_cast<int>(p.kinds.size())} {
  pairs.resize(at(kinds) * at(kinds));
  for (int k = 0; k < kinds; ++k)
    for (int o = 0; o < kinds; ++o)
      for (const int e : p.kinds[at(k)].entries)
        for (const int f : p.kinds[at(o)].entries) add_once(pairs[at(k * kinds + o)], p.tables.link(p.at(k, e), p.at(o, f)));
}

Measures::Measures(const FormulaProblem& p, const Links& links, int sequences)
    : m_{sequences}, layers_{p.tables.layers()}, count_{static_cast<int>(p.kinds.size())}, regions_{p.regions} {
  for (const ReplicaKind& kind : p.kinds) add_kind(p, kind);
  depths_.assign(at(count_) * at(layers_) * at(layers_), 0);
  for (int k = 0; k < count_; ++k) add_depths(k);
  add_links(p, links);
  add_more(p);
  add_times();
  work_.assign(at(layers_ + 1), 0);
  for (int l = 0; l < layers_; ++l) {
    double least = never;
    for (int k = 0; k < count_; ++k)
      if (usable(k)) least = std::min(least, compute(k, l, l + 1)), least_update_ = std::min(least_update_, update(k, l));
    work_[at(l + 1)] = work_[at(l)] + least;
  }
  add_rates(p);
}

void Measures::add_kind(const FormulaProblem& p, const ReplicaKind& kind) {
  const TypeInRegion& group = p.groups[at(kind.group)];
  const int cell = p.tables.cell(group.type, kind.tensor, m_);
  KindTimes t;
  t.usable = cell >= 0;
  t.beside = kind.tensor == 1 ? static_cast<double>(sailor::beside_alone.count) : static_cast<double>(sailor::beside_in_group.count);
  t.memory = group.memory;
  for (int l = 0; t.usable && l <= layers_; ++l) {
    t.compute.push_back(p.tables.forward(cell, 0, l).value + p.tables.backward(cell, 0, l).value);
    const auto held = *p.tables.held(kind.tensor, 0, l);
    t.parameters.push_back(held.parameters);
    t.saved.push_back(held.saved);
    if (l < layers_) t.update.push_back(p.tables.update(cell, l).value);
  }
  kinds_.push_back(std::move(t));
}

/// As sailor::sailor_memory counts, in whole bytes of activations.
void Measures::add_depths(int kind) {
  const KindTimes& t = kinds_[at(kind)];
  if (!t.usable) return;
  for (int first = 0; first < layers_; ++first)
    for (int last = first + 1; last <= layers_; ++last) {
      const double parameters = t.parameters[at(last)] - t.parameters[at(first)], saved = t.saved[at(last)] - t.saved[at(first)];
      const double room = t.memory - t.beside - sailor::bytes_a_parameter * parameters, each = sailor::bytes_an_activation * saved * m_;
      const auto fits_so_deep = [&](int depth) { return std::floor(each * depth) <= room; };
      int depth = room < 0 ? 0 : static_cast<int>(std::min(room / std::max(each, 1.0), double{deepest}));
      while (depth > 0 && !fits_so_deep(depth)) --depth;
      while (depth < deepest && fits_so_deep(depth + 1)) ++depth;
      if (depth == 0) break;
      depths_[range(kind, first, last)] = static_cast<std::int16_t>(depth);
    }
}

void Measures::add_times() {
  times_.assign(depths_.size(), never);
  for (int k = 0; k < count_; ++k)
    for (int first = 0; first < layers_; ++first)
      for (int last = first + 1; last <= layers_ && fits(k, first, last, 1); ++last) {
        const double up = last < layers_ ? least_link(k, last - 1) : 0, down = first > 0 ? least_link(k, first) : 0;
        times_[range(k, first, last)] = compute(k, first, last) + up + (last == layers_ ? 2 : 1) * down;
      }
}

void Measures::add_links(const FormulaProblem& p, const Links& links) {
  std::vector<double> sizes;
  for (int l = 0; l < layers_; ++l) {
    const double bytes = p.tables.output_bytes(l) * m_;
    const auto found = std::ranges::find(sizes, bytes);
    class_of_.push_back(static_cast<int>(found - sizes.begin()));
    if (found == sizes.end()) sizes.push_back(bytes);
  }
  classes_ = sizes.size();
  least_links_.assign(at(count_) * classes_, never);
  out_ = least_links_;
  into_.assign(least_links_.size() * at(regions_), never);
  const auto lower = [](double& least, double time) { least = std::min(least, time); };
  for (int k = 0; k < count_; ++k)
    for (int o = 0; o < count_; ++o)
      for (std::size_t c = 0; c < classes_; ++c) {
        const double time = usable(k) && usable(o) ? message(links.between(k, o), sizes[c]) : never;
        links_.push_back(time);
        const int here = p.groups[at(p.kinds[at(k)].group)].region, there = p.groups[at(p.kinds[at(o)].group)].region;
        lower(least_links_[at(k) * classes_ + c], time);
        lower(into_[at(k * regions_ + there) * classes_ + c], time);
        if (here != there) lower(out_[at(k) * classes_ + c], time);
      }
}

void Measures::add_more(const FormulaProblem& p) {
  const int sides = regions_ + 1;
  more_.assign(at(sides) * at(sides) * classes_, 0);
  for (int side = 0; side < sides && regions_ > 1; ++side)
    for (int other = 0; other < sides; ++other)
      for (std::size_t c = 0; c < classes_ && side != other; ++c) {
        double least = never;
        for (int k = 0; k < count_; ++k) {
          if (!usable(k) || (side < regions_ && p.groups[at(p.kinds[at(k)].group)].region != side)) continue;
          const bool out = side == regions_ || other == regions_;
          const double far = out ? out_[at(k) * classes_ + c] : into_[at(k * regions_ + other) * classes_ + c];
          least = std::min(least, far - least_links_[at(k) * classes_ + c]);
        }
        more_[at(side * sides + other) * classes_ + c] = least < never ? std::max(0.0, least) : 0;
      }
}

void Measures::add_rates(const FormulaProblem& p) {
  std::vector<std::vector<Hold>> all;
  for (int k = 0; k < count_; ++k) {
    all.push_back(holds(*this, k, layers_));
    for (const Hold& hold : all.back()) paces_.push_back(hold.time);
  }
  std::ranges::sort(paces_);
  paces_.erase(std::unique(paces_.begin(), paces_.end()), paces_.end());
  rates_.assign(p.groups.size() * paces_.size(), 0);
  prices_.assign(paces_.size(), never);
  for (int k = 0; k < count_; ++k) {
    const ReplicaKind& kind = p.kinds[at(k)];
    const auto& best = all[at(k)];
    std::size_t i = 0;
    for (int j = 0; j < paces(); ++j) {
      while (i < best.size() && best[i].time <= pace(j)) ++i;
      if (i == 0) continue;
      double& rate = rates_[at(kind.group * paces() + j)];
      rate = std::max(rate, best[i - 1].work / kind.tensor);
      prices_[at(j)] = std::min(prices_[at(j)], rate > 0 ? p.groups[at(kind.group)].price / rate : 0);
    }
  }
}

}  // namespace flotilla::search::rules
