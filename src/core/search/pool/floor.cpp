#include "floor.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <numeric>

namespace flotilla::search::pool {
namespace {

constexpr int kinds = 3;  // embedding, block, head
constexpr double rounding = 1 - 1e-9;

/// Device-seconds that a type takes for one sequence in one layer of each kind, at least.
struct Work {
  int type = 0;
  std::array<double, kinds> seconds{1e300, 1e300, 1e300};
};

/// Seconds for a sequence are least at a measured size (powers of two; straight lines between them) or at the largest. Of one device all
/// sizes are looked at, for safety.
bool tells(int microbatch, int largest) { return std::has_single_bit(static_cast<unsigned>(microbatch)) || microbatch == largest; }

std::vector<Work> least_work(const Stock& stock, Soundings& soundings, const std::vector<int>& microbatches) {
  std::vector<Work> all;
  for (int type = 0; type < static_cast<int>(stock.types.size()); ++type) {
    Work work{type, {}};
    work.seconds.fill(1e300);
    const Type& t = stock.types[at(type)];
    for (int degree = 1; degree <= std::min({t.widest, stock.request.model.groups(), t.count}); degree *= 2)
      for (const int m : microbatches)
        for (const auto recompute : {plan::Recompute::none}) {
          if (degree > 1 && !tells(m, microbatches.back())) continue;
          const LeastPass& s = soundings.least_pass(type, degree, m, recompute);
          if (!s.usable) continue;
          const double passes[kinds] = {s.embedding, s.block, s.head};
          for (int k = 0; k < kinds; ++k) work.seconds[at(k)] = std::min(work.seconds[at(k)], passes[k] * degree / m);
        }
    if (work.seconds[1] < 1e300) all.push_back(work);
  }
  return all;
}

/// By weak duality of the linear program "types share out the layers of every sequence": for any prices y of a type's device-seconds with
/// sum over types of y x devices = 1, T >= batch x sum over layers of the least y x work. The best of the prices that make two types equal
/// at one kind of layer is the optimum for two types, and a bound for more.
double least_time(const Stock& stock, const std::vector<Work>& works) {
  const double blocks = stock.request.model.blocks, batch = stock.request.global_batch;
  const auto bound = [&](const std::vector<double>& prices) {
    double sum = 0, devices = 0;
    for (int k = 0; k < kinds; ++k) {
      double least = 1e300;
      for (std::size_t w = 0; w < works.size(); ++w) least = std::min(least, prices[w] * works[w].seconds[at(k)]);
      sum += least * (k == 1 ? blocks : 1);
    }
    // The dearest devices that may be taken: all of them, or as many as a limit allows.
    std::vector<std::size_t> dearest(works.size());
    std::iota(dearest.begin(), dearest.end(), std::size_t{0});
    std::ranges::sort(dearest, [&](std::size_t a, std::size_t b) { return prices[a] > prices[b]; });
    int left = stock.request.objective.limits.devices.value_or(stock.devices);
    for (const std::size_t w : dearest) {
      const int taken = std::min(left, stock.types[at(works[w].type)].count);
      devices += prices[w] * taken, left -= taken;
    }
    return batch * sum / devices;
  };
  double most = 0;
  for (int k = 0; k < kinds; ++k) {
    std::vector<double> prices;
    for (const Work& work : works) prices.push_back(1 / work.seconds[at(k)]);
    most = std::max(most, bound(prices));
  }
  for (std::size_t w = 0; w < works.size(); ++w) {
    // Ascent in one price at a time, from where all types are equal at the blocks.
    std::vector<double> prices;
    for (const Work& work : works) prices.push_back(1 / work.seconds[1]);
    for (const double factor : {0.5, 0.7, 0.8, 0.9, 0.95, 1.05, 1.1, 1.25, 1.5, 2.0}) {
      auto other = prices;
      other[w] *= factor;
      most = std::max(most, bound(other));
    }
  }
  return most;
}

}  // namespace

double floor_of_value(const Stock& stock, Soundings& soundings, const std::vector<int>& microbatches) {
  const auto works = least_work(stock, soundings, microbatches);
  if (works.empty()) return 0;
  if (stock.by_throughput()) return least_time(stock, works) * rounding;
  double cost = 0;
  for (int k = 0; k < kinds; ++k) {
    double least = 1e300;
    for (const Work& work : works) least = std::min(least, work.seconds[at(k)] * stock.types[at(work.type)].price);
    cost += least * (k == 1 ? stock.request.model.blocks : 1);
  }
  return cost * stock.request.global_batch * rounding;
}

}  // namespace flotilla::search::pool
