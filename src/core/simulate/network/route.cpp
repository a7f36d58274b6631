#include "route.hpp"

#include <algorithm>
#include <cmath>

namespace flotilla::simulate {
namespace {

constexpr double smallest_fitted = 65536, largest_fitted = 1073741824;  // bytes (cluster::LinkFit)
constexpr double least_share = 0.02;  // of the highest rate: quadratics fall below zero at their small end

enum class Match { none, types, turned, exact };

Match match(const cluster::LinkFit& fit, const cluster::Device& a, const cluster::Device& b) {
  const bool types = fit.from_type == a.type && fit.to_type == b.type, turned = fit.from_type == b.type && fit.to_type == a.type;
  if (a.host == b.host) return fit.inside_node() && types ? Match::exact : Match::none;
  if (fit.inside_node()) return Match::none;
  if (types && fit.from_zone == a.zone && fit.to_zone == b.zone) return Match::exact;
  if (turned && fit.from_zone == b.zone && fit.to_zone == a.zone) return Match::turned;
  const bool one_zone = fit.from_zone == fit.to_zone && a.zone == b.zone;
  return (types || turned) && one_zone ? Match::types : Match::none;
}

/// The best of those that are added.
class BestFits {
 public:
  BestFits(const cluster::Device& a, const cluster::Device& b) : a_{a}, b_{b} {}
  void add(const cluster::LinkFit& fit) {
    const Match here = fit.from_count == fit.to_count ? match(fit, a_, b_) : Match::none;
    if (here == Match::none || here < best_) return;
    if (here > best_) found_.clear();
    best_ = here;
    const auto known = std::ranges::find(found_, fit.from_count, &cluster::LinkFit::from_count);
    if (known == found_.end()) found_.push_back(&fit);
  }
  std::vector<const cluster::LinkFit*> by_count() {
    std::ranges::sort(found_, {}, &cluster::LinkFit::from_count);
    return std::move(found_);
  }

 private:
  const cluster::Device &a_, &b_;
  Match best_ = Match::none;
  std::vector<const cluster::LinkFit*> found_;
};

}  // namespace

FitsByTypes::Ends FitsByTypes::ends_of(const std::string& a, const std::string& b, bool inside_node) {
  return a < b ? Ends{a, b, inside_node} : Ends{b, a, inside_node};
}

FitsByTypes::FitsByTypes(const cluster::Profile& profile) {
  for (const auto& fit : profile.link_fits) {
    auto& of_types = fits_[ends_of(fit.from_type, fit.to_type, fit.inside_node())];
    if (of_types.empty()) named_.insert({fit.from_type, fit.to_type});
    of_types.push_back(&fit);
  }
  for (const auto& link : profile.links) named_.insert({link.from, link.to});
  for (const auto& type : profile.device_types)
    if (type.to_device.known() || type.to_host.known()) named_.insert(type.name);
}

std::vector<const cluster::LinkFit*> FitsByTypes::between(const cluster::Device& a, const cluster::Device& b) const {
  BestFits best{a, b};
  const auto of_types = fits_.find(ends_of(a.type, b.type, a.host == b.host));
  if (of_types == fits_.end()) return {};
  for (const auto* fit : of_types->second) best.add(*fit);
  return best.by_count();
}

Seconds fitted_time(const cluster::LinkFit& fit, Bytes size, int flows) {
  const double bytes = std::max(static_cast<double>(size.count), smallest_fitted);
  const double x = std::log2(std::min(bytes, largest_fitted) / 1e6);
  const double together = std::clamp(1e9 * ((fit.a * x + fit.b) * x + fit.c), least_share * fit.most.value, fit.most.value);
  return {bytes * std::max(flows, fit.from_count) / together};
}

Seconds Route::time(Bytes size, const Flows& flows) const {
  const Seconds over = over_cards(size, flows.cards);
  return passes_uplinks() ? std::max(over, over_uplinks(size, flows)) : over;
}

/// An uplink that is slower than the link counts as the link, which was measured over it.
Seconds Route::over_uplinks(Bytes size, const Flows& flows) const {
  const Seconds latency = over_cards({0}, 1), alone = over_cards(size, 1) - latency;
  Seconds slowest;
  if (out.value > 0) slowest = static_cast<double>(flows.out) * std::min(size / out, alone);
  if (in.value > 0) slowest = std::max(slowest, static_cast<double>(flows.in) * std::min(size / in, alone));
  return latency + slowest;
}

Seconds Route::over_cards(Bytes size, int flows) const {
  if (!fits.empty()) {
    const auto enough = std::ranges::find_if(fits, [&](const auto* fit) { return fit->from_count >= flows; });
    return fitted_time(enough == fits.end() ? *fits.back() : **enough, size, flows);
  }
  const Seconds latency = cluster::transfer_time(*link, {0});
  return shared(sustained(link->pieces, cluster::transfer_time(*link, size), latency, size), latency, flows);
}

Seconds Route::sum_time(Bytes size, int flows) const {
  const Seconds latency = cluster::sum_time(*link, {0});
  return shared(sustained(link->sum_pieces, cluster::sum_time(*link, size), latency, size), latency, flows);
}

/// Shaped lines let single small messages through far faster than many in a row.
Seconds Route::sustained(const std::vector<cluster::LinkPiece>& pieces, Seconds alone, Seconds latency, Bytes size) const {
  return passes_uplinks() ? std::max(alone, latency + size / pieces.back().bandwidth) : alone;
}

Seconds Route::shared(Seconds alone, Seconds latency, int flows) const {
  const double share = static_cast<double>(flows) / std::max(1, link->lanes);
  if (inside_host || share <= 1) return alone;
  latency = std::min(alone, latency);
  return latency + share * (alone - latency);
}

double Route::relative_scatter() const { return link ? link->relative_scatter : 0; }
int Route::lanes() const { return link ? std::max(1, link->lanes) : std::max(1, fits.back()->from_count); }

}  // namespace flotilla::simulate
