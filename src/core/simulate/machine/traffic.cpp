#include "traffic.hpp"

#include <algorithm>
#include <utility>

namespace flotilla::simulate {

Traffic::Traffic(const Wires& wires) : wires_{wires}, wanted_(wires.wires(), 0.0), on_wire_(wires.wires()), moves_(wires.users()) {}

void Traffic::begin(int user, double at, double seconds) {
  Flow& move = moves_[static_cast<std::size_t>(user)];
  move = {seconds, 0, at, std::numeric_limits<double>::infinity(), moving_.size()};
  moving_.push_back(user);
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
  if (first_ == user)
    first_ = nobody;
  else if (first_ != nobody && ends_before(user, first_))
    first_ = user;
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

bool Traffic::ends_before(int user, int other) const {
  const double end = moves_[static_cast<std::size_t>(user)].end, other_end = moves_[static_cast<std::size_t>(other)].end;
  return end != other_end ? end < other_end : user < other;
}

double Traffic::next_end() {
  if (first_ == nobody)
    for (const int user : moving_)
      if (first_ == nobody || ends_before(user, first_)) first_ = user;
  return first_ == nobody ? std::numeric_limits<double>::infinity() : moves_[static_cast<std::size_t>(first_)].end;
}

int Traffic::end_next() {
  const double at = next_end();
  const int user = std::exchange(first_, nobody);
  const std::size_t place = moves_[static_cast<std::size_t>(user)].place;
  moving_[place] = moving_.back();
  moves_[static_cast<std::size_t>(moving_[place])].place = place;
  moving_.pop_back();
  for (const auto& load : wires_.loads(user))
    if (load.own) std::erase(on_wire_[static_cast<std::size_t>(load.wire)], user);
  load_wires(user, at, -1);
  return user;
}

}  // namespace flotilla::simulate
