#include "coverage.hpp"

#include <algorithm>

#include "flotilla/base/error.hpp"

namespace flotilla::probe {
namespace {

constexpr int largest_degree = 8, largest_microbatch = 8;

}  // namespace

std::vector<int> degrees(const ProbeRequest& request, int ranks) {
  if (!request.tensor_parallel.empty()) return request.tensor_parallel;
  std::vector<int> found;
  for (int degree = 1; degree <= std::min({ranks, model::largest_tensor_parallel(request.model), largest_degree}); degree *= 2)
    found.push_back(degree);
  return found;
}

std::vector<MeasuredShape> shapes(const ProbeRequest& request, int ranks) {
  std::vector<MeasuredShape> order;
  const auto add = [&](int sequences, bool required) {
    for (Precision precision : request.precisions)
      for (int degree : degrees(request, ranks)) order.push_back({precision, degree, sequences, required});
  };
  for (int sequences : request.sequences) add(sequences, true);
  if (!request.sequences.empty()) return order;
  add(1, true);
  for (int sequences = 2; sequences <= largest_microbatch; sequences *= 2) add(sequences, false);
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
  require(request.threads >= 0, request.threads, " threads; expected at least 1, or 0 for all that this rank may use");
  require(request.budget.value > 0 && request.deadline.value > 0, "budget and deadline must be longer than 0 s");
}

}  // namespace flotilla::probe
