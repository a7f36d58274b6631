#include <bit>

#include "token_layout.hpp"

namespace flotilla::data {

static_assert(std::endian::native == std::endian::little, "token files are little-endian and are read in place");

void require_exact_size(FileBytes bytes, const std::filesystem::path& path, const TokenLayout& layout, std::int64_t where) {
  const auto there = byte_count(bytes) - layout.offset;
  const auto each = width(layout.element);
  // By division: a lying count times the width may not fit.
  if (there % each == 0 && there / each == layout.count) return;
  refuse(path, where, "promises ", layout.count, " tokens of ", each, " bytes after byte ", layout.offset, ", but ", there,
         " bytes follow; the file is ", there / each < layout.count ? "truncated" : "longer than its header says", " or damaged");
}

TokenLayout text_layout(FileBytes bytes, const std::filesystem::path&) { return {Element::uint8, 0, byte_count(bytes)}; }

TokenLayout raw_layout(FileBytes bytes, const std::filesystem::path& path, Element element) {
  const auto each = width(element);
  if (byte_count(bytes) % each != 0) {
    refuse(path, byte_count(bytes), "the file ends inside a token; expected a multiple of ", each, " bytes");
  }
  return {element, 0, byte_count(bytes) / each};
}

}  // namespace flotilla::data
