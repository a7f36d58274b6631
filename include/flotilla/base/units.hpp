#pragma once
#include <compare>
#include <cstdint>
#include <iosfwd>
#include <string>
#include <string_view>

namespace flotilla {

/// A number of bytes; may be negative in differences.
struct Bytes {
  std::int64_t count = 0;
  constexpr auto operator<=>(const Bytes&) const = default;
  constexpr Bytes& operator+=(Bytes other) {
    count += other.count;
    return *this;
  }
};

/// A duration in seconds.
struct Seconds {
  double value = 0;
  constexpr auto operator<=>(const Seconds&) const = default;
  constexpr Seconds& operator+=(Seconds other) {
    value += other.value;
    return *this;
  }
};

struct BytesPerSecond {
  double value = 0;
  constexpr auto operator<=>(const BytesPerSecond&) const = default;
};

struct FlopsPerSecond {
  double value = 0;
  constexpr auto operator<=>(const FlopsPerSecond&) const = default;
};

/// US dollars.
struct UsDollars {
  double value = 0;
  constexpr auto operator<=>(const UsDollars&) const = default;
};

/// A part of a whole; 1 is all of it.
struct Share {
  double value = 0;
  constexpr auto operator<=>(const Share&) const = default;
};

constexpr Bytes operator+(Bytes a, Bytes b) { return {a.count + b.count}; }
constexpr Bytes operator-(Bytes a, Bytes b) { return {a.count - b.count}; }
constexpr Bytes operator*(Bytes a, std::int64_t n) { return {a.count * n}; }
constexpr Bytes operator*(std::int64_t n, Bytes a) { return {a.count * n}; }
constexpr Seconds operator+(Seconds a, Seconds b) { return {a.value + b.value}; }
constexpr Seconds operator-(Seconds a, Seconds b) { return {a.value - b.value}; }
constexpr Seconds operator*(Seconds a, double n) { return {a.value * n}; }
constexpr Seconds operator*(double n, Seconds a) { return {a.value * n}; }
constexpr Seconds operator/(Seconds a, double n) { return {a.value / n}; }
constexpr double operator/(Seconds a, Seconds b) { return a.value / b.value; }
constexpr Seconds operator/(Bytes size, BytesPerSecond rate) { return {static_cast<double>(size.count) / rate.value}; }

/// `Bytes` rounded up to a multiple of `alignment` (bytes, a power of two).
constexpr Bytes align_up(Bytes size, std::int64_t alignment) { return {(size.count + alignment - 1) / alignment * alignment}; }

/// People's spelling: "1.5 GiB", "250 ms", "9.8 GB/s".
std::string to_string(Bytes);
std::string to_string(Seconds);
std::string to_string(BytesPerSecond);
std::ostream& operator<<(std::ostream&, Bytes);
std::ostream& operator<<(std::ostream&, Seconds);
std::ostream& operator<<(std::ostream&, BytesPerSecond);

/// Reads "64MiB", "1.5GB", "0B". A bare number is refused with the line to write. Throws Error{bad_input}.
Bytes parse_bytes(std::string_view);
/// Reads "90s", "5ms", "10min", "2h", "1.5d". A bare number is refused. Throws Error{bad_input}.
Seconds parse_seconds(std::string_view);
/// Reads "10Gbit/s", "1.2GB/s", "800MiB/s". A bare number is refused. Throws Error{bad_input}.
BytesPerSecond parse_bytes_per_second(std::string_view);
/// Reads "1.2usd", "300USD". A bare number is refused. Throws Error{bad_input}.
UsDollars parse_us_dollars(std::string_view);
/// Reads "1%", "0.5%". A bare number is refused. Throws Error{bad_input}.
Share parse_share(std::string_view);

}  // namespace flotilla
