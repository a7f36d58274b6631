#include "app/bench/bench_time.hpp"

#include <utility>

#include "flotilla/base/text.hpp"

namespace flotilla::app {
namespace {

constexpr double tolerance = 0.2;
constexpr Seconds end_of_the_program{0.1}, end_of_mpi{0.2};  // as measured: docs/measurements/bench.md

}  // namespace

std::vector<BenchPart> bench_parts(const BenchOptions& o, std::size_t models) {
  const bool nodes = o.wants(stage::nodes);
  std::vector<BenchPart> parts{{"each node by itself", nodes ? 4.0 : 0.5, Seconds{nodes ? 2.0 : 0.5}}};
  if (o.wants(stage::links))
    parts.push_back({"links", 4, Seconds{0.5} * static_cast<double>(2 + o.transports.size())});  // beside UCX's choice and MPI
  if (o.wants(stage::collectives)) parts.push_back({"collectives", 1, Seconds{0.5}});
  if (!o.profile.empty()) parts.push_back({"the profile", 4, Seconds{2}});
  if (models > 0) parts.push_back({"the card", 4 * static_cast<double>(models), Seconds{3} * static_cast<double>(models)});
  return parts;
}

BenchTime::BenchTime(const BenchOptions& o, std::size_t models, Seconds began, TimeShares::Clock clock)
    : parts_{bench_parts(o, models)},
      budget_{o.budget},
      began_{began},
      reserve_{end_of_the_program + (parts_.size() > 1 ? end_of_mpi : Seconds{})},
      clock_{std::move(clock)},
      shares_{rest(began + o.budget - reserve_)} {}

TimeShares BenchTime::rest(Seconds end) const {
  std::vector<double> weights;
  for (std::size_t p = part_; p < parts_.size(); ++p) weights.push_back(parts_[p].weight);
  return {end, std::move(weights), clock_};
}

Seconds BenchTime::next() {
  close();
  ++part_;
  part_began_ = clock_();
  return share_ = shares_.next();
}

void BenchTime::soaked(Seconds length) {
  close();
  share_ = {};
  soaked_ = length;
  shares_ = rest(began_ + budget_ + soaked_ - reserve_);
}

void BenchTime::ends_later(Seconds launcher) {
  reserve_ += launcher;
  shares_ = rest(began_ + budget_ + soaked_ - reserve_);
}

/// Notes the part that is over, if it has taken more than its share by more than the tolerance.
void BenchTime::close() {
  if (share_.value <= 0) return;
  const Seconds took = clock_() - part_began_;
  if (took > share_ * (1 + tolerance)) longer_.push_back(text(parts_[part_ - 1].name, " ", took, " of ", share_));
}

std::string BenchTime::too_short() const {
  Seconds least = reserve_;
  std::string all;
  for (const auto& part : parts_) {
    least += part.least;
    all += text(all.empty() ? "" : ", ", part.name, " ", part.least);
  }
  if (least <= budget_) return {};
  return text("--budget ", budget_, " is less than the ", least, " or so that this takes at least (", all,
              "); what can be left out is left out, and named");
}

std::string BenchTime::overdrawn() {
  close();
  share_ = {};
  const Seconds took = clock_() - began_ - soaked_;
  if (took <= budget_ * (1 + tolerance)) return {};
  std::string all;
  for (const auto& one : longer_) all += text(all.empty() ? ": " : ", ", one);
  return text("took ", took, " of a budget of ", budget_, all);
}

}  // namespace flotilla::app
