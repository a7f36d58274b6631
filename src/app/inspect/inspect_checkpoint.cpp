#include "app/inspect/inspect.hpp"
#include "flotilla/base/key_values.hpp"
#include "flotilla/base/text.hpp"
#include "flotilla/files/json.hpp"
#include "flotilla/files/plan_file.hpp"

namespace flotilla::app {
namespace {

using checkpoint::Description;
using checkpoint::TensorDescription;

std::string shape_of(const TensorDescription& tensor) {
  std::string words;
  for (const auto extent : tensor.shape) words += text(words.empty() ? "" : " x ", extent);
  return words;
}

std::string state_of(const TensorDescription& tensor, bool verified) {
  if (!verified) return "not checked";
  if (tensor.damaged.empty()) return "sound";
  return text(tensor.damaged.size(), " of ", tensor.segments, " segments damaged");
}

std::string tensors(const Description& d, const Style& style) {
  TextTable table{{{"kept"}, {"tensor"}, {"shape"}, {"size", Align::right}, {"checksums"}}};
  for (const auto& t : d.tensors)
    table.add({std::string{checkpoint::group_of(t.kind)}, t.name, shape_of(t), to_string(t.size), state_of(t, d.verified)});
  return table.print(style);
}

std::string plan_in_words(const std::string& json, const std::string& source) {
  return json.empty() ? "not recorded" : plan::summary(files::plan_from_json(json, source));
}

Bytes size_of(const checkpoint::Manifest& m) {
  Bytes sum;
  for (const auto& file : m.files) sum += file.size;
  return sum;
}

std::string tensor_json(const TensorDescription& t) {
  files::JsonLine line;
  line.add("group", checkpoint::group_of(t.kind)).add("name", t.name).add_json("shape", files::json_array(t.shape));
  line.add("size_bytes", t.size.count).add("segments", t.segments).add_json("damaged_segments", files::json_array(t.damaged));
  return line.text();
}

std::string tensor_list_json(const Description& d) {
  std::string list;
  for (const auto& t : d.tensors) list += (list.empty() ? "" : ", ") + tensor_json(t);
  return "[" + list + "]";
}

}  // namespace

std::string tensors_text(const Description& d, const std::filesystem::path& file, const Style& style) {
  return key_values({{"file", file.string()}, {"manifest", "none: compared with the file's own checksums only"}}) + "\n" +
         tensors(d, style);
}

std::string tensors_json(const Description& d, const std::filesystem::path& file) {
  files::JsonLine line;
  line.add("file", file.string()).add_null("manifest").add("verified", d.verified).add("damaged_segments", d.damaged_segments());
  line.add_json("tensors", tensor_list_json(d));
  return line.text() + "\n";
}

std::string checkpoint_text(const Description& d, const std::filesystem::path& directory, const Style& style) {
  const auto& m = d.manifest;
  std::vector<std::pair<std::string, std::string>> lines{
      {"checkpoint", directory.string()},
      {"step", text(m.step, m.optimizer_steps == m.step ? "" : text(" (", m.optimizer_steps, " updates applied)"))},
      {"sequences", text(m.sequences, " consumed")},
      {"seed", text(m.seed)},
      {"data", m.data_fingerprint},
      {"plan", plan_in_words(m.plan, (directory / "manifest.json").string() + ": /plan")},
      {"size", to_string(size_of(m))}};
  if (m.exploded) lines.emplace_back("weights", "exploded, or most steps before were skipped: a restart prefers an earlier checkpoint");
  lines.insert(lines.end(), m.provenance.begin(), m.provenance.end());
  return key_values(lines) + "\n" + tensors(d, style);
}

std::string checkpoint_json(const Description& d, const std::filesystem::path& directory) {
  files::JsonLine line;
  line.add("directory", directory.string()).add_json("manifest", checkpoint::manifest_to_json(d.manifest));
  line.add("verified", d.verified).add("damaged_segments", d.damaged_segments()).add_json("tensors", tensor_list_json(d));
  return line.text() + "\n";
}

}  // namespace flotilla::app
