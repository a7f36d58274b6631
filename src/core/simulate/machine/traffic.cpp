#include "traffic.hpp"

#include <algorithm>
#include <functional>

namespace flotilla::simulate {

Traffic::Traffic(const Wires& wires) : wires_{wires}, wanted_(wires.wires(), 0.0), on_wire_(wires.wires()), moves_(wires.users()) {}

void Traffic::begin(int user, double at, double seconds) {
  Flow& move = moves_[static_cast<std::size_t>(user)];
  move.left = seconds;
  move.rate = 0;
  move.since = at;
  for (const auto& load : wires_.loads(user))
    if (load.own) on_wire_[static_cast<std::size_t>(load.wire)].push_back(user);
  load_wires(user, at, 1);
}

/// Adds or takes away what a user wants of its wires, and gives all who move there their new rates.
void Traffic::load_wires(int user, double at, double sign) {
  for (const auto& load : wires_.loads(user)) wanted_[static_cast<std::size_t>(load.wire)] += sign * load.share;
  for (const auto& load : wires_.loads(user))
    for (int other : on_wire_[static_cast<std::size_t>(load.wire)]) settle(other, at);
}

void Traffic::settle(int user, double at) {
  Flow& move = moves_[static_cast<std::size_t>(user)];
  const double rate = rate_of(user);
  if (rate == move.rate) return;
  move.left = std::max(0.0, move.left - (at - move.since) * move.rate);
  move.since = at;
  move.rate = rate;
  move.end = at + move.left / rate;
  heap_.push_back({move.end, user, ++move.version});
  std::ranges::push_heap(heap_, std::greater<>{});
}

/// Of what it would be if only the user's own flows were on the wires.
double Traffic::rate_of(int user) const {
  double rate = 1;
  for (const auto& load : wires_.loads(user)) {
    const double wanted = wanted_[static_cast<std::size_t>(load.wire)];
    if (load.own && wanted > wires_.slowdown(user)) rate = std::min(rate, wires_.slowdown(user) / wanted);
  }
  return rate;
}

double Traffic::next_end() {
  while (!heap_.empty() && heap_.front().version != moves_[static_cast<std::size_t>(heap_.front().user)].version) {
    std::ranges::pop_heap(heap_, std::greater<>{});
    heap_.pop_back();
  }
  return heap_.empty() ? std::numeric_limits<double>::infinity() : heap_.front().end;
}

int Traffic::end_next() {
  const double at = next_end();
  const int user = heap_.front().user;
  ++moves_[static_cast<std::size_t>(user)].version;
  for (const auto& load : wires_.loads(user))
    if (load.own) std::erase(on_wire_[static_cast<std::size_t>(load.wire)], user);
  load_wires(user, at, -1);
  return user;
}

}  // namespace flotilla::simulate
