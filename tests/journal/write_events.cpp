// A run of two starts for TensorBoard, into the folder that is the argument: the second repeats steps 81 to 100.
#include <cstdio>

#include "flotilla/journal/tensorboard.hpp"

using namespace flotilla::journal;

namespace {

void steps(TensorboardFile& file, std::int64_t first, std::int64_t last, double more, double time) {
  for (auto step = first; step <= last; ++step)
    file.write(StepRecord{.step = step,
                          .loss = more + 1.0 / static_cast<double>(step),
                          .tokens_per_second = 1e5,
                          .step_seconds = 0.5,
                          .share_of_peak = 0.4,
                          .learning_rate = 3e-4,
                          .gradient_norm = 2,
                          .time = time + static_cast<double>(step)});
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return std::fprintf(stderr, "write_events DIR\n"), 64;
  {
    TensorboardFile file{argv[1], "n1", 1, 0, {"[training]\nsteps = 200\n", "1 stage", "{}"}};
    steps(file, 1, 100, 100, 1e9);
  }
  TensorboardFile file{argv[1], "n1", 2, 80, {"[training]\nsteps = 200\n", "2 stages", "{}"}};
  steps(file, 81, 200, 0, 1e9 + 1000);
  file.write(EvaluationRecord{.step = 200, .loss = 0.75, .sequences = 64, .seconds = 2, .time = 1e9 + 2000});
  return 0;
}
