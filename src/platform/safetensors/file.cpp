#include "flotilla/safetensors/file.hpp"

#include <cstring>
#include <utility>

#include "element.hpp"
#include "flotilla/base/error.hpp"
#include "header.hpp"

namespace flotilla::safetensors {
namespace {

template <class T, class Convert>
void convert(const std::byte* source, std::int64_t stride, std::span<float> values, Convert to_float) {
  const auto element = [&](std::int64_t at) {
    T read{};
    std::memcpy(&read, source + at * static_cast<std::int64_t>(sizeof read), sizeof read);
    return to_float(read);
  };
  if (stride == 1) {  // a loop of its own, which compilers make vectors of
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = element(static_cast<std::int64_t>(i));
  } else {
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = element(static_cast<std::int64_t>(i) * stride);
  }
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

void SafetensorsFile::read(const Entry& entry, std::int64_t first, std::int64_t stride, std::span<float> values) const {
  FLOTILLA_ASSERT(entry.precision.has_value(), "tensor ", entry.name, " is of type ", entry.type);
  const auto last = first + (std::ssize(values) - 1) * stride;
  FLOTILLA_ASSERT(values.empty() || (first >= 0 && stride > 0 && last < entry.elements()), "elements ", first, " to ", last, " of tensor ",
                  entry.name);
  const auto* source = mapping_.bytes().data() + entry.first + first * element_size(*entry.precision).count;
  switch (*entry.precision) {
    case Precision::fp32: return convert<float>(source, stride, values, [](float element) { return element; });
    case Precision::bf16: return convert<std::uint16_t>(source, stride, values, [](std::uint16_t element) { return from_bf16(element); });
    case Precision::fp16: return convert<std::uint16_t>(source, stride, values, from_fp16);
  }
}

}  // namespace flotilla::safetensors
