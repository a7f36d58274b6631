#include "packing.hpp"

#include <algorithm>
#include <numeric>

namespace flotilla::search::bound {
namespace {

constexpr int most_columns = 200;
constexpr double smallest = 1e-12, slack = 1e-9;

double dot(const std::vector<double>& a, const std::vector<double>& b) { return std::inner_product(a.begin(), a.end(), b.begin(), 0.0); }
double sum(const std::vector<double>& all) { return std::accumulate(all.begin(), all.end(), 0.0); }

/// The basis of the restricted program, its inverse kept; it begins with the resources' slacks.
class Basis {
 public:
  explicit Basis(int resources)
      : size_{static_cast<std::size_t>(resources)}, inverse_(size_, std::vector<double>(size_, 0)), right_(size_, 1), gain_(size_, 0) {
    for (std::size_t i = 0; i < size_; ++i) inverse_[i][i] = 1;
  }

  Prices prices() const {
    Prices prices = duals();
    for (double& price : prices) price = std::max(price, 0.0);
    return prices;
  }
  double packed() const { return dot(gain_, right_); }

  /// Lets a resource lie idle again whose price has fallen below zero. False where there is none.
  bool free_resource() {
    const Prices all = duals();
    const auto least = std::ranges::min_element(all);
    if (*least >= -slack) return false;
    Use idle(size_, 0);
    idle[static_cast<std::size_t>(least - all.begin())] = 1;
    return enter(idle, 0);
  }

  /// The column takes the place of what it would drive below zero first. False where nothing does.
  bool enter(const Use& use, double gain = 1) {
    std::vector<double> change(size_, 0);
    for (std::size_t i = 0; i < size_; ++i) change[i] = dot(inverse_[i], use);
    std::size_t out = size_;
    for (std::size_t i = 0; i < size_; ++i)
      if (change[i] > smallest && (out == size_ || right_[i] / change[i] < right_[out] / change[out])) out = i;
    if (out == size_) return false;
    const double pivot = change[out];
    for (double& value : inverse_[out]) value /= pivot;
    right_[out] /= pivot;
    for (std::size_t i = 0; i < size_; ++i) {
      if (i == out) continue;
      for (std::size_t j = 0; j < size_; ++j) inverse_[i][j] -= change[i] * inverse_[out][j];
      right_[i] = std::max(0.0, right_[i] - change[i] * right_[out]);
    }
    gain_[out] = gain;
    return true;
  }

 private:
  Prices duals() const {
    Prices all(size_, 0);
    for (std::size_t i = 0; i < size_; ++i)
      for (std::size_t j = 0; j < size_; ++j) all[j] += gain_[i] * inverse_[i][j];
    return all;
  }

  std::size_t size_;
  std::vector<std::vector<double>> inverse_;
  std::vector<double> right_, gain_;
};

}  // namespace

Packing pack(int resources, const Pricing& cheapest, Prices first) {
  Basis basis{resources};
  Prices prices = std::move(first);
  if (prices.empty()) prices.assign(static_cast<std::size_t>(resources), 1.0 / resources);
  for (int pipeline = 0; pipeline < most_columns; ++pipeline) {
    const auto use = cheapest(prices);
    if (!use) return {false, {}};
    const double cost = dot(prices, *use);
    if (cost > 0 && sum(prices) < cost * (1 - slack)) {
      for (double& price : prices) price /= cost;
      return {false, std::move(prices)};
    }
    const auto reached = basis.prices();
    if (pipeline > 0 && cost >= 1 - slack && prices == reached)
      return {};  // nothing is cheaper: the program is solved, and one column fits
    if (!basis.enter(*use) || basis.packed() >= 1) return {};
    for (int freed = 0; freed < resources && basis.free_resource(); ++freed) {
    }
    prices = basis.prices();
  }
  return {};
}

}  // namespace flotilla::search::bound
