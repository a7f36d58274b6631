#include "flotilla/safetensors/file.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <utility>

#include "element.hpp"
#include "flotilla/base/error.hpp"
#include "header.hpp"

namespace flotilla::safetensors {
namespace {

/// Returns the greatest magnitude. Magnitudes are ordered as their bits are, in `Signed`, which every processor compares in vectors; those
/// of what is not finite come last.
template <class Bits, class Signed, class ToFloat>
float convert(const std::byte* source, std::int64_t stride, std::span<float> values, ToFloat to_float) {
  constexpr Bits magnitude = std::numeric_limits<Signed>::max();
  Signed greatest = 0;
  const auto element = [&](std::int64_t at) {
    Bits bits{};
    std::memcpy(&bits, source + at * static_cast<std::int64_t>(sizeof bits), sizeof bits);
    greatest = std::max(greatest, static_cast<Signed>(bits & magnitude));
    return to_float(bits);
  };
  if (stride == 1) {  // a loop of its own, which compilers make vectors of
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = element(static_cast<std::int64_t>(i));
  } else {
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = element(static_cast<std::int64_t>(i) * stride);
  }
  return to_float(static_cast<Bits>(greatest));
}

}  // namespace

std::int64_t Entry::elements() const { return element_count(shape).value_or(0); }

SafetensorsFile SafetensorsFile::open(const std::filesystem::path& path) {
  SafetensorsFile file;
  file.mapping_ = store::MappedFile::open(path, "a safetensors file");
  file.entries_ = read_header(file.mapping_.bytes(), path);
  return file;
}

SafetensorsFile SafetensorsFile::of(store::MappedFile mapping, std::vector<Entry> entries) {
  SafetensorsFile file;
  file.mapping_ = std::move(mapping);
  file.entries_ = std::move(entries);
  return file;
}

float SafetensorsFile::read(const Entry& entry, std::int64_t first, std::int64_t stride, std::span<float> values) const {
  FLOTILLA_ASSERT(entry.precision.has_value(), "tensor ", entry.name, " is of type ", entry.type);
  const auto last = first + (std::ssize(values) - 1) * stride;
  FLOTILLA_ASSERT(values.empty() || (first >= 0 && stride > 0 && last < entry.elements()), "elements ", first, " to ", last, " of tensor ",
                  entry.name);
  const auto* source = mapping_.bytes().data() + entry.first + first * element_size(*entry.precision).count;
  // Not the functions themselves: through a pointer there are no vectors.
  switch (*entry.precision) {
    case Precision::fp32:
      return convert<std::uint32_t, std::int32_t>(source, stride, values, [](std::uint32_t bits) { return std::bit_cast<float>(bits); });
    case Precision::bf16:
      return convert<std::uint16_t, std::int16_t>(source, stride, values, [](std::uint16_t bits) { return from_bf16(bits); });
    case Precision::fp16: break;
  }
  return convert<std::uint16_t, std::int16_t>(source, stride, values, [](std::uint16_t bits) { return from_fp16(bits); });
}

}  // namespace flotilla::safetensors
