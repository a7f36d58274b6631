#include "program_execution.hpp"

#include <algorithm>

namespace flotilla::train {

std::optional<gpu::DeviceContext> open_gpu(const compute::ComputeDevice& device) {
  if (device.kind == cluster::DeviceKind::cpu) return {};
  return gpu::DeviceContext::open(device.ordinal);
}

compute::Setup setup_of(const program::Program& program, Rank rank, const Options& options, int cache) {
  const auto& binding = program.ranks.at(rank.index());
  const auto& c = class_of(program, rank);
  const bool documents =
      std::ranges::any_of(c.instructions, [](const auto& i) { return i.template as<program::DocumentLoad>() != nullptr; });
  return {program.plan.model, program.plan.length, c.shape.tensor_parallel,   binding.tensor_index, program.plan.precision,
          options.threads,    options.seed,        c.shape.sequence_parallel, options.device,       cache,
          documents};
}

void set_scratch(compute::Backend& backend, const Binding& binding) {
  const int scratch = binding.rank_class().scratch;
  if (scratch < 0) return;
  const Bytes size = binding.rank_class().buffers[static_cast<std::size_t>(scratch)].size;
  backend.set_scratch({binding.buffer(scratch), static_cast<std::size_t>(size.count)});
}

void prepare(compute::Backend& backend, const Binding& binding) { backend.prepare(binding.rank_class().shape.sequences); }

}  // namespace flotilla::train
