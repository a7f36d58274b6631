#include <algorithm>
#include <charconv>
#include <map>
#include <sstream>
#include <utility>

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

/// "block.*.norm1.bias" and 3 of "block.3.norm1.bias"; a tensor of no block keeps its name and has none.
std::pair<std::string, int> block_of(const std::string& name) {
  constexpr std::string_view prefix = "block.";
  constexpr std::size_t most_digits = 6;
  if (!name.starts_with(prefix)) return {name, -1};
  const auto dot = name.find('.', prefix.size());
  const auto digits = std::string_view{name}.substr(prefix.size(), dot == name.npos ? 0 : dot - prefix.size());
  int block = 0;
  const bool number = !digits.empty() && digits.size() <= most_digits && digits.find_first_not_of("0123456789") == digits.npos &&
                      std::from_chars(digits.data(), digits.data() + digits.size(), block).ec == std::errc{};
  if (!number) return {name, -1};
  return {text(prefix, "*", name.substr(dot)), block};
}

/// Tensors of consecutive blocks that differ in nothing else.
struct TensorRow {
  const TensorDescription* first = nullptr;
  std::string pattern, state;
  int first_block = -1, last_block = -1;
  Bytes size;

  std::string name() const {
    if (first_block == last_block) return first->name;
    return text("block.", first_block, "-", last_block, pattern.substr(pattern.find('*') + 1));
  }
};

std::vector<TensorRow> rows_of(const Description& d) {
  std::vector<TensorRow> rows;
  for (const auto& t : d.tensors) {
    const auto [pattern, block] = block_of(t.name);
    const auto state = state_of(t, d.verified);
    const auto row = std::ranges::find_if(rows, [&, pattern = pattern, block = block](const TensorRow& r) {
      return block >= 0 && r.last_block == block - 1 && r.pattern == pattern && r.state == state && r.first->kind == t.kind &&
             r.first->shape == t.shape && t.damaged.empty();
    });
    if (row == rows.end()) {
      rows.push_back({&t, pattern, state, block, block, t.size});
    } else {
      row->last_block = block;
      row->size = row->size + t.size;
    }
  }
  return rows;
}

/// The rows of each kind, in the order of the kinds.
std::map<checkpoint::StateKind, std::vector<TensorRow>> rows_by_kind(const Description& d) {
  std::map<checkpoint::StateKind, std::vector<TensorRow>> kinds;
  for (auto& row : rows_of(d)) kinds[row.first->kind].push_back(std::move(row));
  return kinds;
}

bool alike(const std::vector<TensorRow>& a, const std::vector<TensorRow>& b) {
  return std::ranges::equal(a, b, [](const TensorRow& x, const TensorRow& y) {
    return x.name() == y.name() && x.first->shape == y.first->shape && x.size == y.size && x.state == y.state;
  });
}

/// One table for all kinds that have the same tensors in the same state.
std::string tensors(const Description& d, const Style& style) {
  const auto kinds = rows_by_kind(d);
  std::vector<std::pair<std::vector<std::string>, const std::vector<TensorRow>*>> tables;
  for (const auto& [kind, rows] : kinds) {
    const std::string name{checkpoint::group_of(kind)};
    const auto same = std::ranges::find_if(tables, [&rows = rows](const auto& table) { return alike(*table.second, rows); });
    if (same == tables.end())
      tables.push_back({{name}, &rows});
    else
      same->first.push_back(name);
  }
  std::string out;
  for (const auto& [names, rows] : tables) {
    TextTable table{{{joined(names)}, {"shape"}, {"size", Align::right}, {"checksums"}}};
    for (const auto& row : *rows) table.add({row.name(), shape_of(*row.first), to_string(row.size), row.state});
    out += (out.empty() ? "" : "\n") + table.print(style);
  }
  return out;
}

/// With two blanks before each comment, however many stood there.
std::string narrow_comments(std::string_view line) {
  std::string out;
  for (std::size_t at = 0; at < line.size();) {
    const auto after = std::min(line.find_first_not_of(' ', at), line.size());
    const bool comment = after > at && line.substr(after).starts_with("# ");
    out += comment ? std::string_view{"  "} : line.substr(at, after - at);
    const auto next = std::min(line.find(' ', after), line.size());
    out += line.substr(after, next - after);
    at = next;
  }
  return out;
}

/// Of a configuration, the sections and lines that somebody set.
std::string without_defaults(const std::string& configuration) {
  std::istringstream in{configuration};
  std::string out, section;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with('[')) section = line + "\n";
    if (line.empty() || line.starts_with('[') || line.ends_with("# default")) continue;
    out += std::exchange(section, "") + narrow_comments(line) + "\n";
  }
  return out;
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
  if (m.loss_scale) lines.emplace_back("loss scale", text(m.loss_scale->value));
  if (m.exploded) lines.emplace_back("weights", "exploded, or most steps before were skipped: a restart prefers an earlier checkpoint");
  for (const auto& [key, value] : m.provenance) lines.emplace_back(key, key == "configuration" ? without_defaults(value) : value);
  return key_values_within(lines, table_width) + "\n" + tensors(d, style);
}

std::string checkpoint_json(const Description& d, const std::filesystem::path& directory,
                            const std::optional<journal::CheckpointRecord>& newer) {
  files::JsonLine line;
  line.add("directory", directory.string()).add_json("manifest", checkpoint::manifest_to_json(d.manifest));
  if (newer) {
    files::JsonLine place;
    place.add("step", newer->step).add("local", newer->local).add("hosts", newer->hosts);
    line.add_json("undrained_checkpoint", place.text());
  }
  line.add("verified", d.verified).add("damaged_segments", d.damaged_segments()).add_json("tensors", tensor_list_json(d));
  return line.text() + "\n";
}

}  // namespace flotilla::app
