#include "chunks.hpp"
#include "index.hpp"

namespace flotilla::program {

std::vector<ChunkStep> steps_of(const schedule::DeviceOrder& order, const std::vector<BoundaryMessages>& boundary_messages, int length,
                                const std::vector<std::int64_t>& own) {
  using enum ChunkStep::What;
  std::vector<ChunkStep> steps;
  const auto receive = [&](const schedule::Arrival& a) {
    const auto& list = a.backward ? boundary_messages[at(a.chunk)].gradients_in : boundary_messages[at(a.chunk)].activations_in;
    const std::int64_t first = std::int64_t{a.shared.first} * length, last = std::int64_t{a.shared.last()} * length;
    for (std::size_t i = 0; i < list.size(); ++i) {
      const BoundaryMessage& boundary_message = list[i];
      const std::int64_t begin = own[at(a.microbatch)] + boundary_message.first;
      const bool here = boundary_message.tokens == 0 || (first <= begin && begin < last);
      if (here && (boundary_message.runs.empty() || any_holds(boundary_message.runs, a.microbatch)))
        steps.push_back({a.backward ? receive_gradient : receive_activation, a.chunk, a.microbatch, static_cast<int>(i)});
    }
  };
  auto next = order.arrivals.begin();
  for (const schedule::TimedPass& pass : order.passes) {
    for (; next != order.arrivals.end() && next->due <= pass.start; ++next) receive(*next);
    steps.push_back({pass.work == schedule::Work::backward ? backward : forward, pass.chunk, pass.microbatch, -1});
  }
  return steps;
}

std::vector<ChunkStep> steps_in_place(int chunks, int microbatches, bool training) {
  std::vector<ChunkStep> steps;
  for (int m = 0; m < microbatches; ++m) {
    for (int c = 0; c < chunks; ++c) steps.push_back({ChunkStep::What::forward, c, m, -1});
    for (int c = chunks - 1; c >= 0 && training; --c) steps.push_back({ChunkStep::What::backward, c, m, -1});
  }
  return steps;
}

}  // namespace flotilla::program
