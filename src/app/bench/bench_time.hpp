#pragma once
#include <string>
#include <vector>

#include "app/bench/bench_options.hpp"
#include "flotilla/base/time_shares.hpp"

namespace flotilla::app {

/// A part of the command: what it weighs in the wall time, and what it takes at least on a common machine.
struct BenchPart {
  std::string name;
  double weight = 1;
  Seconds least{};
};
/// In their order: a node by itself, links, collectives, the profile, so many models of the card.
std::vector<BenchPart> bench_parts(const BenchOptions&, std::size_t models);

/// `--budget` as the wall time of the command, from its start, the launcher's included: what each part may take of it. The soak's length
/// comes on top.
class BenchTime {
 public:
  BenchTime(const BenchOptions&, std::size_t models, Seconds began, TimeShares::Clock clock = now);
  /// Of the next part, by what those before it left.
  Seconds next();
  /// All that follows begins so much later.
  void soaked(Seconds length);
  /// The launcher will end so much after this program.
  void ends_later(Seconds);
  /// A line for the start: the parts take longer at least than the budget; "" where they fit.
  std::string too_short() const;
  /// A line for the end: how long the command has taken, and the parts that took more than they should; "" within 20 %.
  std::string overdrawn();

 private:
  void close();
  TimeShares rest(Seconds end) const;

  std::vector<BenchPart> parts_;
  Seconds budget_, began_, reserve_;
  TimeShares::Clock clock_;
  std::size_t part_ = 0;  ///< the next one
  TimeShares shares_;     ///< of the parts from that one on
  Seconds soaked_{}, part_began_{}, share_{};
  std::vector<std::string> longer_;
};

}  // namespace flotilla::app
