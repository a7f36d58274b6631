#pragma once
#include "realise.hpp"

namespace flotilla::search::rules {

/// The best plans so far, each another one.
class Best {
 public:
  explicit Best(int alternatives) : most_{at(alternatives) + 1} {}
  /// True when it is the best of all.
  bool add(const Candidate&);
  double value() const { return plans_.empty() ? never : plans_.front().value; }
  const std::vector<Candidate>& plans() const { return plans_; }

 private:
  std::size_t most_;
  std::vector<Candidate> plans_;
};

}  // namespace flotilla::search::rules
