#include "check.hpp"
#include "flotilla/base/philox.hpp"

namespace flotilla::compute::cuda {

double reference_multiplier(const KernelDropout& d, int column, int row, int sequence, int head) {
  if (!d.on) return 1;
  Philox random;
  random.key0 = d.key0;
  random.key1 = d.key1;
  const auto words = random(static_cast<std::uint64_t>(column / 64 * 16 + column % 16) | static_cast<std::uint64_t>(row) << 32,
                            static_cast<std::uint64_t>(sequence) | static_cast<std::uint64_t>(head) << 32);
  return words[static_cast<std::size_t>(column / 16 % 4)] < d.threshold ? 0.0 : static_cast<double>(d.scale);
}

}  // namespace flotilla::compute::cuda
