#pragma once
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "flotilla/cluster/cluster.hpp"

namespace flotilla::probe {

/// Pairs of ranks that send at once to see what a zone's hosts share on the way to other zones. The first of a pair stands in
/// the zone, the second in another; no host stands in two pairs.
struct PairSet {
  std::vector<std::string> zones;  ///< whose uplink it shows; both where there are two zones
  std::vector<std::pair<Rank, Rank>> pairs;
  bool operator==(const PairSet&) const = default;
};

/// Of every zone with hosts enough for two pairs or more, the other zones' hosts in turns; of 16 zones at most.
std::vector<PairSet> pair_sets(const std::vector<cluster::Device>&);

/// How one is measured.
struct Pace {
  Bytes size;        ///< of a message
  int messages = 1;  ///< one after the other
  int pairs = 2;     ///< of the convoy: the first so many
  int alone = 2;     ///< of these, that are measured by themselves as well
  int rounds = 2;
  bool operator==(const Pace&) const = default;
};
inline constexpr Bytes pilot_size{512 << 10};  ///< networks let smaller bursts through faster than they are (ping_pong.hpp)

/// For a convoy whose first pair took so long for one message of pilot_size: as many pairs and rounds as the budget takes if they
/// hold each other up, two at least.
Pace pace_of(Seconds pilot, std::size_t pairs, Seconds budget);

/// Bytes a second of pairs by themselves, one after the other, and of all at once.
struct PairSetRound {
  std::vector<double> alone, together;
};

/// What the pairs move together, where that is clearly less than what they would if they did not hold each other up.
std::optional<BytesPerSecond> shared_rate(const std::vector<PairSetRound>&);

}  // namespace flotilla::probe
