#include "flotilla/data/format.hpp"

#include <algorithm>
#include <array>

#include "flotilla/base/error.hpp"
#include "flotilla/store/mapped_file.hpp"
#include "token_layout.hpp"

namespace flotilla::data {
namespace {

// In the order of the enumeration.
constexpr std::array<std::string_view, 7> names{"auto", "text", "llmc", "npy", "raw-uint16", "raw-uint32", "megatron"};

std::string joined_names() {
  std::string all;
  for (const auto name : names) all += (all.empty() ? "" : ", ") + std::string{name};
  return all;
}

bool has_text_suffix(const std::filesystem::path& path) {
  constexpr std::array<std::string_view, 3> suffixes{".txt", ".text", ".md"};
  return std::ranges::find(suffixes, path.extension().string()) != suffixes.end();
}

/// No text encoding that a byte model would be given holds a zero byte; token files do from the first small token on.
bool looks_like_text(FileBytes bytes) {
  const auto head = bytes.first(std::min<std::size_t>(bytes.size(), 1 << 16));
  return std::ranges::find(head, std::byte{0}) == head.end();
}

bool is_index_file(const std::filesystem::path& path) {
  std::error_code ignored;  // what is wrong with the file is said when it is opened
  return std::filesystem::is_regular_file(path, ignored) && !std::filesystem::is_empty(path, ignored) &&
         is_megatron_index(store::MappedFile::open(path, token_file).bytes());
}

/// The .bin of a pair, or a prefix that is no file itself.
bool belongs_to_megatron_index(const std::filesystem::path& path) {
  std::error_code ignored;
  if (path.extension() != ".bin" && std::filesystem::exists(path, ignored)) return false;
  return is_index_file(megatron_paths(path).index);
}

}  // namespace

std::string to_string(Format format) { return std::string{names.at(static_cast<std::size_t>(format))}; }

Format parse_format(std::string_view name) {
  const auto found = std::ranges::find(names, name);
  FLOTILLA_REQUIRE(found != names.end(), ErrorKind::bad_input, "unknown data format \"", name, "\"; expected one of ", joined_names());
  return static_cast<Format>(found - names.begin());
}

std::vector<std::string> format_names() { return {names.begin(), names.end()}; }

bool is_named_json(const std::filesystem::path& path) {
  const auto suffix = path.extension();
  return suffix == ".jsonl" || suffix == ".ndjson" || suffix == ".json";
}

Format detect_format(const std::filesystem::path& path) {
  if (belongs_to_megatron_index(path)) return Format::megatron;
  const auto file = store::MappedFile::open(path, token_file);
  if (is_npy(file.bytes())) return Format::npy;
  if (is_llmc(file.bytes())) return Format::llmc;
  if (is_megatron_index(file.bytes())) return Format::megatron;
  const auto suffix = path.extension();
  // A suffix that promises a format: its own reader says best what is wrong.
  if (suffix == ".npy") return Format::npy;
  if (suffix == ".idx") return Format::megatron;
  FLOTILLA_REQUIRE(
      !is_named_json(path), ErrorKind::bad_input, path.string(),
      ": holds JSON, and its braces and keys would be trained on, too; name a tokenizer, which takes the texts out: --data.tokenizer FILE "
      "(there is none beside the weights), or train on the bytes as they are: --data.format text");
  if (has_text_suffix(path) || (suffix != ".bin" && looks_like_text(file.bytes()))) return Format::text;
  throw Error{ErrorKind::bad_input, text(path.string(),
                                         ": byte 0: not the header of a known token file, and not text; name its format: data.format = "
                                         "\"raw-uint16\" or \"raw-uint32\" for bare tokens (of ",
                                         joined_names(), ")")};
}

}  // namespace flotilla::data
