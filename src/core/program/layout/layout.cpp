#include "layout.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

namespace flotilla::program {
namespace {

/// Where in a phase a buffer is alive: from the write that begins it to its last use. Empty when first > last.
struct Life {
  int first = std::numeric_limits<int>::max(), last = -1;
  bool meets(const Life& other) const { return first <= other.last && other.first <= last; }
};

struct OffsetCandidate {
  bool shareable = true;
  std::vector<Life> lives;  ///< by phase
  bool meets(const OffsetCandidate& other) const {
    for (std::size_t phase = 0; phase < lives.size(); ++phase)
      if (lives[phase].meets(other.lives[phase])) return true;
    return false;
  }
};

class Lives {
 public:
  Lives(const RankClass& c, const std::vector<const std::vector<int>*>& phases) : class_{c}, of_(c.buffers.size()) {
    for (std::size_t b = 0; b < of_.size(); ++b) {
      of_[b].shareable = !c.buffers[b].persistent && c.buffers[b].copies == 1;
      of_[b].lives.resize(phases.size());
    }
    for (std::size_t phase = 0; phase < phases.size(); ++phase) follow(*phases[phase], phase);
    for (const auto& instruction : c.instructions)
      if (instruction.queue != Queue::compute || !instruction.per_microbatch)
        for (const auto& access : instruction.accesses) at(access.buffer).shareable = false;
  }

  bool may_share(std::size_t a, std::size_t b) const { return of_[a].shareable && of_[b].shareable && !of_[a].meets(of_[b]); }

 private:
  OffsetCandidate& at(int buffer) { return of_[static_cast<std::size_t>(buffer)]; }

  void follow(const std::vector<int>& phase, std::size_t number) {
    for (int position = 0; position < static_cast<int>(phase.size()); ++position)
      for (const auto& access : class_.instructions[static_cast<std::size_t>(phase[static_cast<std::size_t>(position)])].accesses) {
        auto& candidate = at(access.buffer);
        auto& range = candidate.lives[number];
        // A value that is read before this phase writes it lives across phases: such a buffer keeps its memory to itself.
        if (range.last < 0 && access.mode != Mode::write) candidate.shareable = false;
        range.first = std::min(range.first, position);
        range.last = position;
      }
  }

  const RankClass& class_;
  std::vector<OffsetCandidate> of_;
};

Bytes extent(const Buffer& b) { return b.copies * b.stride; }

/// The lowest offset at which `size` bytes meet none of the placed buffers (sorted by offset) that must be avoided.
Bytes first_fit(Bytes floor, Bytes size, const std::vector<const Buffer*>& avoid) {
  Bytes offset = floor;
  for (const Buffer* b : avoid)
    if (offset < b->offset + extent(*b) && b->offset < offset + size) offset = b->offset + extent(*b);
  return offset;
}

}  // namespace

void lay_out(RankClass& c, const std::vector<const std::vector<int>*>& phases) {
  Bytes end{};
  std::vector<std::size_t> temporaries;
  for (std::size_t b = 0; b < c.buffers.size(); ++b) {
    if (!c.buffers[b].persistent) {
      temporaries.push_back(b);
      continue;
    }
    c.buffers[b].offset = end;
    end += extent(c.buffers[b]);
  }
  const Bytes floor = end;
  const Lives lives{c, phases};
  std::stable_sort(temporaries.begin(), temporaries.end(),
                   [&](std::size_t x, std::size_t y) { return extent(c.buffers[x]) > extent(c.buffers[y]); });
  std::vector<std::size_t> placed;
  for (std::size_t b : temporaries) {
    std::vector<const Buffer*> avoid;
    for (std::size_t other : placed)
      if (!lives.may_share(b, other)) avoid.push_back(&c.buffers[other]);
    std::sort(avoid.begin(), avoid.end(), [](const Buffer* x, const Buffer* y) { return x->offset < y->offset; });
    c.buffers[b].offset = first_fit(floor, extent(c.buffers[b]), avoid);
    end = std::max(end, c.buffers[b].offset + extent(c.buffers[b]));
    placed.push_back(b);
  }
  c.arena = end;
}

}  // namespace flotilla::program
