#include <algorithm>
#include <map>
#include <tuple>

#include "flotilla/files/look.hpp"
#include "profile_sections.hpp"
#include "sections.hpp"

namespace flotilla::files {
namespace {

namespace fs = std::filesystem;

constexpr double longest_pass = 1e9;  // seconds, as in profile files
constexpr std::int64_t most_layer_elements = std::int64_t{1} << 36;

struct TimeFile {
  double forward = 0, backward = 0, update = 0;
  bool operator==(const TimeFile&) const = default;
};
struct SizeFile {
  std::int64_t parameters = 0, input = 0, output = 0, saved = 0;
  bool operator==(const SizeFile&) const = default;
};

/// The norm and the head that follows it, as one layer. The update is that of the whole profiled model in either.
TimeFile joined(const TimeFile& norm, const TimeFile& head) {
  return {norm.forward + head.forward, norm.backward + head.backward, std::max(norm.update, head.update)};
}
SizeFile joined(const SizeFile& norm, const SizeFile& head) {
  return {norm.parameters + head.parameters, norm.input, head.output, norm.saved + head.saved};
}

TimeFile times_in(const Json& place) {
  const auto cells = place.items();
  if (cells.size() != 3) place.refuse(text("expected [forward_s, backward_s, update_s], got ", cells.size(), " values"));
  return {cells[0].as_double(0, longest_pass), cells[1].as_double(0, longest_pass), cells[2].as_double(0, longest_pass)};
}

SizeFile sizes_in(const Json& place) {
  const auto count = [&](std::string_view key) { return place.at(key).as_int64(0, most_layer_elements); };
  return {count("params_floats"), count("act_input_floats"), count("act_output_floats"), count("act_mem_floats")};
}

/// The values of layers 0, 1, ... of `object`, as many as the model has; none, and a note, where these are another model's layers.
template <class Value, class Read>
std::vector<Value> by_layer(SailorLibrary& library, const Json& object, const model::Config& model, Read read) {
  std::map<int, Value> layers;
  for (const std::string& key : object.keys()) layers.emplace(number_key(object, key, 0), read(object.at(key)));
  const bool own_norm = sailor_counts_final_norm(model);
  const auto expected = static_cast<std::size_t>(model.layers() + (own_norm ? 1 : 0));
  if (layers.size() != expected || layers.rbegin()->first != static_cast<int>(expected) - 1) {
    library.note(
        text(object.source(), ": ", object.pointer(), " is left out: it has ", layers.size(), " layers, ", model.name, " has ", expected));
    return {};
  }
  std::vector<Value> values;
  for (const auto& layer : layers) values.push_back(layer.second);
  if (own_norm) {
    const Value head = values.back();
    values.pop_back();
    values.back() = joined(values.back(), head);
  }
  return values;
}

/// Calls each(first, last, value) for every run of equal layers.
template <class Value, class Each>
void for_each_range(const std::vector<Value>& values, Each each) {
  for (std::size_t first = 0, last = 0; first < values.size(); first = last) {
    for (last = first; last < values.size() && values[last] == values[first]; ++last) continue;
    each(static_cast<int>(first), static_cast<int>(last), values[first]);
  }
}

/// (type, tensor degree, microbatch): the combined file and, for what it lacks, the others.
using TimesOfModel = std::map<std::tuple<std::string, int, int>, std::vector<TimeFile>>;

/// {microbatch: {degree: {layer: [..]}}}
void add_times(SailorLibrary& library, TimesOfModel& all, const std::string& type, const Json& document, const model::Config& model) {
  for (const std::string& sequences : document.keys()) {
    const Json degrees = document.at(sequences);
    for (const std::string& degree : degrees.keys()) {
      const std::tuple key{type, number_key(degrees, degree), number_key(document, sequences)};
      if (!all.contains(key)) all.emplace(key, by_layer<TimeFile>(library, degrees.at(degree), model, times_in));
    }
  }
}

void add_combined(SailorLibrary& library, std::map<std::string, TimesOfModel>& all) {
  const auto document = library.read("profiles/all_profiles_combined.json", "layer times but those of profiles/MODEL/TYPE/profile.json");
  if (!document) return;
  for (const std::string& name : document->keys()) {
    const auto* model = library.model(name);
    const Json types = document->at(name);
    for (const std::string& type : types.keys())
      if (model && library.has_type(type)) add_times(library, all[name], type, types.at(type), *model);
  }
}

std::vector<fs::path> folders_in(const fs::path& directory) {
  std::vector<fs::path> found;
  std::error_code missing;
  for (const auto& entry : fs::directory_iterator{directory, missing})
    if (entry.is_directory()) found.push_back(entry.path());
  std::ranges::sort(found);
  return found;
}

void add_separate(SailorLibrary& library, std::map<std::string, TimesOfModel>& all) {
  for (const fs::path& folder : folders_in(library.directory() / "profiles"))
    for (const fs::path& sub : folders_in(folder)) {
      const fs::path file = sub / "profile.json";
      const std::string name = folder.filename().string(), type = sub.filename().string();
      if (!fs::exists(file)) continue;
      const auto* model = library.model(name);
      if (model && library.has_type(type)) add_times(library, all[name], type, Json::read(file), *model);
    }
}

}  // namespace

void read_sailor_times(SailorLibrary& library) {
  std::map<std::string, TimesOfModel> all;
  add_combined(library, all);
  add_separate(library, all);
  for (const auto& [model, combinations] : all)
    for (const auto& [key, layers] : combinations)
      for_each_range(layers, [&, &name = model, &combination = key](int first, int last, const TimeFile& t) {
        const auto& [type, degree, sequences] = combination;
        library.profile().layer_times.push_back(
            {name, type, first, last, degree, sequences, Precision::fp32, {t.forward}, {t.backward}, {t.update}});
      });
}

void read_sailor_sizes(SailorLibrary& library) {
  const auto document = library.read("model_info/llm_info.json", "layer sizes, and so no memory and no sizes of messages");
  if (!document) return;
  for (const std::string& name : document->keys()) {
    const auto* model = library.model(name);
    if (!model) continue;
    const Json degrees = document->at(name);
    std::map<int, std::vector<SizeFile>> by_degree;
    for (const std::string& degree : degrees.keys())
      by_degree.emplace(number_key(degrees, degree), by_layer<SizeFile>(library, degrees.at(degree), *model, sizes_in));
    for (const auto& [degree, layers] : by_degree)
      for_each_range(layers, [&, tensor_parallel = degree](int first, int last, const SizeFile& s) {
        library.profile().layer_sizes.push_back({name, first, last, tensor_parallel, s.parameters, s.input, s.output, s.saved});
      });
  }
}

SailorImport read_sailor_profiles(const fs::path& directory) {
  require_there(directory, "the Sailor artifact's data, with profiles/all_profiles_combined.json");
  SailorLibrary library{directory};
  library.profile().software = "Sailor artifact (Strati et al., SOSP 2025): DeepSpeed and Megatron, fp32, Adam";
  read_sailor_types(library);
  read_sailor_times(library);
  FLOTILLA_REQUIRE(
      !library.profile().layer_times.empty(), ErrorKind::bad_input, directory.string(),
      ": no layer times; expected profiles/all_profiles_combined.json or profiles/MODEL/TYPE/profile.json of the Sailor artifact");
  read_sailor_sizes(library);
  read_sailor_network(library);
  read_sailor_prices(library);
  return std::move(library.import);
}

}  // namespace flotilla::files
