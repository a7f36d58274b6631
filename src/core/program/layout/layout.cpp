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

class Lives {
 public:
  Lives(const RankClass& c, const std::vector<const std::vector<int>*>& phases)
      : class_{c}, phases_{phases.size()}, shareable_(c.buffers.size()), lives_(c.buffers.size() * phases.size()) {
    for (std::size_t b = 0; b < shareable_.size(); ++b) shareable_[b] = !c.buffers[b].persistent && c.buffers[b].copies == 1;
    for (std::size_t phase = 0; phase < phases.size(); ++phase) follow(*phases[phase], phase);
    for (const auto& instruction : c.instructions)
      if (instruction.queue != Queue::compute || !instruction.per_microbatch)
        for (const auto& access : instruction.accesses) shareable_[static_cast<std::size_t>(access.buffer)] = false;
  }

  bool may_share(std::size_t a, std::size_t b) const { return shareable_[a] && shareable_[b] && !meet(a, b); }

 private:
  /// In any phase.
  bool meet(std::size_t a, std::size_t b) const {
    for (std::size_t phase = 0; phase < phases_; ++phase)
      if (lives_[a * phases_ + phase].meets(lives_[b * phases_ + phase])) return true;
    return false;
  }

  void follow(const std::vector<int>& phase, std::size_t number) {
    for (int position = 0; position < static_cast<int>(phase.size()); ++position)
      for (const auto& access : class_.instructions[static_cast<std::size_t>(phase[static_cast<std::size_t>(position)])].accesses) {
        const auto buffer = static_cast<std::size_t>(access.buffer);
        Life& range = lives_[buffer * phases_ + number];
        // A value that is read before this phase writes it lives across phases: such a buffer keeps its memory to itself.
        if (range.last < 0 && access.mode != Mode::write) shareable_[buffer] = false;
        range.first = std::min(range.first, position);
        range.last = position;
      }
  }

  const RankClass& class_;
  std::size_t phases_;
  std::vector<char> shareable_;  ///< by buffer
  std::vector<Life> lives_;      ///< by buffer and phase
};

Bytes extent(const Buffer& b) { return b.copies * b.stride; }

/// The lowest offset at which `size` bytes meet none of the placed buffers (by offset) that may not share their memory.
template <class MayShare>
Bytes first_fit(Bytes floor, Bytes size, const std::vector<std::size_t>& placed, const RankClass& c, const MayShare& may_share) {
  Bytes offset = floor;
  for (const std::size_t other : placed) {
    const Buffer& b = c.buffers[other];
    if (offset < b.offset + extent(b) && b.offset < offset + size && !may_share(other)) offset = b.offset + extent(b);
  }
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
  const auto begins_before = [&](Bytes offset, std::size_t b) { return offset < c.buffers[b].offset; };
  std::vector<std::size_t> placed;  // by offset
  placed.reserve(temporaries.size());
  for (const std::size_t b : temporaries) {
    Buffer& buffer = c.buffers[b];
    buffer.offset = first_fit(floor, extent(buffer), placed, c, [&](std::size_t other) { return lives.may_share(b, other); });
    end = std::max(end, buffer.offset + extent(buffer));
    placed.insert(std::upper_bound(placed.begin(), placed.end(), buffer.offset, begins_before), b);
  }
  c.arena = end;
}

}  // namespace flotilla::program
