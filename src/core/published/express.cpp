#include "flotilla/published/express.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include "flotilla/base/error.hpp"
#include "flotilla/plan/allocate.hpp"
#include "kernels_of_run.hpp"
#include "memory_of_run.hpp"
#include "model_of_run.hpp"
#include "network_of_run.hpp"
#include "precision_of_run.hpp"

namespace flotilla::published {
namespace {

/// A runtime as sources call it (the beginning of its name), ours, and the vocabulary's multiple over the tensor-parallel degree.
/// `recipes`: NVIDIA's, which switch on what Megatron-Core by itself leaves off: sequence parallelism, collectives beside products.
struct KnownRuntime {
  std::string_view theirs, ours;
  int vocabulary_multiple;
  bool recipes = false;
};
constexpr int megatron_multiple = 128;
constexpr std::array<KnownRuntime, 14> known_runtimes{{{"megatron-deepspeed", "megatron-deepspeed", megatron_multiple},
                                                       {"megatron-core (Megatron-Bridge)", "megatron-core", megatron_multiple, true},
                                                       {"megatron-core", "megatron-core", megatron_multiple},
                                                       {"nemo / megatron-core", "megatron-core", megatron_multiple, true},
                                                       {"megatron-lm", "megatron-lm", megatron_multiple},
                                                       {"megatron", "megatron-core", megatron_multiple},
                                                       {"pytorch-fsdp", "pytorch-fsdp", 1},
                                                       {"torchtitan", "pytorch-fsdp", 1},
                                                       {"internevo", "internevo", 1},
                                                       {"huggingface-trainer + deepspeed", "deepspeed", 1},
                                                       {"transformers + deepspeed", "deepspeed", 1},
                                                       {"paxml", "jax", 1},
                                                       {"maxtext", "jax", 1},
                                                       {"llm.c", "llm.c", megatron_multiple}}};

const KnownRuntime* runtime_of(const Run& run) {
  for (const auto& known : known_runtimes)
    if (run.runtime.starts_with(known.theirs)) return &known;
  return nullptr;
}

plan::Recompute recompute_of(const Run& run) {
  if (run.parallel.recompute.starts_with("full")) return plan::Recompute::full;
  return run.parallel.recompute.starts_with("selective") ? plan::Recompute::selective : plan::Recompute::none;
}

/// Why a run is not even tried; empty: it is.
std::string obstacle(const Run& run) {
  const Parallel& p = run.parallel;
  if (!run.complete) return "incomplete: something had to be guessed";
  if (!run.issue.empty()) return "its source contradicts itself";
  if (!run.task.empty() && run.task.find("LoRA") != std::string::npos) return "adapters";
  if (!run.optimizer.empty()) return "optimizer " + run.optimizer;
  if (run.model.blocks <= 0 || run.model.hidden <= 0 || run.model.heads <= 0) return "no model shape";
  if (!precision_of(run)) return "precision " + run.precision;
  if (runtime_of(run) == nullptr) return "runtime " + run.runtime;
  if (run.model.experts > 0 && runtime_of(run)->ours != "megatron-core") return "experts";
  if (run.model.experts > 0 && (run.model.experts % p.experts != 0 || p.data * p.context % p.experts != 0))
    return "experts that do not divide by their group of replicas";
  if (run.global_batch <= 0 || run.microbatch <= 0) return "no batch size";
  if (p.tensor * p.pipeline * p.data * p.context != run.hardware.devices) return "degrees that do not make up the devices";
  if (p.offload) return "state in the host's memory";
  if (run.length % p.context != 0) return "a sequence that does not divide by the context-parallel degree";
  if (run.global_batch % p.data != 0) return "a batch that does not divide by the replicas";
  if (!run.measured.iteration && !run.measured.memory && !run.measured.out_of_memory) return "nothing measured";
  return {};
}

/// Blocks of a virtual stage, half-open. `units`: embedding and head count as a block each.
std::vector<int> even_cuts(int blocks, int stages, bool units) {
  std::vector<int> cuts;
  for (int s = 0; s <= stages; ++s) {
    const int all = units ? blocks + 2 : blocks;
    const int cut = all * s / stages - (units ? 1 : 0);
    cuts.push_back(s == 0 ? 0 : s == stages ? blocks : cut);
  }
  return cuts;
}

/// Layers [first, last) of every virtual stage.
std::vector<std::array<int, 2>> layers_of(const Run& run) {
  const int stages = run.parallel.pipeline * run.parallel.chunks, blocks = run.model.blocks;
  std::vector<std::array<int, 2>> layers;
  const auto add = [&](int first_block, int last_block) {
    const bool first = layers.empty(), last = static_cast<int>(layers.size()) + 1 == stages;
    layers.push_back({first ? 0 : 1 + first_block, last ? blocks + 2 : 1 + last_block});
  };
  if (static_cast<int>(run.parallel.block_ranges.size()) == stages) {
    for (const auto& range : run.parallel.block_ranges) add(range.at(0), range.at(1));
    return layers;
  }
  const auto cuts = even_cuts(blocks, stages, run.parallel.embeddings_count_as_blocks);
  for (int s = 0; s < stages; ++s) add(cuts[static_cast<std::size_t>(s)], cuts[static_cast<std::size_t>(s) + 1]);
  return layers;
}

/// Context parallelism: as many replicas, each with its part of every sequence, so that shorter sequences are as many more.
plan::Plan unbound_plan(const Run& run, const std::string& type, const KnownRuntime& runtime) {
  const Parallel& p = run.parallel;
  plan::Plan plan;
  plan.model = model_of(run, runtime.vocabulary_multiple * p.tensor);
  plan.length = run.length / p.context;
  plan.global_batch = run.global_batch * p.context;
  plan.quantum = run.microbatch;
  plan.precision = *precision_of(run);
  plan.chunks = p.chunks;
  if (p.chunks > 1) plan.schedule = plan::ScheduleKind::interleaved;
  plan.sequence_parallel = (p.sequence_parallel || runtime.recipes) && p.tensor > 1;
  plan.shard_optimizer = p.sharding != Sharding::none && p.data * p.context > 1;
  plan::Replica replica;
  replica.device_type = type;
  replica.tensor_parallel = p.tensor;
  replica.sequences = run.global_batch / p.data;
  for (const auto& [first, last] : layers_of(run)) {
    plan::Stage stage{first, last, recompute_of(run), {}};
    stage.replicas.assign(static_cast<std::size_t>(p.data) * p.context, replica);
    plan.stages.push_back(std::move(stage));
  }
  return plan;
}

/// Without a switch, a device's links go to the others of its board alone; boards are joined by PCIe 4.0 (16 lanes of a device carry 25
/// GB/s of 31.5).
void divide_into_boards(program::LayerRuntime& layers, const Hardware& stated, const cluster::CatalogueEntry& device) {
  constexpr double link = 25e9, lanes = 25e9;
  if (stated.pair_links == 0) return;
  layers.board = 1 + static_cast<int>(device.node_pair_rate.value / (stated.pair_links * link));
  layers.between_boards = {layers.board * lanes};
}

/// Of collectives beside products, what shows where copies and products share the memory with no buffers set apart for them: about half, as
/// Korthikanti et al. 2022 measured (section 4.2.2 and table 4). NVIDIA's recipes have such buffers (Transformer Engine's userbuffers).
constexpr double beside_products = 0.5;

/// Replicas in a row that hold every expert once. Where members of a tensor-parallel group hold whole experts, as many fewer do: a device
/// has the bytes and FLOPs of as many parts.
int expert_parallel_of(const Parallel& p) { return p.whole_experts ? std::max(1, p.experts / p.tensor) : p.experts; }

/// The runtime as the run sets it up.
program::Runtime runtime_for(const Run& run, const KnownRuntime& known, const cluster::CatalogueEntry& device) {
  program::Runtime runtime = program::runtime_named(known.ours);
  program::LayerRuntime& layers = *runtime.layers;
  const Parallel& p = run.parallel;
  layers.context = p.context;
  layers.overlaps_tensor = known.recipes || p.overlap_tensor;
  if (!known.recipes) layers.tensor_visible = beside_products;
  if (p.sharding == Sharding::gradients) layers.sharded = program::ShardedState::gradients;
  if (p.sharding == Sharding::parameters) layers.sharded = program::ShardedState::parameters;
  if (p.sharding == Sharding::optimizer) layers.sharded = program::ShardedState::optimizer;
  layers.shard_group = p.shard_group;
  layers.recomputed_blocks = p.recomputed_blocks;
  if (p.overlap_gradients) layers.overlaps = *p.overlap_gradients;
  if (run.runtime.starts_with("huggingface-trainer")) layers.overlaps = false;  // of 2021: DeepSpeed gathers ahead since 2022 (PR 1453)
  set_kernels(layers.kernels_half, run, known.ours == "jax", device);
  if (run.precision.find("fp32 all-reduce") != std::string::npos) layers.gradient_half = {4};
  layers.waits_for_kernels = run.waits_for_kernels;
  set_memory(layers, run, known.recipes, device);
  divide_into_boards(layers, run.hardware, device);
  if (const auto rate = communicator_rate(run); rate.value > 0) layers.reduction_rate = rate;
  if (run.hardware.devices <= run.hardware.per_node) layers.reduction_host = {};  // was measured between nodes
  layers.narrow = narrow_products_of(run, device);
  layers.expert_parallel = expert_parallel_of(p);
  layers.groups_experts = layers.groups_experts && run.groups_experts;
  return runtime;
}

Expressed expressed(const Run& run, const cluster::CatalogueEntry& entry) {
  const KnownRuntime& runtime = *runtime_of(run);
  const plan::Plan unbound = unbound_plan(run, entry.name, runtime);
  plan::require_valid(unbound, run.id);
  cluster::Profile profile = cluster::complete_from_catalogue({}, {entry}, {entry.name});
  const auto allocation = plan::allocate(unbound, profile);
  profile.devices = allocation.devices;
  return {allocation.plan, std::move(profile), runtime_for(run, runtime, entry)};
}

}  // namespace

Expression express(const Run& run, const cluster::Catalogue& catalogue) {
  if (std::string why = obstacle(run); !why.empty()) return {std::nullopt, std::move(why)};
  const auto entry = entry_of(run, catalogue);
  if (!entry) return {std::nullopt, "device " + run.hardware.device_type};
  try {
    return {expressed(run, *entry), {}};
  } catch (const Error& error) {
    return {std::nullopt, error.what()};
  }
}

}  // namespace flotilla::published
