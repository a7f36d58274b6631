#include "flotilla/safetensors/writer.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "element.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/files/json.hpp"
#include "flotilla/safetensors/folder.hpp"
#include "flotilla/store/disk.hpp"
#include "header.hpp"

namespace flotilla::safetensors {
namespace {

constexpr std::size_t block = 1 << 18;  ///< elements that are converted at a time

std::uint16_t in_half(float value, Precision precision, const std::filesystem::path& path) {
  const auto bits = precision == Precision::bf16 ? to_bf16(value) : to_fp16(value);
  const float held = precision == Precision::bf16 ? from_bf16(bits) : from_fp16(bits);
  FLOTILLA_REQUIRE(!std::isinf(held) || std::isinf(value), ErrorKind::bad_input, path.string(), ": a weight is ", value, ", which ",
                   to_string(precision), " cannot hold; write another precision");
  return bits;
}

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span{text}); }

std::int64_t elements_of(const std::vector<Declared>& tensors) {
  std::int64_t sum = 0;
  for (const auto& tensor : tensors) sum += tensor.elements();
  return sum;
}

}  // namespace

std::int64_t Declared::elements() const { return element_count(shape).value_or(0); }

Writer::Writer(const std::filesystem::path& path, const std::vector<Declared>& tensors, Precision precision)
    : Writer{path, bytes_of(header_text(tensors, precision)), elements_of(tensors), precision} {}

Writer::Writer(const std::filesystem::path& path, std::span<const std::byte> header, std::int64_t elements, Precision precision)
    : file_{store::PlainFile::create(path)},
      precision_{precision},
      at_{std::ssize(header)},
      end_{at_ + elements * element_size(precision).count} {
  store::reserve(path, Bytes{end_});
  file_.write(header, 0);
}

void Writer::write(std::span<const float> values) {
  const auto size = static_cast<std::size_t>(element_size(precision_).count);
  buffer_.resize(block * size);
  while (!values.empty()) {
    const auto now = values.first(std::min(block, values.size()));
    const auto bytes = std::span<const std::byte>{buffer_}.first(now.size() * size);
    FLOTILLA_ASSERT(at_ + std::ssize(bytes) <= end_, file_.path().string(), ": more elements than declared");
    if (precision_ == Precision::fp32) {
      std::memcpy(buffer_.data(), now.data(), bytes.size());
    } else {
      for (std::size_t i = 0; i < now.size(); ++i) {
        const auto bits = in_half(now[i], precision_, file_.path());
        std::memcpy(buffer_.data() + i * size, &bits, size);
      }
    }
    file_.write(bytes, at_);
    at_ += std::ssize(bytes);
    values = values.subspan(now.size());
  }
}

void Writer::close() {
  FLOTILLA_ASSERT(at_ == end_, file_.path().string(), ": ", end_ - at_, " bytes are missing");
  file_.flush();
}

std::string index_text(const std::map<std::string, std::string>& file_of_tensor, std::int64_t bytes) {
  files::JsonLine metadata, map, index;
  for (const auto& [tensor, file] : file_of_tensor) map.add(tensor, file);
  index.add_json("metadata", metadata.add("total_size", bytes).text()).add_json("weight_map", map.text());
  return files::Json::parse(index.text(), index_name).pretty() + "\n";
}

}  // namespace flotilla::safetensors
