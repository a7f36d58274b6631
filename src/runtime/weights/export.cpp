#include "flotilla/weights/export.hpp"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <map>
#include <utility>

#include "adapters.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/base/io_failure.hpp"
#include "flotilla/checkpoint/checkpoint.hpp"
#include "flotilla/checkpoint/stored_parameters.hpp"
#include "flotilla/files/hugging_face.hpp"
#include "flotilla/files/look.hpp"
#include "flotilla/files/plan_file.hpp"
#include "flotilla/files/text_file.hpp"
#include "flotilla/safetensors/folder.hpp"
#include "flotilla/safetensors/writer.hpp"
#include "flotilla/store/disk.hpp"
#include "flotilla/weights/carried.hpp"
#include "model_card.hpp"
#include "sources.hpp"

namespace flotilla::weights {
namespace {

namespace fs = std::filesystem;
using safetensors::Declared;

/// One of their tensors: which of ours it is a part of, and the how manyeth of its sources.
struct Target {
  int tensor = 0, number = 0;
  Source source;
};

std::vector<Target> targets_of(const model::Config& config) {
  std::vector<Target> targets;
  const auto all = sources(config.fully_trained());  // adapters' tensors are the last
  for (std::size_t t = 0; t < all.size(); ++t)
    for (std::size_t number = 0; number < all[t].size(); ++number)
      targets.push_back({static_cast<int>(t), static_cast<int>(number), all[t][number]});
  return targets;
}

/// Tensors [first, last) of the targets, one file.
struct Shard {
  std::size_t first = 0, last = 0;
};

std::vector<Shard> shards_of(const std::vector<Target>& targets, const ExportOptions& options) {
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

/// Where rows of theirs, a transposed tensor, are in ours: they are our columns.
std::vector<plan::Box> boxes_of_columns(const Source& s, std::int64_t columns, std::int64_t first, std::int64_t last) {
  std::vector<plan::Box> boxes;
  for (auto column = first; column < last; ++column)
    boxes.push_back({.outer = s.block_rows,
                     .inner = 1,
                     .global_offset = column,
                     .global_stride = columns,
                     .local_offset = (column - first) * s.block_rows,
                     .local_stride = 1});
  return boxes;
}

class Exporter {
 public:
  Exporter(const fs::path& step, const ExportOptions& options)
      : step_{step},
        options_{options},
        manifest_{checkpoint::read_manifest(step)},
        plan_{plan_of(step)},
        tensors_{model::tensors(plan_.model)},
        targets_{targets_of(plan_.model)},
        parameters_{step, tensors_},
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
    const auto& lora = plan_.model.lora;
    FLOTILLA_REQUIRE(lora.on(), ErrorKind::bad_input, step_.string(),
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
      writer.write(read_a(parameters_, adapter));
      writer.write(read_b(parameters_, adapter, target->source, 0, target->source.blocks * target->source.block_rows));
      transposed = transposed || target->source.transposed;
    }
    writer.close();
    const auto base = std::ranges::find(manifest_.provenance, "weights", [](const auto& entry) { return entry.first; });
    files::write_text(folder / "adapter_config.json",
                      adapter_config(lora, modules, transposed, base == manifest_.provenance.end() ? "" : base->second));
    files::write_text(folder / "README.md", model_card(manifest_, plan_, options_.precision));
    for (const auto& tensor : declared) report_.size.count += tensor.elements() * element_size(options_.precision).count;
    report_.files = 1;
    report_.tensors = static_cast<int>(declared.size());
    return report_;
  }

 private:
  plan::Plan plan_of(const fs::path& step) const {
    const auto source = (step / "manifest.json").string() + ": /plan";
    FLOTILLA_REQUIRE(!manifest_.plan.empty(), ErrorKind::bad_input, source, ": this checkpoint does not say its model");
    return files::plan_from_json(manifest_.plan, source);
  }

  std::vector<std::pair<const Target*, Adapter>> adapters() const {
    std::vector<std::pair<const Target*, Adapter>> all;
    for (const Target& target : targets_)
      if (const auto adapter = adapter_of(plan_.model, tensors_, target.tensor, target.number)) all.emplace_back(&target, *adapter);
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
    for (auto t = shard.first; t < shard.last; ++t) write_tensor(writer, targets_[t]);
    writer.close();
  }

  /// Some rows of theirs at a time.
  void write_tensor(safetensors::Writer& writer, const Target& target) {
    constexpr std::int64_t most_elements = (64 << 20) / 4;
    const auto& s = target.source;
    const auto columns = columns_of(tensors_[static_cast<std::size_t>(target.tensor)]);
    const auto rows = s.shape.front(), row_elements = Declared{s.name, s.shape}.elements() / rows;
    const auto each = std::max<std::int64_t>(1, most_elements / row_elements);
    const auto adapter = adapter_of(plan_.model, tensors_, target.tensor, target.number);
    for (std::int64_t first = 0; first < rows; first += each) {
      const auto last = std::min(rows, first + each);
      const auto boxes = s.transposed ? boxes_of_columns(s, columns, first, last) : boxes_of_rows(s, columns, first, last);
      values_.resize(static_cast<std::size_t>((last - first) * row_elements));
      parameters_.read(target.tensor, boxes, values_);
      if (adapter) merge(parameters_, *adapter, s, static_cast<float>(plan_.model.lora.scale()), first, last, values_);
      writer.write(values_);
    }
  }

  void write_companions(const fs::path& folder) const {
    std::string original;
    if (files::facts_of(carried_)) {
      carry(carried_, folder);
      if (files::facts_of(carried_ / "config.json")) original = files::read_text(carried_ / "config.json");
    }
    files::write_text(folder / "config.json", files::hugging_face_config_to_json(plan_.model, options_.precision, original));
    if (!files::facts_of(folder / "generation_config.json"))
      files::write_text(folder / "generation_config.json", "{\n  \"_from_model_config\": true\n}\n");
    files::write_text(folder / "README.md", model_card(manifest_, plan_, options_.precision));
  }

  const fs::path step_;
  const ExportOptions options_;
  const checkpoint::Manifest manifest_;
  const plan::Plan plan_;
  const std::vector<model::Tensor> tensors_;
  const std::vector<Target> targets_;
  checkpoint::StoredParameters parameters_;
  const fs::path carried_;
  std::vector<float> values_;
  ExportReport report_;
};

/// A folder under another name, gone with it unless it was renamed.
class UnfinishedFolder {
 public:
  explicit UnfinishedFolder(const fs::path& final_name)
      : final_{final_name}, path_{final_name.string() + "." + files::unguessable() + ".tmp"} {
    files::make_folders(path_);
  }
  UnfinishedFolder(const UnfinishedFolder&) = delete;
  UnfinishedFolder& operator=(const UnfinishedFolder&) = delete;
  ~UnfinishedFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }

