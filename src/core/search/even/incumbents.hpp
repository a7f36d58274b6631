#pragma once
#include <optional>
#include <vector>

#include "../evaluated.hpp"
#include "configuration.hpp"

namespace flotilla::search::even {

/// Forecasts a bound plan. Throws what the forecaster throws.
Evaluated evaluate(const Problem&, plan::Plan);

/// Two plans that people would call the same but for their layer cuts and placement: equally many stages, and in each of them equally many
/// replicas of the same tensor degrees and the same largest microbatch.
bool same_shape(const plan::Plan&, const plan::Plan&);

/// The best plan so far, the next best of other shapes, and the nearest miss.
class Incumbents {
 public:
  explicit Incumbents(int alternatives) : kept_{static_cast<std::size_t>(alternatives) + 1} {}
  void offer(Evaluated);
  const Evaluated* best() const { return fitting_.empty() ? nullptr : &fitting_.front(); }
  const std::vector<Evaluated>& fitting() const { return fitting_; }  ///< best first, one of each shape
  const std::vector<Evaluated>& missing() const { return missing_; }  ///< fastest first, one of each shape, all too large
  const std::optional<Evaluated>& nearest() const { return nearest_; }
  bool full() const { return fitting_.size() >= kept_; }

 private:
  void insert(std::vector<Evaluated>&, const Evaluated&) const;
  std::size_t kept_;
  std::vector<Evaluated> fitting_, missing_;
  std::optional<Evaluated> nearest_;
};

}  // namespace flotilla::search::even
