#include "flotilla/cluster/corrections.hpp"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "flotilla/base/error.hpp"

namespace flotilla::cluster {
namespace {

using FigureKind = Correction::Figure;

const char* where(LinkLevel level) {
  switch (level) {
    case LinkLevel::node: return "within a host";
    case LinkLevel::zone: return "between hosts";
    case LinkLevel::wide: break;
  }
  return "between zones";
}

double token_count(int sequences, int length) { return static_cast<double>(sequences) * length; }

/// The degree first, then the tokens.
auto distance(const OperationTime& time, const Correction& c) {
  return std::tuple{std::abs(std::log2(static_cast<double>(time.tensor_parallel) / c.tensor_parallel)),
                    std::abs(std::log(token_count(time.sequences, time.length) / token_count(c.sequences, c.length)))};
}

bool is_of(const OperationTime& time, const Correction& c) {
  return c.figure == FigureKind::operation && time.device_type == c.device_type && time.operation == c.operation &&
         time.precision == c.precision;
}

const Correction* nearest(const OperationTime& time, std::span<const Correction> corrections) {
  const Correction* best = nullptr;
  for (const auto& c : corrections)
    if (is_of(time, c) && (best == nullptr || distance(time, c) < distance(time, *best))) best = &c;
  return best;
}

void correct_operations(Profile& profile, std::span<const Correction> corrections) {
  std::vector<OperationTime> added;
  for (const auto& c : corrections) {
    const auto known = [&](const OperationTime& time) { return is_of(time, c); };
    if (c.figure == FigureKind::operation && !c.inferred && std::ranges::none_of(profile.operation_times, known))
      added.push_back({c.device_type, c.operation, c.tensor_parallel, c.sequences, c.length, c.precision, c.now, c.upper - c.lower});
  }
  for (auto& time : profile.operation_times)
    if (const auto* c = nearest(time, corrections)) {
      time.time = time.time * c->factor();
      time.relative_scatter = std::max(time.relative_scatter, (c->upper - c->lower) / c->factor());
    }
  profile.operation_times.insert(profile.operation_times.end(), added.begin(), added.end());
}

void scale(std::vector<LinkPiece>& pieces, double factor) {
  for (auto& piece : pieces) {
    piece.latency = piece.latency * factor;
    piece.bandwidth.value /= factor;
  }
}

const Correction* find(std::span<const Correction> corrections, FigureKind figure, LinkLevel level) {
  const auto found = std::ranges::find_if(corrections, [&](const auto& c) { return c.figure == figure && c.level == level; });
  return found == corrections.end() ? nullptr : &*found;
}

void correct_link(Link& link, std::span<const Correction> corrections) {
  const auto* messages = find(corrections, FigureKind::messages, link.level);
  const auto* sums = find(corrections, FigureKind::sums, link.level);
  if (sums != nullptr && !link.sum_pieces.empty()) scale(link.sum_pieces, sums->factor());
  if (messages == nullptr && link.sum_pieces.empty()) messages = sums;
  if (messages == nullptr) return;
  scale(link.pieces, messages->factor());
  link.relative_scatter = std::max(link.relative_scatter, (messages->upper - messages->lower) / messages->factor());
}

}  // namespace

std::string name_of(const Correction& c) {
  if (c.figure == FigureKind::operation) return text(c.operation, " on ", c.device_type);
  return text(c.figure == FigureKind::messages ? "messages " : "all-reduces ", where(c.level));
}

bool same_figure(const Correction& a, const Correction& b) {
  if (a.figure != b.figure) return false;
  if (a.figure != FigureKind::operation) return a.level == b.level;
  return std::tie(a.device_type, a.operation, a.tensor_parallel, a.sequences, a.length, a.precision) ==
         std::tie(b.device_type, b.operation, b.tensor_parallel, b.sequences, b.length, b.precision);
}

Profile corrected(Profile profile, std::span<const Correction> corrections) {
  correct_operations(profile, corrections);
  for (auto& link : profile.links) correct_link(link, corrections);
  return profile;
}

std::vector<Correction> merged(std::vector<Correction> earlier, std::span<const Correction> later) {
  std::erase_if(earlier, [&](const auto& old) { return std::ranges::any_of(later, [&](const auto& c) { return same_figure(old, c); }); });
  earlier.insert(earlier.end(), later.begin(), later.end());
  return earlier;
}

}  // namespace flotilla::cluster
