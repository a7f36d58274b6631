#pragma once
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "migration_shares.hpp"

namespace flotilla::program {

/// Whom a rank asks for what it lacks, of several that have it: those of its own node first, then those of its zone; of equals who has the
/// least to send so far.
class TransferSources {
 public:
  TransferSources(const plan::Plan& from, const plan::Plan& to, const RankLocations& placement);

  /// Takes all of `missing` from `holders`, among which it is in one place at least: calls take(holder, as it lies here, there). What the
  /// rank has itself it takes first.
  using Take = std::function<void(const RankHolding& holder, const Rectangle& here, const Rectangle& there)>;
  void fill(std::vector<Rectangle> missing, Rank rank, const std::vector<RankHolding>& holders, Bytes each_element, const Take& take);

 private:
  int distance(Rank holder, Rank rank) const;
  std::int64_t sent(Rank rank) const { return rank.index() < sent_.size() ? sent_[rank.index()] : 0; }
  void send(Rank rank, std::int64_t bytes);

  const RankLocations& placement_;
  std::map<Rank, std::string> old_zones_, new_zones_;
  std::vector<std::int64_t> sent_;  ///< bytes to others, by rank
};

}  // namespace flotilla::program
