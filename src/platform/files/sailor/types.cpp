#include <algorithm>
#include <array>
#include <charconv>

#include "flotilla/base/foreign_text.hpp"
#include "sections.hpp"

namespace flotilla::files {
namespace {

namespace fs = std::filesystem;

/// The constants of the artifact's simulator.
struct KnownType {
  const char* name;
  int memory_gib;
  double usd_per_hour;  // of one GPU in any zone; 0: it has none
};
constexpr std::array<KnownType, 7> known_types{KnownType{"A100-40", 40, 3.673385},
                                               {"A100-80", 80, 0},
                                               {"V100-16", 16, 2.859998},
                                               {"GH-96", 96, 11.06},
                                               {"Titan-RTX", 24, 0},
                                               {"RTX-2080", 11, 0},
                                               {"RTX-3090", 24, 0}};

const KnownType* constants_of(const std::string& name) {
  const auto found = std::ranges::find_if(known_types, [&](const KnownType& k) { return k.name == name; });
  return found == known_types.end() ? nullptr : &*found;
}

cluster::DeviceType named_type(const std::string& name) {
  cluster::DeviceType type;
  type.name = name;
  type.kind = cluster::DeviceKind::gpu;
  type.source = "Sailor artifact, github.com/eth-easl/sailor";
  if (const KnownType* known = constants_of(name)) {
    type.memory = {std::int64_t{known->memory_gib} << 30};
    type.usd_per_hour = known->usd_per_hour;
  }
  return type;
}

}  // namespace

int number_key(const Json& object, const std::string& key, int least) {
  int number = 0;
  const auto [end, failed] = std::from_chars(key.data(), key.data() + key.size(), number);
  const bool whole = failed == std::errc{} && end == key.data() + key.size();
  if (!whole || number < least || number > (1 << 20)) object.at(key).refuse(text("expected a key that is a whole number from ", least));
  return number;
}

std::optional<Json> SailorLibrary::read(const fs::path& relative, std::string_view what) {
  std::error_code missing;
  if (fs::exists(directory_ / relative, missing)) return Json::read(directory_ / relative);
  note(text(relative.string(), " is missing: no ", what));
  return std::nullopt;
}

void SailorLibrary::note(const std::string& line) {
  if (std::ranges::find(import.notes, line) == import.notes.end()) import.notes.push_back(line);
}

bool SailorLibrary::has_type(const std::string& name) {
  if (cluster::find_type(profile(), name)) return true;
  if (constants_of(name)) {
    profile().device_types.push_back(named_type(name));
    return true;
  }
  note(text("device type ", in_quotes(name), " is left out: configs/basic_cluster_config.json does not say its memory"));
  return false;
}

/// configs/training_config_*.json of a model that came later.
std::optional<model::Config> SailorLibrary::configured_model(const std::string& name) {
  std::vector<fs::path> files;
  std::error_code missing;
  for (const auto& entry : fs::directory_iterator{directory_ / "configs", missing})
    if (entry.path().filename().string().starts_with("training_config_") && entry.path().extension() == ".json")
      files.push_back(entry.path());
  std::ranges::sort(files);
  for (const fs::path& file : files) {
    const Json config = Json::read(file);
    if (!config.has("model") || config.get_string("model") != name) continue;
    model::Config c;
    c.name = name;
    c.family = get_string_or(config, "type", "");
    c.blocks = config.get_int("num_layers", 1);
    c.hidden = c.embedding_width = config.get_int("hidden_size", 1, 1 << 24);
    c.heads = config.get_int("heads", 1);
    c.feed_forward = static_cast<int>(std::min<std::int64_t>(std::int64_t{4} * c.hidden, 1 << 24));
    c.vocabulary = config.get_int("vocab_size", 1);
    c.positions = config.get_int("max_position_embeddings", 1);
    model::check(c, file.string());
    return c;
  }
  return std::nullopt;
}

const model::Config* SailorLibrary::model(const std::string& name) {
  auto& models = import.library.models;
  const auto known = std::ranges::find(models, name, &model::Config::name);
  if (known != models.end()) return &*known;
  auto shape = sailor_model(name);
  if (!shape) shape = configured_model(name);
  if (shape) return &models.emplace_back(std::move(*shape));
  note(text("model ", in_quotes(name), " is left out: no configs/training_config_*.json says its shape"));
  return nullptr;
}

void read_sailor_types(SailorLibrary& library) {
  const auto document = library.read("configs/basic_cluster_config.json", "devices per node, and memory of devices by data sheet only");
  if (!document) {
    for (const KnownType& known : known_types) library.profile().device_types.push_back(named_type(known.name));
    return;
  }
  for (const std::string& name : document->keys()) {
    const Json entry = document->at(name);
    if (!entry.is_object()) continue;  // "zone"
    auto type = named_type(name);
    type.per_node = entry.get_int("gpus_per_node", 1, 1 << 20);
    type.memory = {entry.get_int64("mem_per_gpu", 1)};
    library.profile().device_types.push_back(std::move(type));
  }
}

}  // namespace flotilla::files
