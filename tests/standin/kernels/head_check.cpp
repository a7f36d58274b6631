#include "check.hpp"

namespace flotilla::compute::cuda {
namespace {

/// One vocabulary on one rank, and the same cut over three. Every fourth token is one that does not count as a target.
template <class E>
void all(hostgpu::Order order, int members) {
  constexpr int sequences = 2, length = 4, rows = sequences * length, vocabulary = 1100;
  std::mt19937_64 random{1};
  Buffer<std::int32_t> tokens{sequences * (length + 1)};
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const auto token = static_cast<std::int32_t>(random() % vocabulary);
    tokens[i] = i % 4 == 2 ? ~token : token;
  }
  std::vector<std::unique_ptr<Buffer<E>>> logits, gradients;
  std::vector<HeadRows> shapes;
  Buffer<float> gathered{static_cast<std::size_t>(3 * rows * members)};
  const float scale = 0.125f;
  for (int m = 0; m < members; ++m) {
    const int first = vocabulary * m / members, width = vocabulary * (m + 1) / members - first, pitch = (width + 15) / 16 * 16;
    shapes.push_back({width, first, length, rows, members, pitch});
    logits.push_back(std::make_unique<Buffer<E>>(static_cast<std::size_t>(rows * pitch)));
    logits.back()->normal(random, 3);
    gradients.push_back(std::make_unique<Buffer<E>>(static_cast<std::size_t>(rows * pitch)));
    gradients.back()->copy(*logits.back());
    float* stats = gathered.get() + 3 * rows * m;
    hostgpu::run({rows}, {row_threads}, 0, order, [&] { Kernels<E>::head_stats(stats, *logits.back(), tokens, shapes.back()); });
  }
  for (std::size_t m = 0; m < shapes.size(); ++m)
    hostgpu::run({rows}, {row_threads}, 0, order,
                 [&] { Kernels<E>::head_gradient(*gradients[m], gathered, tokens, shapes[m], scale); });
  Comparison stats{std::string{"head_stats"} + suffix<E>}, back{std::string{"head_gradient"} + suffix<E>};
  for (int row = 0; row < rows; ++row) {
    const int target = tokens[static_cast<std::size_t>(row / length * (length + 1) + row % length + 1)];
    double sum = 0;
    for (std::size_t m = 0; m < shapes.size(); ++m) {
      const HeadRows& h = shapes[m];
      double maximum = -INFINITY, part = 0;
      const auto at = [&](int c) { return logits[m]->at(static_cast<std::size_t>(row * h.pitch + c)); };
      for (int c = 0; c < h.width; ++c) maximum = std::max(maximum, at(c));
      for (int c = 0; c < h.width; ++c) part += std::exp(at(c) - maximum);
      sum += part * std::exp(maximum);
      const auto place = static_cast<std::size_t>(3 * (static_cast<int>(m) * rows + row));
      stats.add(gathered.at(place), maximum, 0);
      stats.add(gathered.at(place + 1), part, 60 * fp32 * part);
      const bool mine = target >= h.first_token && target < h.first_token + h.width;
      stats.add(gathered.at(place + 2), target < 0 ? INFINITY : mine ? at(target - h.first_token) : -INFINITY, 0);
    }
    for (std::size_t m = 0; m < shapes.size(); ++m)
      for (int c = 0; c < shapes[m].width; ++c) {
        const auto at = static_cast<std::size_t>(row * shapes[m].pitch + c);
        const double p = std::exp(logits[m]->at(at)) / sum;
        const double reference = target < 0 ? 0 : (p - (c + shapes[m].first_token == target)) * value(scale);
        back.add(gradients[m]->at(at), reference, rounding<E> * std::abs(reference) + 100 * fp32 * p * value(scale) + subnormal<E> + 1e-37);
      }
  }
}

void run_checks(hostgpu::Order order) {
  all<float>(order, 1);
  all<bfloat16>(order, 3);
  all<float16>(order, 3);
}

Checks registered{"head", &run_checks};

}  // namespace
}  // namespace flotilla::compute::cuda
