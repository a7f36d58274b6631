// kernels_FILE [SEEDS]: the checks in the natural order and in SEEDS shuffled ones (default 2).
#include "check.hpp"

int main(int count, char** words) {
  const int seeds = count > 1 ? std::atoi(words[1]) : 2;
  for (int seed = 0; seed <= seeds; ++seed) {
    std::printf("%s %d\n", seed == 0 ? "natural order" : "shuffled by", seed);
    for (auto* checks = flotilla::compute::cuda::Checks::first; checks; checks = checks->next)
      checks->run({static_cast<std::uint64_t>(seed)});
  }
  return flotilla::compute::cuda::Comparison::wrong > 0;
}
