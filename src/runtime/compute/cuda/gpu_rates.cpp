#include "flotilla/compute/gpu_rates.hpp"

#include <algorithm>
#include <cstring>

#include "cudnn_graph.hpp"
#include "flotilla/base/clock.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/base/philox.hpp"
#include "products.hpp"

namespace flotilla::compute {
namespace {

constexpr Seconds limit{60};
constexpr std::int64_t smallest_copy = 1 << 20, largest_copy = 256 << 20, smallest_product = 256, largest_product = 8192;
constexpr int runs = 3;

/// One device at work, and how long its work takes.
class Bench {
 public:
  Bench(const gpu::DeviceContext& device, Seconds budget)
      : device_{device},
        stream_{device.make_stream()},
        start_{device.make_event(true)},
        end_{device.make_event(true)},
        enough_{budget / 40} {}

  gpu::Stream& stream() { return stream_; }

  /// The best of a few runs; `work` enqueues.
  template <class Work>
  Seconds time(Work&& work) {
    Seconds best{1e30};
    for (int run = 0; run < runs; ++run) {
      stream_.record(start_);
      work();
      stream_.record(end_);
      end_.wait(limit);
      best = std::min(best, gpu::Event::between(start_, end_));
    }
    return best;
  }

  /// Amount per second at the largest size that `time_of` has time for; 0 where even the first size does not fit the device.
  template <class TimeOf>
  double grow(std::int64_t size, std::int64_t largest, double (*amount)(std::int64_t), TimeOf&& time_of) {
    double rate = 0;
    for (; size <= largest; size *= 2) {
      const Seconds seconds = time_of(size);
      if (!(seconds.value > 0)) break;
      rate = std::max(rate, amount(size) / seconds.value);
      if (seconds > enough_) break;
    }
    return rate;
  }
  /// Likewise by the host's clock, until the host knows that it is done.
  template <class Work>
  Seconds time_for_host(Work&& work) {
    Seconds best{1e30};
    for (int run = 0; run < runs; ++run) {
      const Seconds begin = now();
      work();
      stream_.record(end_);
      end_.wait(limit);
      best = std::min(best, now() - begin);
    }
    return best;
  }
  bool fits(std::int64_t bytes) const { return bytes < device_.free_memory().count / 10 * 9; }