  const fs::path& path() const { return path_; }
  void finish() const {
    store::flush(path_);
    int error = ::renameat2(AT_FDCWD, path_.c_str(), AT_FDCWD, final_.c_str(), RENAME_NOREPLACE) == 0 ? 0 : errno;
    if (error == EINVAL && !files::facts_of(final_))  // a file system without this kind of rename, such as NFS
      error = ::rename(path_.c_str(), final_.c_str()) == 0 ? 0 : errno;
    FLOTILLA_REQUIRE(error == 0, io_error_kind(error), final_.string(), ": cannot be made: ", std::strerror(error));
  }

 private:
  fs::path final_, path_;
};

}  // namespace

ExportReport export_hugging_face(const fs::path& step_directory, const fs::path& folder, const ExportOptions& options) {
  const auto name = folder.has_filename() ? folder : folder.parent_path();
  FLOTILLA_REQUIRE(!files::facts_of(name), ErrorKind::bad_input, name.string(), ": exists; an export overwrites nothing: write another name");
  Exporter exporter{step_directory, options};
  const UnfinishedFolder unfinished{name};
  const auto report = options.adapter ? exporter.write_adapter(unfinished.path()) : exporter.write(unfinished.path());
  unfinished.finish();
  return report;
}

}  // namespace flotilla::weights
