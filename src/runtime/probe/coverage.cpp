#include "coverage.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "flotilla/base/error.hpp"

namespace flotilla::probe {
namespace {

constexpr int largest_degree = 8, largest_on_cpu = 8, largest_on_gpu = 64;

}  // namespace

std::vector<int> degrees(const ProbeRequest& request, int ranks) {
  if (!request.tensor_parallel.empty()) return request.tensor_parallel;
  std::vector<int> found;
  for (int degree = 1; degree <= std::min({ranks, model::largest_tensor_parallel(request.model), largest_degree}); degree *= 2)
    found.push_back(degree);
  return found;
}

std::vector<int> microbatches(int largest, bool on_gpu) {
  const int end = std::min(on_gpu ? largest_on_gpu : largest_on_cpu, largest > 0 ? largest : largest_on_gpu);
  std::set<int> chosen{1, std::min(2, end), end};
  std::vector<int> order{1};
  if (end > 1) order.push_back(2);
  if (end > 2) order.push_back(end);
  while (true) {
    std::pair<double, int> widest{1, 0};  // and the power of two in its middle
    for (auto above = std::next(chosen.begin()); above != chosen.end(); ++above) {
      const int below = *std::prev(above);
      const double ratio = static_cast<double>(*above) / below;
      const int middle = 1 << std::lround(std::log2(below * std::sqrt(ratio)) - 1e-9);  // the lower one of two
      if (below < middle && middle < *above) widest = std::max(widest, {ratio, middle});
    }
    if (widest.second == 0) return order;
    chosen.insert(widest.second);
    order.push_back(widest.second);
  }
}

std::vector<MeasuredShape> shapes(const ProbeRequest& request, int ranks, bool on_gpu) {
  std::vector<MeasuredShape> order;
  const auto add = [&](int sequences, bool required) {
    for (Precision precision : request.precisions)
      for (int degree : degrees(request, ranks)) order.push_back({precision, degree, sequences, required});
  };
  for (int sequences : request.sequences) add(sequences, true);
  if (!request.sequences.empty()) return order;
  for (int sequences : microbatches(request.largest_microbatch, on_gpu)) add(sequences, sequences == 1);
  return order;
}

void check(const ProbeRequest& request) {
  model::check(request.model, "probe");
  const auto require = [](bool good, const auto&... why) { FLOTILLA_REQUIRE(good, ErrorKind::bad_input, "probe: ", why...); };
  require(request.length >= 1 && request.length <= request.model.positions, "sequence length ", request.length, " is not in 1 … ",
          request.model.positions, ", the positions of ", request.model.name);
  require(!request.precisions.empty(), "no precision to measure; name fp32 or bf16");
  for (int degree : request.tensor_parallel)
    require(degree >= 1 && degree <= model::largest_tensor_parallel(request.model), "tensor-parallel degree ", degree, " is not in 1 … ",
            model::largest_tensor_parallel(request.model), ", ", model::limit_of_tensor_parallel(request.model), " of ",
            request.model.name);
  for (int sequences : request.sequences) require(sequences >= 1, "a microbatch of ", sequences, " sequences; expected at least 1");
  require(request.largest_microbatch >= 0, "a largest microbatch of ", request.largest_microbatch, " sequences; expected 0 or more");
  require(request.threads >= 0, request.threads, " threads; expected at least 1, or 0 for all that this rank may use");
  require(request.budget.value > 0 && request.deadline.value > 0, "budget and deadline must be longer than 0 s");
}

}  // namespace flotilla::probe
