#include "tensorboard_event.hpp"

#include <bit>
#include <cstddef>
#include <span>

#include "flotilla/base/hash.hpp"

namespace flotilla::journal {
namespace {

/// A message of Protocol Buffers in the making: fields one behind the other.
class Message {
 public:
  Message& add(int field, std::uint64_t number) { return key(field, 0).varint(number); }
  Message& add(int field, double number) { return key(field, 1).little_endian(std::bit_cast<std::uint64_t>(number), 8); }
  Message& add(int field, float number) { return key(field, 5).little_endian(std::bit_cast<std::uint32_t>(number), 4); }
  Message& add(int field, std::string_view bytes) {
    key(field, 2).varint(bytes.size());
    out_ += bytes;
    return *this;
  }
  Message& add(int field, const Message& part) { return add(field, std::string_view{part.out_}); }

  Message& little_endian(std::uint64_t number, int bytes) {
    for (int i = 0; i < bytes; ++i) out_ += static_cast<char>(number >> (8 * i) & 0xff);
    return *this;
  }
  Message& append(std::string_view bytes) {
    out_ += bytes;
    return *this;
  }
  const std::string& bytes() const { return out_; }

 private:
  Message& key(int field, int wire_type) { return varint(static_cast<std::uint64_t>(field) << 3 | static_cast<std::uint64_t>(wire_type)); }
  Message& varint(std::uint64_t number) {
    for (; number >= 0x80; number >>= 7) out_ += static_cast<char>((number & 0x7f) | 0x80);
    out_ += static_cast<char>(number);
    return *this;
  }
  std::string out_;
};

/// TFRecord's: a checksum of data that may hold checksums.
std::uint32_t masked_checksum(std::string_view bytes) {
  const std::uint32_t crc = crc32c(std::as_bytes(std::span{bytes.data(), bytes.size()}));
  return std::rotr(crc, 15) + 0xa282ead8u;
}

/// Length, its checksum, the message, its checksum.
std::string framed(const Message& event) {
  Message length;
  length.little_endian(event.bytes().size(), 8);
  const auto length_checksum = masked_checksum(length.bytes());
  return length.little_endian(length_checksum, 4).append(event.bytes()).little_endian(masked_checksum(event.bytes()), 4).bytes();
}

Message event_at(double time, std::int64_t step) {
  return Message{}.add(1, time).add(2, static_cast<std::uint64_t>(step));  // wall_time, step
}

}  // namespace

std::string event_of_version(double time) { return framed(Message{}.add(1, time).add(3, std::string_view{"brain.Event:2"})); }

std::string event_of_start(double time, std::int64_t step) {
  constexpr std::uint64_t start = 1;
  return framed(event_at(time, step).add(7, Message{}.add(1, start)));  // session_log.status
}

std::string event_of_scalars(double time, std::int64_t step, const std::vector<Scalar>& scalars) {
  Message summary;
  for (const auto& [tag, value] : scalars)
    summary.add(1, Message{}.add(1, std::string_view{tag}).add(2, static_cast<float>(value)));  // value: tag, simple_value
  return framed(event_at(time, step).add(5, summary));
}

std::string event_of_text(double time, std::int64_t step, std::string_view tag, std::string_view markdown) {
  constexpr std::uint64_t dt_string = 7, one = 1;
  const auto shape = Message{}.add(2, Message{}.add(1, one));                          // dim.size
  const auto tensor = Message{}.add(1, dt_string).add(2, shape).add(8, markdown);      // dtype, tensor_shape, string_val
  const auto metadata = Message{}.add(1, Message{}.add(1, std::string_view{"text"}));  // plugin_data.plugin_name
  return framed(event_at(time, step).add(5, Message{}.add(1, Message{}.add(1, tag).add(8, tensor).add(9, metadata))));
}

}  // namespace flotilla::journal
