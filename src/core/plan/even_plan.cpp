#include <algorithm>
#include <numeric>
#include <utility>

#include "flotilla/base/error.hpp"
#include "flotilla/model/tensors.hpp"
#include "flotilla/plan/plan.hpp"

namespace flotilla::plan {
namespace {

constexpr std::int64_t most_devices = 1 << 22;

void require_degrees(const model::Config& model, int length, int global_batch, int data, int pipeline, int tensor, int microbatch) {
  model::check(model, "model");
  FLOTILLA_REQUIRE(length >= 1 && length <= model.positions, ErrorKind::bad_input, "the sequence length is ", length, "; ", model.name,
                   " takes 1 to ", model.positions, " tokens");
  FLOTILLA_REQUIRE(global_batch >= 1, ErrorKind::bad_input, "the global batch is ", global_batch, "; expected at least 1 sequence");
  FLOTILLA_REQUIRE(microbatch >= 1, ErrorKind::bad_input, "the microbatch is ", microbatch, "; expected at least 1 sequence");
  FLOTILLA_REQUIRE(data >= 1 && data <= global_batch, ErrorKind::bad_input, "the data-parallel degree is ", data,
                   "; expected 1 to the global batch, ", global_batch, " sequences");
  FLOTILLA_REQUIRE(pipeline >= 1 && pipeline <= model.layers(), ErrorKind::bad_input, "the pipeline degree is ", pipeline,
                   "; expected 1 to ", model.layers(), ", the layers of ", model.name);
  const int most = model::largest_tensor_parallel(model);
  FLOTILLA_REQUIRE(tensor >= 1 && tensor <= most, ErrorKind::bad_input, "the tensor-parallel degree is ", tensor, "; expected 1 to ", most,
                   ", ", model::limit_of_tensor_parallel(model), " of ", model.name);
  FLOTILLA_REQUIRE(std::int64_t{data} * pipeline * tensor <= most_devices, ErrorKind::bad_input, "degrees ", data, " x ", pipeline, " x ",
                   tensor, " need more than ", most_devices, " devices");
}

/// Blocks spread evenly, embedding with the first stage and head with the last; with more stages than blocks, all layers evenly.
std::vector<int> even_cuts(const model::Config& model, int pipeline) {
  std::vector<int> cuts{0};
  for (int s = 1; s < pipeline; ++s) {
    const bool by_blocks = pipeline <= model.blocks;
    const auto cut = model::share(by_blocks ? model.blocks : model.layers(), pipeline, s).first;
    cuts.push_back(static_cast<int>(cut) + (by_blocks ? 1 : 0));
  }
  cuts.push_back(model.layers());
  return cuts;
}

void require_cuts(const std::vector<int>& cuts, const model::Config& model, int pipeline) {
  FLOTILLA_REQUIRE(static_cast<int>(cuts.size()) == pipeline + 1, ErrorKind::bad_input, "there are ", cuts.size(), " layer cuts; expected ",
                   pipeline + 1, " for ", pipeline, " stages");
  FLOTILLA_REQUIRE(
      cuts.front() == 0 && cuts.back() == model.layers() && std::ranges::adjacent_find(cuts, std::ranges::greater_equal{}) == cuts.end(),
      ErrorKind::bad_input, "the layer cuts must rise from 0 to ", model.layers(), ", the layers of ", model.name);
}

/// Sequences of the busiest replica when the batch is dealt in quanta of q.
std::int64_t busiest(std::int64_t global_batch, int data, int q) { return (global_batch / q + data - 1) / data * q; }

/// The largest divisor of batch and microbatch that deals the batch as evenly as single sequences do.
int choose_quantum(int global_batch, int data, int microbatch) {
  const int common = std::gcd(global_batch, microbatch);
  int best = 1;
  const auto consider = [&](int q) {
    if (q > best && global_batch / q >= data && busiest(global_batch, data, q) == busiest(global_batch, data, 1)) best = q;
  };
  for (int divisor = 1; std::int64_t{divisor} * divisor <= common; ++divisor)
    if (common % divisor == 0) consider(divisor), consider(common / divisor);
  return best;
}

std::vector<Replica> even_replicas(const Plan& plan, int data, int tensor, int microbatch, int first_rank) {
  std::vector<Replica> replicas(static_cast<std::size_t>(data));
  int rank = first_rank;
  for (int r = 0; r < data; ++r) {
    Replica& replica = replicas[static_cast<std::size_t>(r)];
    const auto quanta = model::share(plan.global_batch / plan.quantum, data, r);
    replica.tensor_parallel = tensor;
    replica.sequences = static_cast<int>(quanta.count()) * plan.quantum;
    // A microbatch that no replica could fill would only take memory.
    replica.quanta = static_cast<int>(std::min<std::int64_t>(microbatch, busiest(plan.global_batch, data, plan.quantum))) / plan.quantum;
    for (int t = 0; t < tensor; ++t) replica.devices.push_back(Rank{rank++});
  }
  return replicas;
}

}  // namespace

Plan even_plan(const model::Config& model, int length, int global_batch, Precision precision, int data, int pipeline, int tensor,
               int microbatch, ScheduleKind schedule, std::vector<int> cuts) {
  require_degrees(model, length, global_batch, data, pipeline, tensor, microbatch);
  if (cuts.empty()) cuts = even_cuts(model, pipeline);
  require_cuts(cuts, model, pipeline);
  Plan plan;
  plan.model = model;
  plan.length = length;
  plan.global_batch = global_batch;
  plan.quantum = choose_quantum(global_batch, data, microbatch);
  plan.precision = precision;
  plan.schedule = schedule;
  for (int s = 0; s < pipeline; ++s) {
    const auto at = static_cast<std::size_t>(s);
    plan.stages.push_back({cuts[at], cuts[at + 1], Recompute::none, even_replicas(plan, data, tensor, microbatch, s * data * tensor)});
  }
  return plan;
}

}  // namespace flotilla::plan
