#include "text_tokens.hpp"

#include <algorithm>
#include <numeric>

#include "flotilla/base/error.hpp"
#include "flotilla/base/philox.hpp"

namespace flotilla::probe {
namespace {

constexpr double mandelbrot_offset = 2.7;

/// Has no divisor in common with the vocabulary, so that its multiples pass every id before one comes again.
std::int64_t id_stride(std::int64_t vocabulary) {
  auto stride = std::max<std::int64_t>(1, vocabulary * 618 / 1000);
  while (std::gcd(stride, vocabulary) != 1) ++stride;
  return stride;
}

}  // namespace

std::vector<std::int32_t> text_tokens(int vocabulary, std::size_t count) {
  FLOTILLA_ASSERT(vocabulary >= 1, "a vocabulary of ", vocabulary);
  std::vector<double> up_to(static_cast<std::size_t>(vocabulary));
  double sum = 0;
  for (std::size_t rank = 0; rank < up_to.size(); ++rank) up_to[rank] = sum += 1 / (static_cast<double>(rank + 1) + mandelbrot_offset);
  const std::int64_t stride = id_stride(vocabulary);
  const Philox random{20261120, 2};
  std::vector<std::int32_t> ids(count);
  for (std::size_t i = 0; i < count; ++i) {
    const double place = static_cast<double>(random(i)[0]) * 0x1p-32 * sum;
    const auto rank = std::min<std::int64_t>(std::ranges::upper_bound(up_to, place) - up_to.begin(), vocabulary - 1);
    ids[i] = static_cast<std::int32_t>(rank * stride % vocabulary);
  }
  return ids;
}

}  // namespace flotilla::probe
