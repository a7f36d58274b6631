#pragma once
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "flotilla/base/half.hpp"
#include "target.hpp"

/// Kernels against references in fp64. target.hpp is where they run: the host (host/) or a device (tests/gpu/first_light). What includes
/// this is compiled without sanitizers: it takes no inline function of the kernels', or the linker might give the kernels the copy that no
/// sanitizer sees.
namespace flotilla::compute::cuda {

/// Half a unit in the last place, relative.
template <class E>
constexpr double rounding = 0x1p-24;
template <>
inline constexpr double rounding<bfloat16> = 0x1p-8;
template <>
inline constexpr double rounding<float16> = 0x1p-11;
constexpr double fp32 = 0x1p-24;
/// Half of the distance of numbers near zero: the error of a result below the smallest normal number.
template <class E>
constexpr double subnormal = 0;
template <>
inline constexpr double subnormal<float16> = 0x1p-25;
template <class E>
constexpr const char* suffix = "_f32";
template <>
inline constexpr const char* suffix<bfloat16> = "_bf16";
template <>
inline constexpr const char* suffix<float16> = "_f16";

inline double value(float v) { return static_cast<double>(v); }
inline double value(double v) { return v; }
inline double value(bfloat16 v) { return static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(v.bits) << 16)); }
inline double value(float16 v) { return static_cast<double>(half_to_float(v.bits)); }
inline void set(float16& to, double v) { to = {half_from_float(static_cast<float>(v))}; }
inline void set(float& to, double v) { to = static_cast<float>(v); }
inline void set(bfloat16& to, double v) {
  to = {static_cast<std::uint16_t>((std::bit_cast<std::uint32_t>(static_cast<float>(v)) + 0x8000u) >> 16)};
}

/// Memory of its own that kernels reach, exactly so long, NaN until written.
template <class T>
class Buffer {
 public:
  explicit Buffer(std::size_t n) : n_{n}, values_{static_cast<T*>(take((n * sizeof(T) + 15) / 16 * 16)), &give_back} {
    std::memset(static_cast<void*>(values_.get()), 0xff, n * sizeof(T));
  }
  operator T*() { return values_.get(); }
  T* get() { return values_.get(); }
  double at(std::size_t i) const { return value(values_.get()[i]); }
  std::size_t size() const { return n_; }
  Buffer& normal(std::mt19937_64& random, double scale = 1, double mean = 0) {
    std::normal_distribution<double> distribution{mean, scale};
    for (std::size_t i = 0; i < n_; ++i) set(values_.get()[i], distribution(random));
    return *this;
  }
  Buffer& fill(T v) {
    for (std::size_t i = 0; i < n_; ++i) values_.get()[i] = v;
    return *this;
  }
  Buffer& copy(const Buffer& from) {
    std::memcpy(static_cast<void*>(values_.get()), from.values_.get(), n_ * sizeof(T));
    return *this;
  }

 private:
  std::size_t n_;
  std::unique_ptr<T, void (*)(void*)> values_;
};

/// Numbers against references: the worst error as a share of its bound.
class Comparison {
 public:
  /// `expected`: there are numbers to compare; none, or some where none should be, is wrong.
  explicit Comparison(std::string name, bool expected = true) : name_{std::move(name)}, expected_{expected} {}
  void add(double got, double reference, double bound) {
    const double share = got == reference ? 0 : std::abs(got - reference) / bound;
    if (!(share <= worst_)) worst_ = share;  // NaN is the worst
    ++count_;
  }
  ~Comparison() {
    const bool good = (count_ > 0) == expected_ && worst_ <= 1;
    if (good && !expected_) return;
    std::printf("  %-36s %7zu values, worst %.3f of its bound%s\n", name_.c_str(), count_, worst_, good ? "" : "  WRONG");
    if (!good) ++wrong;
  }
  static inline int wrong = 0;

 private:
  std::string name_;
  bool expected_;
  double worst_ = 0;
  std::size_t count_ = 0;
};

/// The reference of the dropout: Philox anew.
double reference_multiplier(const KernelDropout&, int column, int row, int sequence, int head);

/// The checks of one file of kernels, which run in the order that they are given.
struct Checks {
  const char* file;
  void (*run)(hostgpu::Order);
  Checks* next;
  Checks(const char* name, void (*checks)(hostgpu::Order)) : file{name}, run{checks}, next{first} { first = this; }
  static inline Checks* first = nullptr;
};

}  // namespace flotilla::compute::cuda
