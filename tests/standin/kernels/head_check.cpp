#include "check.hpp"

namespace flotilla::compute::cuda {
namespace {

double capped(double x, double cap) { return cap > 0 ? cap * std::tanh(x / cap) : x; }

/// One vocabulary on one rank, and the same cut over three. Every fourth token is one that does not count as a target.
template <class E>
void all(hostgpu::Order order, int members, float cap) {
  constexpr int sequences = 2, length = 4, rows = sequences * length, vocabulary = 1100;
  std::mt19937_64 random{1};
  Buffer<std::int32_t> tokens{sequences * (length + 1)};
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const auto token = static_cast<std::int32_t>(random() % vocabulary);
    tokens[i] = i % 4 == 2 ? ~token : token;
  }
  std::vector<std::unique_ptr<Buffer<E>>> logits, gradients, before;
  std::vector<KernelHeadRows> shapes;
  Buffer<float> gathered{static_cast<std::size_t>(3 * rows * members)};
  const float scale = 0.125f;
  for (int m = 0; m < members; ++m) {
    const int first = vocabulary * m / members, width = vocabulary * (m + 1) / members - first, pitch = (width + 15) / 16 * 16;
    shapes.push_back({width, first, length, rows, members, pitch, cap});
    logits.push_back(std::make_unique<Buffer<E>>(static_cast<std::size_t>(rows * pitch)));
    logits.back()->normal(random, 3);
    for (auto* copies : {&gradients, &before}) copies->push_back(std::make_unique<Buffer<E>>(static_cast<std::size_t>(rows * pitch)));
    before.back()->copy(*logits.back());
    float* stats = gathered.get() + 3 * rows * m;
    hostgpu::run({rows}, {row_threads}, 0, order, [&] { Kernels<E>::head_stats(stats, *logits.back(), tokens, shapes.back()); });
    gradients.back()->copy(*logits.back());
  }
  for (std::size_t m = 0; m < shapes.size(); ++m)
    hostgpu::run({rows}, {row_threads}, 0, order, [&] { Kernels<E>::head_gradient(*gradients[m], gathered, tokens, shapes[m], scale); });
  Comparison stats{std::string{"head_stats"} + suffix<E>}, caps{std::string{"head_stats capped"} + suffix<E>},
      back{std::string{"head_gradient"} + suffix<E>};
  for (int row = 0; row < rows; ++row) {
    const int target = tokens[static_cast<std::size_t>(row / length * (length + 1) + row % length + 1)];
    double sum = 0;
    for (std::size_t m = 0; m < shapes.size(); ++m) {
      const KernelHeadRows& h = shapes[m];
      double maximum = -INFINITY, part = 0;
      const auto at = [&](int c) { return logits[m]->at(static_cast<std::size_t>(row * h.pitch + c)); };
      for (int c = 0; c < h.width; ++c) {
        const double reference = capped(before[m]->at(static_cast<std::size_t>(row * h.pitch + c)), value(cap));
        caps.add(at(c), reference, (cap > 0 ? rounding<E> + 8 * fp32 : 0) * std::abs(reference) + subnormal<E>);
      }
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
        const double bend = cap > 0 ? 1 - std::pow(logits[m]->at(at) / value(cap), 2) : 1;
        const double reference = target < 0 ? 0 : (p - (c + shapes[m].first_token == target)) * value(scale) * bend;
        back.add(gradients[m]->at(at), reference, rounding<E> * std::abs(reference) + 100 * fp32 * p * value(scale) + subnormal<E> + 1e-37);
      }
  }
}

void run_checks(hostgpu::Order order) {
  for (const float cap : {0.0f, 4.0f}) {
    all<float>(order, 1, cap);
    all<bfloat16>(order, 3, cap);
    all<float16>(order, 3, cap);
  }
}

Checks registered{"head", &run_checks};

}  // namespace
}  // namespace flotilla::compute::cuda
