#include "header.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "element.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/base/foreign_text.hpp"
#include "flotilla/files/json.hpp"

namespace flotilla::safetensors {
namespace {

static_assert(std::endian::native == std::endian::little, "the file's numbers are those of memory");

constexpr const char* metadata_key = "__metadata__";

std::int64_t header_bytes(std::span<const std::byte> file, const std::filesystem::path& path) {
  const auto size = std::ssize(file);
  FLOTILLA_REQUIRE(size >= length_bytes, ErrorKind::bad_input, path.string(), ": ends at byte ", size,
                   "; expected 8 bytes with the header's length");
  std::uint64_t length = 0;
  std::memcpy(&length, file.data(), sizeof length);
  FLOTILLA_REQUIRE(length <= static_cast<std::uint64_t>(most_header_bytes), ErrorKind::bad_input, path.string(), ": byte 0: a header of ",
                   length, " bytes; expected at most ", most_header_bytes, ": this is no safetensors file");
  const auto bytes = static_cast<std::int64_t>(length);
  FLOTILLA_REQUIRE(bytes <= size - length_bytes, ErrorKind::bad_input, path.string(), ": byte 0: a header of ", bytes,
                   " bytes; the file has ", size, " in all: it is cut, or no safetensors file");
  return bytes;
}

/// `data` and `data_bytes`: where the tensors' bytes begin in the file, and how many there are.
Entry entry_of(const std::string& name, const files::Json& object, std::int64_t data, std::int64_t data_bytes) {
  object.expect_keys({"dtype", "shape", "data_offsets"});
  Entry entry;
  entry.name = name;
  entry.type = object.get_string("dtype");
  const auto* type = find_type(entry.type);
  if (!type) object.at("dtype").refuse("expected F32, BF16, F16 or another type of safetensors, got " + in_quotes(entry.type));
  entry.precision = type->precision;
  for (const auto& extent : object.at("shape").items()) entry.shape.push_back(extent.as_int64(0));
  const auto elements = element_count(entry.shape);
  if (!elements) object.at("shape").refuse("more elements than any file holds");
  entry.bytes = *elements * type->bytes;
  const auto offsets = object.at("data_offsets");
  const auto ends = offsets.items();
  if (ends.size() != 2) offsets.refuse("expected the offsets of the first byte and of the one after the last");
  entry.first = ends[0].as_int64(0, data_bytes);
  const auto last = ends[1].as_int64(entry.first, data_bytes);
  if (last - entry.first != entry.bytes)
    offsets.refuse(text(last - entry.first, " bytes; the shape has ", entry.bytes, " in ", entry.type));
  entry.first += data;
  return entry;
}

/// Every byte belongs to one tensor: the format says so, and nothing hides between them.
void require_no_gaps(const std::vector<Entry>& entries, std::int64_t data, std::int64_t size, const std::filesystem::path& path) {
  std::int64_t at = data;
  for (const auto& entry : entries) {
    FLOTILLA_REQUIRE(entry.first == at, ErrorKind::bad_input, path.string(), ": tensor ", in_quotes(entry.name), " begins at byte ",
                     entry.first, ", ", entry.first < at ? "inside the one before it, which ends at byte " : "after a gap from byte ", at);
    at += entry.bytes;
  }
  FLOTILLA_REQUIRE(at == size, ErrorKind::bad_input, path.string(), ": the tensors end at byte ", at, "; the file has ", size, " bytes");
}

}  // namespace

std::vector<Entry> read_header(std::span<const std::byte> file, const std::filesystem::path& path) {
  const auto bytes = header_bytes(file, path);
  const auto data = length_bytes + bytes, size = std::ssize(file);
  const std::string header{reinterpret_cast<const char*>(file.data()) + length_bytes, static_cast<std::size_t>(bytes)};
  const auto document = files::Json::parse(header, path.string());
  std::vector<Entry> entries;
  for (const auto& name : document.keys())
    if (name != metadata_key) entries.push_back(entry_of(name, document.at(name), data, size - data));
  std::ranges::sort(entries, [](const Entry& a, const Entry& b) { return std::pair{a.first, a.bytes} < std::pair{b.first, b.bytes}; });
  require_no_gaps(entries, data, size, path);
  return entries;
}

std::string header_text(const std::vector<Declared>& tensors, Precision precision) {
  files::JsonLine header;
  header.add_json(metadata_key, R"({"format": "pt"})");  // transformers refuses a file without
  std::int64_t at = 0;
  for (const auto& tensor : tensors) {
    const auto end = at + tensor.elements() * element_size(precision).count;
    files::JsonLine entry;
    entry.add("dtype", name_of(precision)).add_json("shape", files::json_array(tensor.shape));
    entry.add_json("data_offsets", files::json_array(std::vector<std::int64_t>{at, end}));
    header.add_json(tensor.name, entry.text());
    at = end;
  }
  std::string json = header.text();
  json.resize((json.size() + length_bytes - 1) / length_bytes * length_bytes, ' ');
  const std::uint64_t length = json.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof length) + json;
}

}  // namespace flotilla::safetensors
