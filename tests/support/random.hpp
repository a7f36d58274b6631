#pragma once
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

namespace flotilla::tests {

/// From `least` to `most`, both included, each as likely.
template <class Engine>
int between(Engine& random, int least, int most) {
  return std::uniform_int_distribution{least, most}(random);
}

/// Random values from a seed: the same on every machine.
class Dice {
 public:
  explicit Dice(int seed) : random_{static_cast<std::uint64_t>(seed)} {}
  int pick(int low, int high) { return low + static_cast<int>(random_() % static_cast<std::uint64_t>(high - low + 1)); }
  template <class T>
  T one_of(const std::vector<T>& values) {
    return values[static_cast<std::size_t>(pick(0, static_cast<int>(values.size()) - 1))];
  }
  bool chance(double share) { return real(0, 1) < share; }
  double real(double low, double high) { return low + (high - low) * (static_cast<double>(random_() >> 11) * 0x1p-53); }
  /// Evenly on a logarithmic scale.
  double scale(double low, double high) { return low * std::exp(real(0, std::log(high / low))); }

 private:
  std::mt19937_64 random_;
};

}  // namespace flotilla::tests
