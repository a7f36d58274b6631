#include "flotilla/inference/sampling.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "flotilla/base/philox.hpp"

namespace flotilla::inference {
namespace {

constexpr std::uint64_t sampling_purpose = 0x67656e6572617465;  // "generate": tells its random numbers from others of the seed

struct Candidate {
  std::int32_t token = 0;
  double weight = 0;  ///< in proportion to its probability
};

/// Likeliest first.
std::vector<Candidate> candidates(std::span<const float> logits, const SamplingOptions& options) {
  std::vector<std::int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const auto likelier = [&](std::int32_t a, std::int32_t b) {
    const float left = logits[static_cast<std::size_t>(a)], right = logits[static_cast<std::size_t>(b)];
    return left != right ? left > right : a < b;
  };
  const auto kept = options.top_k > 0 ? std::min(order.size(), static_cast<std::size_t>(options.top_k)) : order.size();
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(kept), order.end(), likelier);
  order.resize(kept);
  const double best = static_cast<double>(logits[static_cast<std::size_t>(order.front())]);
  std::vector<Candidate> all;
  for (const std::int32_t token : order)
    all.push_back({token, std::exp((static_cast<double>(logits[static_cast<std::size_t>(token)]) - best) / options.temperature)});
  return all;
}

double sum(const std::vector<Candidate>& list) {
  return std::accumulate(list.begin(), list.end(), 0.0, [](double all, const Candidate& c) { return all + c.weight; });
}

/// At least one is left.
void keep_nucleus(std::vector<Candidate>& list, double top_p) {
  const double wanted = top_p * sum(list);
  double reached = 0;
  std::size_t kept = 0;
  while (kept < list.size() && (kept == 0 || reached < wanted)) reached += list[kept++].weight;
  list.resize(kept);
}

/// In [0, 1), of 53 random bits.
double uniform(std::uint64_t seed, std::int64_t index) {
  const auto bits = Philox{seed, sampling_purpose}(static_cast<std::uint64_t>(index));
  return static_cast<double>((std::uint64_t{bits[0]} << 32 | bits[1]) >> 11) * 0x1p-53;
}

}  // namespace

std::int32_t choose_token(std::span<const float> logits, const SamplingOptions& options, std::int64_t index) {
  if (options.temperature == 0) return static_cast<std::int32_t>(std::ranges::max_element(logits) - logits.begin());
  auto list = candidates(logits, options);
  if (options.top_p < 1) keep_nucleus(list, options.top_p);
  double left = uniform(options.seed, index) * sum(list);
  for (const Candidate& c : list)
    if ((left -= c.weight) < 0) return c.token;
  return list.back().token;
}

}  // namespace flotilla::inference
