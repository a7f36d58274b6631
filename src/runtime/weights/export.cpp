#include "flotilla/weights/export.hpp"

#include <algorithm>
#include <cstdio>
#include <map>
#include <utility>

#include "adapters.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/files/hugging_face.hpp"
#include "flotilla/files/look.hpp"
#include "flotilla/files/text_file.hpp"
#include "flotilla/safetensors/folder.hpp"
#include "flotilla/safetensors/writer.hpp"
#include "flotilla/weights/carried.hpp"
#include "model_card.hpp"
#include "rounded_norms.hpp"
#include "stored_model.hpp"
#include "unfinished.hpp"

namespace flotilla::weights {
namespace {

namespace fs = std::filesystem;
using safetensors::Declared;

/// Tensors [first, last) of the targets, one file.
struct Shard {
  std::size_t first = 0, last = 0;
};

std::vector<Shard> shards_of(const std::vector<Target>& targets, const WeightExportOptions& options) {
  std::vector<Shard> shards{{}};
  Bytes size;
  for (std::size_t t = 0; t < targets.size(); ++t) {
    const Bytes more{Declared{targets[t].source.name, targets[t].source.shape}.elements() * element_size(options.precision).count};
    if (shards.back().first < t && size + more > options.shard_size) {
      shards.push_back({t, t});
      size = {};
    }
    shards.back().last = t + 1;
    size = size + more;
  }
  return shards;
}

std::string shard_name(std::size_t number, std::size_t count) {
  if (count == 1) return safetensors::single_file_name;
  char name[64];
  std::snprintf(name, sizeof name, "model-%05zu-of-%05zu.safetensors", number + 1, count);
  return name;
}

class Exporter {
 public:
  Exporter(const fs::path& step, const WeightExportOptions& options)
      : options_{options},
        model_{step},
        targets_{targets_of(model_.config())},
        carried_{carried_folder(fs::canonical(step).parent_path())} {}

  ExportReport write(const fs::path& folder) {
    const auto shards = shards_of(targets_, options_);
    std::map<std::string, std::string> file_of;
    for (std::size_t s = 0; s < shards.size(); ++s) write_shard(folder / shard_name(s, shards.size()), shards[s], file_of);
    if (shards.size() > 1) files::write_text(folder / safetensors::index_name, safetensors::index_text(file_of, report_.size.count));
    report_.files = static_cast<int>(shards.size());
    report_.tensors = static_cast<int>(targets_.size());
    write_companions(folder);
    return report_;
  }

  /// The adapter alone, in PEFT's names.
  ExportReport write_adapter(const fs::path& folder) {
    const auto& lora = model_.config().lora;
    FLOTILLA_REQUIRE(lora.on(), ErrorKind::bad_input, model_.step().string(),
                     ": was trained without LoRA and has no adapter; export it without --adapter");
    std::vector<Declared> declared;
    std::vector<std::string> modules;
    for (const auto& [target, adapter] : adapters()) {
      const std::string module = "base_model.model." + module_of(target->source);
      declared.push_back({module + ".lora_A.weight", {adapter.rank, adapter.inputs}});
      declared.push_back({module + ".lora_B.weight", {target->source.blocks * target->source.block_rows, adapter.rank}});
      if (const auto name = target_of(target->source); std::ranges::find(modules, name) == modules.end()) modules.push_back(name);
    }
    safetensors::Writer writer{folder / "adapter_model.safetensors", declared, options_.precision};
    bool transposed = false;
    for (const auto& [target, adapter] : adapters()) {
      writer.write(read_a(model_.parameters(), adapter));
      writer.write(read_b(model_.parameters(), adapter, target->source, 0, target->source.blocks * target->source.block_rows));
      transposed = transposed || target->source.transposed;
    }
    writer.close();
    const auto base = std::ranges::find(model_.manifest().provenance, "weights", [](const auto& entry) { return entry.first; });
    files::write_text(folder / "adapter_config.json",
                      adapter_config(lora, modules, transposed, base == model_.manifest().provenance.end() ? "" : base->second));
    files::write_text(folder / "README.md", model_card(model_.manifest(), model_.plan(), options_.precision));
    for (const auto& tensor : declared) report_.size.count += tensor.elements() * element_size(options_.precision).count;
    report_.files = 1;
    report_.tensors = static_cast<int>(declared.size());
    return report_;
  }

 private:
  std::vector<std::pair<const Target*, Adapter>> adapters() const {
    std::vector<std::pair<const Target*, Adapter>> all;
    for (const Target& target : targets_)
      if (const auto adapter = adapter_of(model_.config(), model_.tensors(), target.tensor, target.number))
        all.emplace_back(&target, *adapter);
    return all;
  }

  void write_shard(const fs::path& path, const Shard& shard, std::map<std::string, std::string>& file_of) {
    std::vector<Declared> declared;
    for (auto t = shard.first; t < shard.last; ++t) {
      declared.push_back({targets_[t].source.name, targets_[t].source.shape});
      file_of[declared.back().name] = path.filename().string();
      report_.size.count += declared.back().elements() * element_size(options_.precision).count;
    }
    safetensors::Writer writer{path, declared, options_.precision};
    for (auto t = shard.first; t < shard.last; ++t)
      model_.read(targets_[t], [&](std::span<const float> rows) {
        writer.write(rows);
        count_rounded_back(targets_[t].source, rows, options_.precision, report_);
      });
    writer.close();
  }

  void write_companions(const fs::path& folder) const {
    std::string original;
    if (files::facts_of(carried_)) {
      carry(carried_, folder);
      if (files::facts_of(carried_ / "config.json")) original = files::read_text(carried_ / "config.json");
    }
    files::write_text(folder / "config.json", files::hugging_face_config_to_json(model_.config(), options_.precision, original));
    if (!files::facts_of(folder / "generation_config.json"))
      files::write_text(folder / "generation_config.json", "{\n  \"_from_model_config\": true\n}\n");
    files::write_text(folder / "README.md", model_card(model_.manifest(), model_.plan(), options_.precision));
  }

  const WeightExportOptions options_;
  StoredModel model_;
  const std::vector<Target> targets_;
  const fs::path carried_;
  ExportReport report_;
};

}  // namespace

ExportReport export_hugging_face(const fs::path& step_directory, const fs::path& folder, const WeightExportOptions& options) {
  const Unfinished unfinished{folder};
  Exporter exporter{step_directory, options};
  files::make_own_folder(unfinished.path());
  const auto report = options.adapter ? exporter.write_adapter(unfinished.path()) : exporter.write(unfinished.path());
  unfinished.finish();
  return report;
}

}  // namespace flotilla::weights