 private:
  const gpu::DeviceContext& device_;
  gpu::Stream stream_;
  gpu::Event start_, end_;
  Seconds enough_;
};

double bytes_of(std::int64_t size) { return static_cast<double>(size); }
double twice(std::int64_t size) { return 2 * bytes_of(size); }
double flops_of(std::int64_t n) { return 2 * bytes_of(n) * bytes_of(n) * bytes_of(n); }

void measure_latencies(const gpu::DeviceContext& device, Bench& bench, GpuRates& rates) {
  constexpr Bytes one_number{8};
  const gpu::DeviceBuffer there = device.make_buffer(one_number);
  const gpu::PinnedBuffer here = device.make_pinned(one_number);
  std::ranges::fill(here.bytes(), std::byte{85});
  rates.to_device_latency = bench.time([&] { bench.stream().copy_to_device(there.data(), here.bytes()); });
  rates.to_host_latency = bench.time_for_host([&] { bench.stream().copy_to_host(here.bytes(), there.data()); });
}

void measure_copies(const gpu::DeviceContext& device, Bench& bench, GpuRates& rates) {
  const auto time_copy = [&](bool up) {
    return [&, up](std::int64_t size) {
      if (!bench.fits(size)) return Seconds{};
      const gpu::DeviceBuffer there = device.make_buffer(Bytes{size});
      const gpu::PinnedBuffer here = device.make_pinned(Bytes{size});
      std::ranges::fill(here.bytes(), std::byte{85});
      bench.stream().copy_to_device(there.data(), here.bytes());
      return bench.time([&] {
        up ? bench.stream().copy_to_device(there.data(), here.bytes()) : bench.stream().copy_to_host(here.bytes(), there.data());
      });
    };
  };
  rates.to_device = {bench.grow(smallest_copy, largest_copy, bytes_of, time_copy(true))};
  rates.to_host = {bench.grow(smallest_copy, largest_copy, bytes_of, time_copy(false))};
  measure_latencies(device, bench, rates);
  rates.memory = {bench.grow(smallest_copy, largest_copy, twice, [&](std::int64_t size) {
    if (!bench.fits(2 * size)) return Seconds{};
    const gpu::DeviceBuffer both = device.make_buffer(Bytes{2 * size});
    bench.stream().fill(both.data(), Bytes{2 * size}, 85);
    return bench.time([&] { bench.stream().copy_on_device(both.data() + size, both.data(), Bytes{size}); });
  })};
}

/// Numbers of (-1, 1) in the precision: devices are up to an eighth faster on zeros.
void fill_random(Precision precision, std::span<std::byte> to) {
  const Philox random{15, 1};
  for (std::size_t i = 0; i < to.size() / 4; ++i) {
    const float even = uniform(random(2 * i)[0]) * 2 - 1, odd = uniform(random(2 * i + 1)[0]) * 2 - 1;
    std::uint32_t word = 0, high = 0;
    std::memcpy(&word, &even, sizeof word);
    std::memcpy(&high, &odd, sizeof high);
    if (precision == Precision::bf16) word = word >> 16 | (high & 0xffff0000u);
    std::memcpy(to.data() + 4 * i, &word, sizeof word);
  }
}

/// Both factors are the same numbers over and over: one row's worth is drawn.
gpu::DeviceBuffer random_matrix(const gpu::DeviceContext& device, gpu::Stream& stream, Precision precision, std::int64_t n) {
  const std::int64_t row = n * element_size(precision).count;
  gpu::DeviceBuffer matrix = device.make_buffer(Bytes{n * row});
  const std::int64_t drawn = std::min(n, std::int64_t{64}) * row;
  const gpu::PinnedBuffer numbers = device.make_pinned(Bytes{drawn});
  fill_random(precision, numbers.bytes());
  for (std::int64_t at = 0; at < n * row; at += drawn) stream.copy_to_device(matrix.data() + at, numbers.bytes());
  stream.wait(limit);
  return matrix;
}

/// 0 where there is no algorithm for the precision on this device.
FlopsPerSecond product_rate(const gpu::DeviceContext& device, Bench& bench, cuda::CublasProducts& products, Precision precision) {
  const auto time_product = [&](std::int64_t n) {
    if (!bench.fits(3 * n * n * element_size(precision).count)) return Seconds{};
    const gpu::DeviceBuffer a = random_matrix(device, bench.stream(), precision, n),
                            b = random_matrix(device, bench.stream(), precision, n),
                            c = device.make_buffer(Bytes{n * n * element_size(precision).count});
    const ProductSpec spec{
        .m = n, .n = n, .k = n, .a_row = n, .a_column = 1, .b_row = 1, .b_column = n, .c_row = n, .precision = precision};
    const ProductOperands operands{a.data().address, b.data().address, nullptr, c.data().address};
    products.run(spec, operands, bench.stream());
    return bench.time([&] { products.run(spec, operands, bench.stream()); });
  };
  try {
    return {bench.grow(smallest_product, largest_product, flops_of, time_product)};
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::unavailable || !bench.stream().idle()) throw;
    return {};
  }
}

void measure_products(const gpu::DeviceContext& device, bool tf32, Bench& bench, GpuRates& rates) {
  const gpu::DeviceBuffer workspace = device.make_buffer(cuda::product_workspace);
  cuda::CublasProducts products{device, tf32};
  products.set_workspace({workspace.data().address, static_cast<std::size_t>(workspace.size().count)});
  rates.library = products.version();
  rates.fp32 = product_rate(device, bench, products, Precision::fp32);
  rates.bf16 = product_rate(device, bench, products, Precision::bf16);
}

}  // namespace

std::string product_library() { return cuda::library_version(); }

bool has_attention_library() { return cuda::cudnn::why_none().empty(); }
std::string attention_library() { return has_attention_library() ? cuda::cudnn::library_version() : cuda::cudnn::why_none(); }

GpuRates measure_rates(const gpu::DeviceContext& device, bool tf32, Seconds budget) {
  GpuRates rates;
  Bench bench{device, budget};
  measure_copies(device, bench, rates);
  try {
    measure_products(device, tf32, bench, rates);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::unavailable || !bench.stream().idle()) throw;
    rates.library = error.what();
  }
  return rates;
}

}  // namespace flotilla::compute
