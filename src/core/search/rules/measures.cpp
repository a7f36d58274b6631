#include "measures.hpp"

#include <algorithm>
#include <cmath>

namespace flotilla::search::rules {
namespace {

constexpr std::size_t most_entries = 8;        // of a pool whose places are told apart
constexpr double alone = 2e9, in_group = 3e9;  // what simulate::sailor_memory counts beside the tensors
constexpr double bytes_a_parameter = 24, bytes_an_element = 4;

bool same_curve(const cluster::LinkFit& x, const cluster::LinkFit& y) { return x.a == y.a && x.b == y.b && x.c == y.c; }

void add_once(Fits& fits, const cluster::LinkFit* fit) {
  if (fit && std::ranges::none_of(fits, [&](const auto& known) { return same_curve(known, *fit); })) fits.push_back(*fit);
}

/// Work against time of the stages that a kind can hold, the best for each time.
struct Hold {
  double time, work;
};

std::vector<Hold> holds(const Measures& measures, int kind, int layers) {
  std::vector<Hold> all, best;
  for (int first = 0; first < layers; ++first)
    for (int last = first + 1; last <= layers && measures.fits(kind, first, last, 1); ++last)
      all.push_back({measures.compute(kind, first, last), measures.least_compute(last) - measures.least_compute(first)});
  std::ranges::sort(all, [](const Hold& x, const Hold& y) { return x.time != y.time ? x.time < y.time : x.work > y.work; });
  for (const Hold& hold : all)
    if (best.empty() || hold.work > best.back().work) best.push_back(hold);
  return best;
}

}  // namespace

double message(const Fits& fits, double bytes, int rank) {
  if (static_cast<int>(fits.size()) <= rank) return never;
  if (rank == 0) {
    double least = never;
    for (const auto& fit : fits) least = std::min(least, simulate::sailor_message(fit, bytes).value);
    return least;
  }
  std::vector<double> times;
  for (const auto& fit : fits) times.push_back(simulate::sailor_message(fit, bytes).value);
  std::ranges::nth_element(times, times.begin() + rank);
  return times[static_cast<std::size_t>(rank)];
}

Links::Links(const Problem& p, bool tell_places_apart)
    : kinds{static_cast<int>(p.kinds.size())}, inside(p.groups.size()), across(p.groups.size()) {
  pairs.resize(static_cast<std::size_t>(kinds) * static_cast<std::size_t>(kinds));
  for (int k = 0; k < kinds; ++k)
    for (int o = 0; o < kinds; ++o)
      for (const int e : p.kinds[static_cast<std::size_t>(k)].entries)
        for (const int f : p.kinds[static_cast<std::size_t>(o)].entries)
          add_once(pairs[static_cast<std::size_t>(k * kinds + o)], p.tables.link(p.at(k, e), p.at(o, f)));
  if (tell_places_apart) add_places(p);
  const auto single = [&](std::size_t e, std::size_t f) {
    const auto kind = [&](const Entry& x) { return simulate::SailorKind{p.groups[static_cast<std::size_t>(x.group)].type, x.zone, 1}; };
    return p.tables.single_link(kind(p.entries[e]), kind(p.entries[f]));
  };
  for (std::size_t e = 0; e < p.entries.size(); ++e)
    for (std::size_t f = 0; f < p.entries.size(); ++f) {
      const auto group = static_cast<std::size_t>(p.entries[e].group);
      const cluster::LinkFit* fit = single(e, f);
      if (e == f)
        add_once(inside[group], fit);
      else if (p.entries[e].group != p.entries[f].group)
        add_once(mixed, fit);
      else if (e < f) {
        // Of the two directions a bound may take either; both are there when they differ.
        if (fit) across[group].push_back(*fit);
        const cluster::LinkFit* back = single(f, e);
        if (back && fit && !same_curve(*fit, *back)) across[group].push_back(*back);
      }
    }
}

/// Apart from a type that a zone holds in nodes of two sizes, and from pools of so many entries that it would take long.
void Links::add_places(const Problem& p) {
  by_place = p.entries.size() <= most_entries;
  for (std::size_t e = 0; e < p.entries.size(); ++e)
    for (std::size_t f = 0; f < e; ++f)
      if (p.entries[e].group == p.entries[f].group && p.entries[e].zone == p.entries[f].zone) by_place = false;
  if (!by_place) return;
  for (int k = 0; k < kinds; ++k)
    for (const int e : p.kinds[static_cast<std::size_t>(k)].entries) places.push_back({k, e});
  apart.resize(pairs.size());
  for (const Place& x : places)
    for (const Place& y : places) {
      const auto a = p.at(x.kind, x.entry), b = p.at(y.kind, y.entry);
      const cluster::LinkFit* fit = p.tables.link(a, b);
      direct.push_back(fit ? Fits{*fit} : Fits{});
      if (a.zone != b.zone) add_once(apart[static_cast<std::size_t>(x.kind * kinds + y.kind)], fit);
    }
}

Measures::Measures(const Problem& p, const Links& links, int sequences)
    : m_{sequences}, layers_{p.tables.layers()}, count_{static_cast<int>(p.kinds.size())}, places_{static_cast<int>(links.places.size())} {
  for (const Kind& kind : p.kinds) add_kind(p, kind);
  add_links(p, links);
  work_.assign(at(layers_ + 1), 0);
  for (int l = 0; l < layers_; ++l) {
    double least = never;
    for (int k = 0; k < count_; ++k)
      if (usable(k)) least = std::min(least, compute(k, l, l + 1));
    work_[at(l + 1)] = work_[at(l)] + least;
  }
  add_rates(p);
}

void Measures::add_kind(const Problem& p, const Kind& kind) {
  const Group& group = p.groups[at(kind.group)];
  const int cell = p.tables.cell(group.type, kind.tensor, m_);
  Times t;
  t.usable = cell >= 0;
  t.beside = kind.tensor == 1 ? alone : in_group;
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

bool Measures::fits(int kind, int first, int last, int from_end) const {
  const Times& t = kinds_[at(kind)];
  if (!t.usable) return false;
  const double parameters = t.parameters[at(last)] - t.parameters[at(first)], saved = t.saved[at(last)] - t.saved[at(first)];
  return bytes_a_parameter * parameters + std::floor(bytes_an_element * saved * m_ * from_end) + t.beside <= t.memory;
}

void Measures::add_links(const Problem& p, const Links& links) {
  std::vector<double> sizes;
  for (int l = 0; l < layers_; ++l) {
    const double bytes = p.tables.output_bytes(l) * m_;
    const auto found = std::ranges::find(sizes, bytes);
    class_of_.push_back(static_cast<int>(found - sizes.begin()));
    if (found == sizes.end()) sizes.push_back(bytes);
  }
  classes_ = sizes.size();
  least_link_.assign(classes_, never);
  for (int k = 0; k < count_; ++k)
    for (int o = 0; o < count_; ++o)
      for (std::size_t c = 0; c < classes_; ++c) {
        const double time = usable(k) && usable(o) ? message(links.between(k, o), sizes[c]) : never;
        links_.push_back(time);
        least_link_[c] = std::min(least_link_[c], time);
      }
  const auto all = [&](const std::vector<Fits>& fits, std::vector<double>& times) {
    for (const Fits& between : fits)
      for (std::size_t c = 0; c < classes_; ++c) times.push_back(message(between, sizes[c]));
  };
  all(links.apart, apart_);
  all(links.direct, direct_);
  for (const double time : least_link_) least_sending_ = std::min(least_sending_, time);
}

void Measures::add_rates(const Problem& p) {
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
    const Kind& kind = p.kinds[at(k)];
    const auto& best = all[at(k)];
    std::size_t i = 0;
    for (int j = 0; j < paces(); ++j) {
      while (i < best.size() && best[i].time <= pace(j)) ++i;
      if (i == 0) continue;
      double& rate = rates_[at(kind.group * paces() + j)];
      rate = std::max(rate, best[i - 1].work / kind.tensor);
      prices_[at(j)] = std::min(prices_[at(j)], p.groups[at(kind.group)].price / rate);
    }
  }
}

}  // namespace flotilla::search::rules
