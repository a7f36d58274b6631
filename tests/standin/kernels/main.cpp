// kernels_FILE [SEEDS]: the checks in the natural order and in SEEDS shuffled ones (default 2).
#include "check.hpp"
#include "flotilla/base/philox.hpp"

namespace flotilla::compute::cuda {

double reference_multiplier(const Dropout& d, int column, int row, int sequence, int head) {
  if (!d.on) return 1;
  Philox random;
  random.key0 = d.key0;
  random.key1 = d.key1;
  const auto words = random(static_cast<std::uint64_t>(column / 64 * 16 + column % 16) | static_cast<std::uint64_t>(row) << 32,
                            static_cast<std::uint64_t>(sequence) | static_cast<std::uint64_t>(head) << 32);
  return words[static_cast<std::size_t>(column / 16 % 4)] < d.threshold ? 0.0 : static_cast<double>(d.scale);
}

}  // namespace flotilla::compute::cuda

int main(int count, char** words) {
  const int seeds = count > 1 ? std::atoi(words[1]) : 2;
  for (int seed = 0; seed <= seeds; ++seed) {
    std::printf("%s %d\n", seed == 0 ? "natural order" : "shuffled by", seed);
    flotilla::compute::cuda::run_checks({static_cast<std::uint64_t>(seed)});
  }
  return flotilla::compute::cuda::Comparison::wrong > 0;
}
