#pragma once
#include "zone_assigner.hpp"

namespace flotilla::search::rules {

/// The best plans so far, each another one.
class BestPlans {
 public:
  explicit BestPlans(int alternatives) : most_{at(alternatives) + 1} {}
  /// True when it is the best of all.
  bool add(const FormulaPlan&);
  double value() const { return plans_.empty() ? never : plans_.front().value; }
  const std::vector<FormulaPlan>& plans() const { return plans_; }

 private:
  std::size_t most_;
  std::vector<FormulaPlan> plans_;
};

}  // namespace flotilla::search::rules
