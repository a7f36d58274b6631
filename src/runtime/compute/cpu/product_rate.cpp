#include "flotilla/compute/product_rate.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "flotilla/base/clock.hpp"
#include "flotilla/base/error.hpp"
#include "parallel.hpp"
#include "products.hpp"

namespace flotilla::compute {
namespace {

constexpr std::int64_t rows_of_a_thread = 128, inner = 512, columns = 2048;
constexpr int least_runs = 3;

/// Bytes from a cache line's start.
class Operand {
 public:
  Operand(std::int64_t elements, Precision precision) : bytes_(static_cast<std::size_t>(elements * element_size(precision).count) + line) {}
  std::byte* data() {
    auto address = reinterpret_cast<std::uintptr_t>(bytes_.data());
    return bytes_.data() + (line - address % line) % line;
  }

 private:
  static constexpr std::size_t line = 64;
  std::vector<std::byte> bytes_;
};

}  // namespace

FlopsPerSecond product_rate(Precision precision, int threads, Seconds budget) {
  const std::int64_t rows = rows_of_a_thread * threads;
  const cpu::ThreadCount count{threads};
  cpu::Product product{linear_forward(precision, rows, columns, inner), threads, 1};
  Operand input{rows * inner, precision}, weights{inner * columns, precision}, output{rows * columns, precision};
  Operand scratch{product.scratch_bytes(), Precision::fp32};
  const ProductOperands operands{input.data(), weights.data(), nullptr, output.data()};
  Seconds best{1e30};
  const Seconds end = now() + budget;
  for (int run = -1; run < least_runs || now() < end; ++run) {  // the first one touches the pages
    const Seconds start = now();
    FLOTILLA_REQUIRE(product.run(operands, scratch.data()), ErrorKind::internal, cpu::library_version(), " failed in a product of ", rows,
                     " rows in ", to_string(precision));
    if (run >= 0) best = std::min(best, now() - start);
  }
  return {2.0 * static_cast<double>(rows * inner * columns) / best.value};
}

}  // namespace flotilla::compute
