#include "structure.hpp"

#include <algorithm>
#include <functional>
#include <span>

#include "checksums.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/base/hash.hpp"

namespace flotilla::checkpoint {
namespace {

/// HDF5's superblock and the header of the root group are in it.
constexpr std::int64_t header_bytes = 512;
constexpr std::int64_t block_bytes = 1 << 20, most_bytes = std::int64_t{1} << 30;

using Visit = std::function<void(std::span<const std::byte>, std::int64_t offset)>;

/// First and last byte of each piece of structure, ascending.
std::vector<std::pair<std::int64_t, std::int64_t>> pieces_of(const StateFile& facts) {
  std::vector<std::pair<std::int64_t, std::int64_t>> pieces;
  const auto& ranges = facts.tensor_ranges;
  std::int64_t end = 0;
  for (std::size_t i = 0; i + 1 < ranges.size(); i += 2) {
    pieces.emplace_back(end, ranges[i]);
    end = ranges[i] + ranges[i + 1];
  }
  pieces.emplace_back(end, facts.size.count);
  return pieces;
}

/// Reads the structure from the front to the back, a block at a time.
void visit_structure(const store::PlainFile& file, const StateFile& facts, const Visit& visit) {
  std::int64_t sum = 0;
  std::vector<std::byte> buffer;
  for (auto [first, last] : pieces_of(facts))
    for (; first < last; first += std::ssize(buffer)) {
      buffer.resize(static_cast<std::size_t>(std::min(last - first, block_bytes)));
      FLOTILLA_REQUIRE((sum += std::ssize(buffer)) <= most_bytes, ErrorKind::bad_input, file.path().string(), ": more than ",
                       Bytes{most_bytes}, " of it are no tensors, which no model's checkpoint has");
      file.read(buffer, first);
      visit(buffer, first);
    }
}

/// Both checksums of what is visited.
class StructureChecksums {
 public:
  explicit StructureChecksums(const StateFile& facts)
      : header_end_{std::min(header_bytes, facts.tensor_ranges.empty() ? facts.size.count : facts.tensor_ranges.front())} {}

  void add(std::span<const std::byte> bytes, std::int64_t offset) {
    if (offset < header_end_)
      header_ = crc32c(bytes.first(std::min(bytes.size(), static_cast<std::size_t>(header_end_ - offset))), header_);
    all_ = crc32c(bytes, all_);
  }
  std::uint32_t header() const { return header_; }
  std::uint32_t all() const { return all_; }

  void require(const std::filesystem::path& state, const StateFile& expected) const {
    require("the HDF5 header", header_, expected.header_checksum, state);
    require("the HDF5 structure", all_, expected.structure_checksum, state);
  }

 private:
  static void require(const char* what, std::uint32_t is, std::uint32_t expected, const std::filesystem::path& state) {
    FLOTILLA_REQUIRE(is == expected, ErrorKind::bad_input, state.string(), ": ", what, " has checksum ", hex8(is), ", expected ",
                     hex8(expected), ": the file is damaged; an earlier checkpoint may be whole");
  }

  std::int64_t header_end_;
  std::uint32_t header_ = 0, all_ = 0;
};

}  // namespace

std::vector<std::int64_t> ranges_of(const std::vector<store::Dataset>& tensors) {
  std::vector<std::pair<std::int64_t, std::int64_t>> ranges;
  for (const auto& data : tensors) ranges.emplace_back(data.file_offset().count, data.elements() * 4);
  std::ranges::sort(ranges);
  std::vector<std::int64_t> numbers;
  for (const auto& [first, bytes] : ranges)
    if (!numbers.empty() && numbers[numbers.size() - 2] + numbers.back() == first)
      numbers.back() += bytes;
    else
      numbers.insert(numbers.end(), {first, bytes});
  return numbers;
}

void add_structure_checksums(const std::filesystem::path& state, StateFile& file) {
  StructureChecksums checksums{file};
  visit_structure(store::PlainFile::open_for_reading(state), file, [&](auto bytes, std::int64_t at) { checksums.add(bytes, at); });
  file.header_checksum = checksums.header();
  file.structure_checksum = checksums.all();
}

void copy_structure(const store::PlainFile& from, const StateFile& facts, const store::PlainFile& to) {
  visit_structure(from, facts, [&](auto bytes, std::int64_t at) { to.write(bytes, at); });
}

StateReader open_compared(const std::filesystem::path& state, const StateFile& facts) {
  auto data = store::PlainFile::open_for_reading(state);
  const auto copy = store::PlainFile::in_memory(facts.size);
  StructureChecksums checksums{facts};
  visit_structure(data, facts, [&](auto bytes, std::int64_t at) {
    checksums.add(bytes, at);
    copy.write(bytes, at);
  });
  checksums.require(state, facts);
  auto structure = store::File::open_for_reading(copy.path(), state.string());
  return {std::move(data), std::move(structure)};
}

}  // namespace flotilla::checkpoint
