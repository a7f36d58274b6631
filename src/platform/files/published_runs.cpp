#include "flotilla/files/published_runs.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <optional>
#include <string_view>

#include "flotilla/base/error.hpp"
#include "flotilla/files/look.hpp"

namespace flotilla::files {
namespace {

namespace fs = std::filesystem;
using published::Run;

constexpr std::string_view format = "published-runs";
constexpr int most = 1 << 24;            // of counts and widths
constexpr double longest = 1e7;          // seconds of an iteration
constexpr double gigabit = 1e9 / 8;      // bytes per second
constexpr double largest_memory = 1e15;  // bytes

bool has(const Json& object, std::string_view key) { return object.has(key) && !object.at(key).is_null(); }
int count_or(const Json& object, std::string_view key, int otherwise) {
  return has(object, key) ? object.get_int(key, 0, most) : otherwise;
}
std::string text_or(const Json& object, std::string_view key) {
  return has(object, key) && object.at(key).is_string() ? object.get_string(key) : std::string{};
}
/// Some sources keep their scripts' words: "True".
std::optional<bool> said(const Json& object, std::string_view key) {
  if (!has(object, key)) return std::nullopt;
  const Json value = object.at(key);
  return value.is_string() ? value.as_string() == "True" : value.as_bool();
}
bool yes(const Json& object, std::string_view key) { return said(object, key).value_or(false); }

/// The whole number of at most `most_digits` digits that ends before `end`.
std::optional<int> number_ending_at(std::string_view words, std::size_t end, std::size_t most_digits) {
  const auto before = words.substr(0, end).find_last_not_of("0123456789");
  const auto digits = words.substr(0, end).substr(before == words.npos ? 0 : before + 1);
  if (digits.empty() || digits.size() > most_digits) return std::nullopt;
  return std::stoi(std::string{digits});
}

/// "4 x Omni-Path 100 Gbit/s a node", "4 x 100 Gbit/s RoCE a node".
void read_network_words(const std::string& words, published::Hardware& hardware) {
  constexpr std::string_view times = " x ", unit = " Gbit/s";
  const auto end = words.find(unit), by = words.substr(0, end).rfind(times);
  if (end == words.npos || by == words.npos) return;
  const auto speed = words.find_first_of("0123456789,", by + times.size());
  const auto cards = number_ending_at(words, by, 3), rate = number_ending_at(words, end, 5);
  // Nothing but the cards' name stands between the two.
  if (!cards || !rate || words[speed] == ',' || words.find_first_not_of("0123456789", speed) != end) return;
  hardware.network_cards = *cards;
  hardware.network_card = {*rate * gigabit};
  hardware.omni_path = words.find("Omni-Path") != std::string::npos;
}

/// "NVLink 4": links between two devices, as nvidia-smi counts them.
void read_link_words(const std::string& words, published::Hardware& hardware) {
  constexpr std::string_view name = "NVLink ";
  const auto at = words.find(name);
  if (at == words.npos) return;
  const auto end = std::min(words.find_first_not_of("0123456789", at + name.size()), words.size());
  const bool word = end == words.size() || std::isalpha(static_cast<unsigned char>(words[end])) == 0;
  if (const auto links = number_ending_at(words, end, 2); word && links) hardware.pair_links = *links;
}

void read_network(const Json& place, published::Hardware& hardware) {
  read_network_words(text_or(place, "interconnect"), hardware);
  read_link_words(text_or(place, "interconnect"), hardware);
  read_network_words(text_or(place, "inter_node"), hardware);
  if (has(place, "intra_node_gbit_per_s")) hardware.node_pair = {place.get_double("intra_node_gbit_per_s", 0) * gigabit};
  const auto one_card = [&](std::string_view key) {
    if (has(place, key)) hardware.network_cards = 1, hardware.network_card = {place.get_double(key, 0) * gigabit};
  };
  one_card("inter_node_gbit_per_s");
  one_card("inter_node_gbit_per_s_per_node");
  if (!has(place, "inter_node_gbit_per_s_per_device")) return;
  hardware.network_cards = std::max(1, hardware.per_node);
  hardware.network_card = {place.get_double("inter_node_gbit_per_s_per_device", 0) * gigabit};
}

void read_hardware(const Json& place, Run& run) {
  if (!has(place, "device_type")) return;  // groups of unlike devices
  run.hardware.device_type = place.get_string("device_type");
  run.hardware.devices = count_or(place, "devices", 0);
  run.hardware.per_node = count_or(place, "devices_per_node", 0);
  run.hardware.domain = count_or(place, "nvlink_domain", 0);
  read_network(place, run.hardware);
}

void read_model(const Json& place, published::Transformer& model) {
  model.family = text_or(place, "family");
  model.blocks = count_or(place, "layers", 0);
  model.hidden = count_or(place, "hidden", 0);
  model.heads = count_or(place, "heads", 0);
  model.key_value_heads = count_or(place, "key_value_heads", 0);
  model.feed_forward = count_or(place, "feed_forward", 0);
  model.vocabulary = count_or(place, "padded_vocabulary", count_or(place, "vocabulary", 0));
  model.positions = count_or(place, "positions", 0);
  model.experts = count_or(place, "experts", 0);
  model.experts_per_token = std::max(1, count_or(place, "top_k", 1));
  model.tied_head = said(place, "tied_head");
  model.bias = said(place, "bias");
  model.rotary = said(place, "rotary");
}

void read_block_ranges(const Json& place, published::Parallel& parallel) {
  if (!has(place, "block_ranges_per_stage")) return;
  for (const Json& range : place.at("block_ranges_per_stage").items()) {
    const auto ends = range.items();
    if (ends.size() != 2) range.refuse("expected [first block, last block + 1]");
    parallel.block_ranges.push_back({ends[0].as_int(0, most), ends[1].as_int(0, most)});
  }
}

/// Of sources that state how many layers a virtual stage holds instead.
int chunks_of(const Json& place, const Run& run) {
  const int layers = count_or(place, "layers_per_virtual_stage", 0);
  return layers > 0 ? run.model.blocks / (layers * run.parallel.pipeline) : 1;
}

/// Sources that do not say the number of replicas mean: as many as there are devices for.
void read_parallel(const Json& place, Run& run) {
  published::Parallel& p = run.parallel;
  p.tensor = std::max(1, count_or(place, "tensor", 1));
  p.pipeline = std::max(1, count_or(place, "pipeline", 1));
  p.context = std::max(1, count_or(place, "context", 1));
  p.experts = std::max(1, count_or(place, "expert", 1));
  p.chunks = std::max(1, count_or(place, "virtual_pipeline", chunks_of(place, run)));
  p.data = std::max(1, count_or(place, "data", run.hardware.devices / (p.tensor * p.pipeline * p.context)));
  p.sequence_parallel = yes(place, "sequence_parallel");
  p.sharding = static_cast<published::Sharding>(std::min(3, count_or(place, "zero", 0)));
  p.shard_group = yes(place, "hybrid_shard") ? run.hardware.per_node / p.tensor : count_or(place, "zero_group", 0);
  if (const auto words = text_or(place, "recompute"); !words.empty()) p.recompute = words;
  p.overlap_gradients = said(place, "overlap_gradients");
  p.overlap_parameters = said(place, "overlap_parameters");
  p.overlap_tensor = yes(place, "async_tensor");
  p.attention = text_or(place, "attention");
  p.compiled = yes(place, "compile");
  p.offload |= text_or(place, "offload") == "Y";
  p.embeddings_count_as_blocks =
      text_or(place, "partition").starts_with("transformer|embed") || yes(place, "fewer_layers_beside_embedding_and_loss");
  read_block_ranges(place, p);
}

void read_batch(const Json& place, Run& run) {
  run.microbatch = count_or(place, "microbatch", count_or(place, "local_batch", 0));
  run.global_batch = count_or(place, "global_sequences", 0);
  if (run.global_batch == 0) run.global_batch = run.microbatch * count_or(place, "microbatches", 0) * run.parallel.data;
}

/// The most of all ranks, in MiB. Where some rank's peak is what stays after the step, peaks were counted anew after the passes.
std::optional<Bytes> most_allocated(const Json& ranks) {
  double highest = 0;
  for (const auto& name : ranks.keys()) {
    const Json& rank = ranks.at(name);
    const double peak = rank.get_double("max_allocated_mib", 0);
    if (peak <= rank.get_double("allocated_mib", 0)) return std::nullopt;
    highest = std::max(highest, peak);
  }
  return highest > 0 ? std::optional{Bytes{static_cast<std::int64_t>(highest * (1 << 20))}} : std::nullopt;
}

void read_memory(const Json& place, published::Measured& measured) {
  struct Key {
    std::string_view name;
    double unit;
    published::MemoryMeasure measure;
  };
  using enum published::MemoryMeasure;
  static constexpr Key keys[] = {{"peak_allocated_bytes", 1, allocated},
                                 {"peak_memory_gb", 1e9, process},
                                 {"peak_memory_gb_nvidia_smi", 1 << 30, process},
                                 {"peak_memory_gib", 1 << 30, process},
                                 {"peak_memory_gib_reserved", 1 << 30, process}};
  for (const Key& key : keys) {
    if (!has(place, key.name) || measured.memory) continue;
    const double bytes = place.at(key.name).as_double(0, largest_memory) * key.unit;
    measured.memory = Bytes{std::llround(std::min(bytes, largest_memory))};
    measured.measure = key.measure;
  }
  if (measured.memory || !has(place, "memory_per_rank")) return;
  measured.memory = most_allocated(place.at("memory_per_rank"));
  measured.measure = allocated;
}

void read_measured(const Json& place, Run& run) {
  published::Measured& measured = run.measured;
  measured.out_of_memory = text_or(place, "failed").starts_with("out of memory");
  for (const auto* key : {"iteration_seconds", "derived_iteration_seconds"})
    if (has(place, key) && !measured.iteration)
      if (const double seconds = place.at(key).as_double(0, longest); seconds > 0) measured.iteration = Seconds{seconds};
  read_memory(place, measured);
  measured.last_stage = run.source.starts_with("megatron_core_golden");
}

/// Megatron-Core's golden values name the attention in some cases only. "mcore" without "te" (Transformer Engine) keeps the scores, and so
/// do the deterministic cases on the "dracooci" machines: their peaks equal those of cases that say "unfused", to the byte.
std::string attention_of(const Json& place, const Run& run) {
  if (!run.source.starts_with("megatron_core_golden") || !run.parallel.attention.empty()) return run.parallel.attention;
  const auto names = [&](std::string_view part) { return run.id.find(part) != std::string::npos; };
  const bool keeps = text_or(place, "environment").find("dracooci") != std::string::npos && run.deterministic;
  return keeps || (names("_mcore_") && !names("_te_")) ? "unfused" : "flash";
}

/// What JAX-Toolbox's rows leave to its configurations (paxml, contrib/gpu/scripts_gpu/configs.py): GPT-3's 126M keep every activation, for
/// their layers are not repeated; 5B keep products with weights (SAVE_DOT_WITH_NO_BATCH_DIM) and 175B nothing (SAVE_NOTHING). The scripts
/// beside them switch cuDNN's attention off (NVTE_FUSED_ATTN=0).
void read_configuration(Run& run) {
  if (!run.runtime.starts_with("paxml") || run.model.family != "gpt3") return;
  constexpr int hidden_5b = 4096, hidden_175b = 12288;
  if (run.model.hidden >= hidden_5b) run.parallel.recompute = run.model.hidden >= hidden_175b ? "full" : "selective";
  run.parallel.attention = run.runtime.find("Transformer Engine") != std::string::npos ? "unfused" : "compiled";
}

/// IBM's tables say that some blocks recompute, and not which. A report of the same models on the same clusters has the FLOPs done over
/// those needed (PyTorch's blog of March 2024 on FSDP, table 1, HFU and MFU): 1.16 and 1.14 for 13B, 1.34 and 1.32 for 70B, where 4/3 is a
/// whole forward pass more. So half of 13B's blocks recompute, and all of 34B's and 70B's, without selection inside a block.
void read_blocks_that_recompute(Run& run) {
  constexpr int hidden_13b = 5120;
  if (run.parallel.recompute != "selective (some blocks)") return;
  run.parallel.recompute = "full";
  if (run.model.hidden <= hidden_13b) run.parallel.recomputed_blocks = 0.5;
}

/// Blocks whose activations NVIDIA's presets for Megatron-Bridge keep in the host's memory, where FSDP shards large models on Blackwell
/// (cpu_offloading_num_layers in scripts/performance, November 2025). The tables of its releases leave them out.
int blocks_in_host_of(const Run& run) {
  struct Preset {
    std::string_view device_type;
    int blocks;
    bool narrow;
    int in_host;
  };
  static constexpr Preset presets[] = {{"GB300", 80, false, 30}, {"GB300", 80, true, 20}, {"GB200", 80, false, 20},
                                       {"GB200", 80, true, 40},  {"B200", 80, true, 5},   {"GB300", 126, false, 40},
                                       {"GB300", 126, true, 10}, {"GB200", 126, true, 95}};
  if (run.runtime.find("Megatron-Bridge") == std::string::npos || run.parallel.sharding != published::Sharding::parameters) return 0;
  const bool narrow = run.precision.find("FP8") != std::string::npos;
  for (const Preset& p : presets)
    if (run.hardware.device_type == p.device_type && run.model.blocks == p.blocks && narrow == p.narrow) return p.in_host;
  return 0;
}

/// torchtitan compiles the loss with the model since pull request 1033 of April 2025; the names of its pages have their month. LLM Foundry
/// takes flash-attention's cross entropy.
bool has_one_kernel_loss(const std::string& file, const Run& run) {
  const auto month = [&](std::size_t at) { return std::string_view{file}.substr(at, 8); };
  std::string found;
  for (auto at = file.find("_20"); at != file.npos && found.empty(); at = file.find("_20", at + 1))
    if (month(at).size() == 8 && month(at).ends_with('_') && number_ending_at(file, at + 7, 6)) found = month(at).substr(1, 6);
  if (run.runtime.find("llm-foundry") != std::string::npos) return true;
  return run.runtime == "torchtitan" && run.parallel.compiled && found > "202504";
}

/// What a source says in words beside its rows: a test case's name has its options, and BLOOM's page has that large models hung on 20 nodes
/// and more until CUDA_LAUNCH_BLOCKING=1 was set, which stayed. Jean Zay's page has tables of Megatron with ZeRO's stage 3, with and
/// without offload, whose scripts keep the inputs of recomputed blocks in the host's memory (--checkpoint-in-cpu, --partition-activations:
/// DeepSpeed calls cpu() for a member's part of them, and cpu() returns when all is copied), and with stage 1; the
/// former and AMP's runs are of Megatron-LM 1.1.5, whose scripts do not ask for fused kernels. Megatron-Core's cases with two experts a
/// token and more give --moe-grouped-gemm (model_config.yaml of each), of those with one such as are named below; "zp_z3" is
/// --data-parallel-sharding-strategy optim_grads_params, "muon" --optimizer muon, "etp1" --expert-tensor-parallel-size 1.
void read_words(const std::string& file, const std::string& section, Run& run) {
  const bool stage_3 = section.find("ffload") != std::string::npos;
  if (stage_3) run.parallel.sharding = published::Sharding::parameters;
  if (section.find("zero_stage:1") != std::string::npos) run.parallel.sharding = published::Sharding::optimizer;
  run.parallel.blocking_copies = stage_3 && run.runtime == "megatron-lm";
  run.parallel.blocks_in_host = run.parallel.blocking_copies ? run.model.blocks : blocks_in_host_of(run);
  run.unfused = stage_3 || (run.runtime + section).find("v1.1.5") != std::string::npos;
  const auto names = [&](std::string_view part) { return file.find(part) != std::string::npos; };
  run.fused_loss = names("cross_entropy_loss_fusion");
  run.one_kernel_loss = has_one_kernel_loss(file, run);
  run.deferred_head = names("defer_embedding_wgrad_compute");
  run.groups_experts = !run.source.starts_with("megatron_core_golden") || run.model.experts_per_token > 1 || names("groupedGEMM") ||
                       names("ddp_average_in_collective");
  run.parallel.whole_experts = names("_etp1_");
  if (names("_zp_z3_")) run.parallel.sharding = published::Sharding::parameters;
  if (names("_muon")) run.optimizer = "Muon";
  if (names("multi_dist_optimizer_instances")) run.parallel.shard_group = run.parallel.data / 2;
  run.gradients_stay = run.source == "jeanzay_v100" && run.runtime == "megatron-lm";
  run.waits_for_kernels = run.source == "bloom_a100";
}

void read_members(const Json& place, Run& run) {
  run.runtime = text_or(place, "runtime");
  run.task = text_or(place, "task");
  run.precision = text_or(place, "precision");
  if (const auto narrow = text_or(place.at("parallel"), "fp8"); !narrow.empty()) run.precision += text("+fp8 ", narrow);
  run.length = count_or(place, "sequence_length", 0);
  run.complete = yes(place, "complete");
  run.deterministic = yes(place, "deterministic");
  run.parallel.offload = text_or(place, "section").find("cpu offload") != std::string::npos;
  run.issue = text_or(place, "issue");
  read_hardware(place.at("hardware"), run);
  read_model(place.at("model"), run.model);
  read_parallel(place.at("parallel"), run);
  run.parallel.attention = attention_of(place, run);
  read_words(text_or(place, "file"), text_or(place, "section"), run);
  read_configuration(run);
  read_blocks_that_recompute(run);
  read_batch(place.at("batch"), run);
  read_measured(place.at("measured"), run);
}

/// A run that cannot be read says why; the others of its file count.
Run read_run(const Json& place, const std::string& source) {
  Run run;
  run.source = source;
  run.id = place.get_string("id");
  try {
    read_members(place, run);
  } catch (const Error& error) {
    run.issue = error.what();
  }
  return run;
}

}  // namespace

bool is_published_runs(const Json& document) {
  return document.is_object() && document.has("format") && document.at("format").is_string() && document.get_string("format") == format;
}

std::vector<Run> read_published_runs(const fs::path& file) {
  const Json document = Json::read(file);
  require_format(document, format, 1);
  std::vector<Run> runs;
  for (const Json& run : document.at("runs").items()) runs.push_back(read_run(run, file.stem().string()));
  return runs;
}

std::vector<Run> read_published_folder(const fs::path& path) {
  const auto expected = text("a folder with files of format '", format, "'");
  require_there(path, expected);
  const auto names = names_in(path);
  FLOTILLA_REQUIRE(names, ErrorKind::bad_input, path.string(), ": is no folder; expected ", expected);
  auto sorted = *names;
  std::ranges::sort(sorted);
  std::vector<Run> all;
  for (const auto& name : sorted) {
    const fs::path file = path / name;
    if (file.extension() != ".json" || !is_published_runs(Json::read(file))) continue;
    auto runs = read_published_runs(file);
    std::ranges::move(runs, std::back_inserter(all));
  }
  FLOTILLA_REQUIRE(!all.empty(), ErrorKind::bad_input, path.string(), ": no file of format '", format, "' is in it");
  return all;
}

}  // namespace flotilla::files
