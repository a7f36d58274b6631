#include <algorithm>
#include <array>
#include <optional>
#include <ranges>
#include <string_view>

#include "token_layout.hpp"

namespace flotilla::data {
namespace {

constexpr std::int64_t version_at = 9, type_at = 17, sequences_at = 18, documents_at = 26, lengths_at = 34;

/// The index's header and where its three tables begin: lengths (int32), pointers (int64), documents (int64).
struct Index {
  Element element = Element::uint8;
  std::int64_t sequences = 0, documents = 0;
  std::int64_t pointers_at = 0, table_of_documents_at = 0;
};

Element element_of(FileBytes bytes, const std::filesystem::path& path) {
  // Megatron's codes; 6 and 7 are floating-point types.
  constexpr std::array<std::optional<Element>, 9> codes{std::nullopt,   Element::uint8, Element::int8, Element::int16, Element::int32,
                                                        Element::int64, std::nullopt,   std::nullopt,  Element::uint16};
  const auto code = load<std::uint8_t>(bytes, type_at);
  if (code >= codes.size() || !codes[code]) {
    refuse(path, type_at, "expected the code of an integer type (1 to 5, or 8 for uint16), found ", static_cast<int>(code));
  }
  return *codes[code];
}

/// A count that cannot be larger than what the file has room for.
std::int64_t count_at(FileBytes bytes, const std::filesystem::path& path, std::int64_t at, std::int64_t bytes_each, const char* what) {
  const auto count = load<std::uint64_t>(bytes, at);
  const auto room = static_cast<std::uint64_t>((byte_count(bytes) - lengths_at) / bytes_each);
  if (count > room) refuse(path, at, "promises ", count, " ", what, ", but the file has room for ", room, "; it is truncated or damaged");
  if (count == 0) refuse(path, at, "expected at least one of ", what, ", found none");
  return static_cast<std::int64_t>(count);
}

Index read_header(FileBytes bytes, const std::filesystem::path& path) {
  if (!is_megatron_index(bytes)) refuse(path, 0, "expected Megatron's magic MMIDIDX and two zero bytes");
  require_header(bytes, path, lengths_at, "a Megatron index header");
  const auto version = load<std::uint64_t>(bytes, version_at);
  if (version != 1) refuse(path, version_at, "expected version 1 of Megatron's index, found ", version);
  Index index;
  index.element = element_of(bytes, path);
  index.sequences = count_at(bytes, path, sequences_at, 12, "sequences");
  index.documents = count_at(bytes, path, documents_at, 8, "document entries");
  index.pointers_at = lengths_at + 4 * index.sequences;
  index.table_of_documents_at = index.pointers_at + 8 * index.sequences;
  const auto expected = index.table_of_documents_at + 8 * index.documents;
  if (byte_count(bytes) != expected) {
    refuse(path, sequences_at, index.sequences, " sequences and ", index.documents, " document entries need a file of ", expected,
           " bytes, but it has ", byte_count(bytes));
  }
  return index;
}

std::int64_t length_of(FileBytes bytes, std::int64_t sequence) { return load<std::int32_t>(bytes, lengths_at + 4 * sequence); }

void check_pointers(FileBytes bytes, const std::filesystem::path& path, const Index& index) {
  std::int64_t expected = 0;
  for (std::int64_t i = 0; i < index.sequences; ++i) {
    const auto length = length_of(bytes, i);
    if (length < 0) refuse(path, lengths_at + 4 * i, "expected a length that is not negative, found ", length);
    const auto pointer = load<std::int64_t>(bytes, index.pointers_at + 8 * i);
    if (pointer != expected) {
      refuse(path, index.pointers_at + 8 * i, "expected the pointer ", expected, " of sequence ", i, ", found ", pointer,
             "; sequences must lie one after another");
    }
    expected += length * width(index.element);
  }
}

void check_documents(FileBytes bytes, const std::filesystem::path& path, const Index& index) {
  std::int64_t before = 0;
  for (std::int64_t i = 0; i < index.documents; ++i) {
    const auto at = index.table_of_documents_at + 8 * i;
    const auto first = load<std::int64_t>(bytes, at);
    if (first < before || first > index.sequences) {
      refuse(path, at, "expected a document start from ", before, " to ", index.sequences, ", found ", first);
    }
    before = first;
  }
}

/// The first token of a document; the table's last entry is the end of all tokens.
std::int64_t first_token(FileBytes bytes, const std::filesystem::path& path, const Index& index, std::int64_t document) {
  const auto at = index.table_of_documents_at + 8 * document;
  const auto sequence = load<std::int64_t>(bytes, at);
  if (sequence < 0 || sequence > index.sequences)
    refuse(path, at, "expected a document start from 0 to ", index.sequences, ", found ", sequence);
  if (sequence < index.sequences) return load<std::int64_t>(bytes, index.pointers_at + 8 * sequence) / width(index.element);
  const auto last = index.sequences - 1;
  return load<std::int64_t>(bytes, index.pointers_at + 8 * last) / width(index.element) + length_of(bytes, last);
}

}  // namespace

bool is_megatron_index(FileBytes bytes) {
  return bytes.size() >= megatron_magic.size() && std::memcmp(bytes.data(), megatron_magic.data(), megatron_magic.size()) == 0;
}

MegatronPaths megatron_paths(const std::filesystem::path& path) {
  auto index = path, tokens = path;
  const auto suffix = path.extension();
  if (suffix == ".idx" || suffix == ".bin") return {index.replace_extension(".idx"), tokens.replace_extension(".bin")};
  return {index += ".idx", tokens += ".bin"};
}

TokenLayout megatron_layout(FileBytes index_bytes, const std::filesystem::path& index_path, FileBytes tokens,
                            const std::filesystem::path& tokens_path) {
  const auto index = read_header(index_bytes, index_path);
  const auto each = width(index.element);
  const auto last = index.sequences - 1;
  const auto last_pointer = load<std::int64_t>(index_bytes, index.pointers_at + 8 * last);
  const auto last_length = length_of(index_bytes, last);
  if (last_pointer < 0 || last_length < 0 || last_pointer > byte_count(tokens) || last_pointer + last_length * each != byte_count(tokens)) {
    refuse(index_path, index.pointers_at + 8 * last, "the last sequence begins at byte ", last_pointer, " and has ", last_length,
           " tokens of ", each, " bytes, but ", tokens_path.string(), " has ", byte_count(tokens), " bytes; expected it to end there");
  }
  return raw_layout(tokens, tokens_path, index.element);
}

void each_document(FileBytes bytes, const std::filesystem::path& path, std::int64_t first, std::int64_t last,
                   const std::function<void(std::int64_t token)>& visit) {
  const auto index = read_header(bytes, path);
  const auto documents = std::views::iota(std::int64_t{0}, index.documents);
  const auto begins = [&](std::int64_t document) { return first_token(bytes, path, index, document); };
  for (auto document = std::ranges::upper_bound(documents, first, {}, begins); document != documents.end() && begins(*document) < last;
       ++document)
    visit(std::max(first, begins(*document)));
}

void check_megatron_index(FileBytes bytes, const std::filesystem::path& path) {
  const auto index = read_header(bytes, path);
  check_pointers(bytes, path, index);
  check_documents(bytes, path, index);
}

}  // namespace flotilla::data
