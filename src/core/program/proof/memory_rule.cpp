#include "memory_rule.hpp"

#include <algorithm>
#include <array>

#include "flotilla/base/text.hpp"
#include "flotilla/program/collectives.hpp"

namespace flotilla::program {
namespace {

constexpr std::size_t enough_violations = 3;

/// Which instructions are finished when another starts. Queues that run one at a time are known by a count; instructions of the send and
/// receive queues finish in any order, so one of those is finished for `j` only through a chain of waits.
class HappensBefore {
 public:
  HappensBefore(const RankClass& c, const std::vector<IssuedInstruction>& list)
      : queue_(list.size()), place_(list.size()), clock_(list.size()), waiters_(list.size()) {
    std::array<int, queue_count> length{};
    std::array<int, queue_count> previous;
    previous.fill(-1);
    for (std::size_t i = 0; i < list.size(); ++i) {
      const auto q = static_cast<std::size_t>(c.instructions[static_cast<std::size_t>(list[i].instruction)].queue);
      queue_[i] = static_cast<Queue>(q);
      place_[i] = length[q]++;
      if (previous[q] >= 0) {
        merge(i, static_cast<std::size_t>(previous[q]));
        if (runs_one_at_a_time(queue_[i])) clock_[i][q] = std::max(clock_[i][q], place_[i]);
      }
      for (int wait : list[i].waits) {
        const auto w = static_cast<std::size_t>(wait);
        merge(i, w);
        waiters_[w].push_back(static_cast<int>(i));
        if (runs_one_at_a_time(queue_[w])) {
          auto& known = clock_[i][static_cast<std::size_t>(queue_[w])];
          known = std::max(known, place_[w] + 1);
        }
      }
      previous[q] = static_cast<int>(i);
    }
  }

  /// Instruction i is finished when j starts.
  bool operator()(int i, int j) const {
    const auto a = static_cast<std::size_t>(i), b = static_cast<std::size_t>(j);
    if (runs_one_at_a_time(queue_[a])) return place_[a] < clock_[b][static_cast<std::size_t>(queue_[a])];
    return std::any_of(waiters_[a].begin(), waiters_[a].end(), [&](int w) {
      const auto k = static_cast<std::size_t>(w);
      return w == j || (w < j && ((queue_[k] == queue_[b] && place_[k] < place_[b]) || (*this)(w, j)));
    });
  }

 private:
  void merge(std::size_t into, std::size_t from) {
    for (std::size_t q = 0; q < queue_count; ++q) clock_[into][q] = std::max(clock_[into][q], clock_[from][q]);
  }

  std::vector<Queue> queue_;
  std::vector<int> place_;
  std::vector<std::array<int, queue_count>> clock_;  ///< finished instructions of each one-at-a-time queue when this one starts
  std::vector<std::vector<int>> waiters_;
};

/// A message that fills a part of an instance.
struct ArenaPart {
  int writer = -1;
  std::int64_t begin = 0, end = 0;  ///< bytes from the instance's begin
};

/// One instance of a buffer, what was last done to it, and the instances whose memory meets its own (itself included).
struct Cell {
  std::size_t buffer = 0;
  std::int64_t begin = 0, end = 0;
  int writer = -1;                    ///< the latest
  int microbatch = -1;                ///< of the value that `writer` began
  std::vector<ArenaPart> parts = {};  ///< of a value that came in parts: who wrote which
  std::vector<int> readers = {};
  std::vector<std::size_t> meets = {};
};

class Sweep {
 public:
  Sweep(const RankClass& c, const std::vector<IssuedInstruction>& list) : class_{c}, list_{list}, before_{c, list} { make_cells(); }

  std::vector<Violation> run() {
    for (int j = 0; j < static_cast<int>(list_.size()) && violations_.size() < enough_violations; ++j)
      for (const auto& access : instruction_of(j).accesses) apply(j, access);
    return std::move(violations_);
  }

 private:
  const Instruction& instruction_of(int j) const {
    return class_.instructions[static_cast<std::size_t>(list_[static_cast<std::size_t>(j)].instruction)];
  }

  void make_cells() {
    for (std::size_t b = 0; b < class_.buffers.size(); ++b) {
      first_.push_back(cells_.size());
      for (int copy = 0; copy < class_.buffers[b].copies; ++copy) {
        const auto begin = offset_of(class_.buffers[b], copy).count;
        cells_.push_back({b, begin, begin + class_.buffers[b].size.count, -1, -1, {}, {}});
      }
    }
    for (std::size_t a = 0; a < cells_.size(); ++a)
      for (std::size_t b = 0; b < cells_.size(); ++b)
        if (a == b || (cells_[a].begin < cells_[b].end && cells_[b].begin < cells_[a].end)) cells_[a].meets.push_back(b);
  }

  void apply(int j, const Access& access) {
    const auto& buffer = class_.buffers[static_cast<std::size_t>(access.buffer)];
    const int microbatch = list_[static_cast<std::size_t>(j)].microbatch;
    const std::size_t here = first_[static_cast<std::size_t>(access.buffer)] + static_cast<std::size_t>(microbatch % buffer.copies);
    Cell& cell = cells_[here];
    const auto* message = instruction_of(j).as<MessageEnd>();
    if (access.mode == Mode::write && message != nullptr && message->is_part()) return write_part(j, here, microbatch, *message);
    require_ordered(j, here, access.mode != Mode::read);
    if (access.mode != Mode::write && !buffer.persistent) require_value(j, here, microbatch);
    if (access.mode == Mode::read) {
      cell.readers.push_back(j);
    } else {
      cell.writer = j;
      cell.microbatch = microbatch;
      cell.readers.clear();
      cell.parts.clear();
    }
  }

  /// A message that brings a part of a microbatch need not be ordered against those that bring the others.
  void write_part(int j, std::size_t here, int microbatch, const MessageEnd& message) {
    Cell& cell = cells_[here];
    const int sequences = class_.sequences(microbatch);
    const Bytes begin = message.begin(class_.shape.tensor_index, sequences);
    const ArenaPart part{j, begin.count, (begin + message.size.of(sequences)).count};
    const bool joins = cell.microbatch == microbatch && !cell.parts.empty() && cell.readers.empty();
    const bool apart =
        joins && std::ranges::none_of(cell.parts, [&](const ArenaPart& other) { return part.begin < other.end && other.begin < part.end; });
    if (!apart) {
      require_ordered(j, here, true);
      cell.readers.clear();
      cell.parts.clear();
    }
    cell.writer = j;
    cell.microbatch = microbatch;
    cell.parts.push_back(part);
  }

  void require_ordered(int j, std::size_t here, bool writes) {
    for (std::size_t other : cells_[here].meets) {
      const auto& cell = cells_[other];
      if (cell.parts.empty() && cell.writer >= 0 && cell.writer != j && !before_(cell.writer, j)) report(j, here, cell.writer, other);
      for (const ArenaPart& part : cell.parts)
        if (part.writer != j && !before_(part.writer, j)) report(j, here, part.writer, other);
      if (!writes) continue;
      for (int reader : cell.readers)
        if (reader != j && !before_(reader, j)) report(j, here, reader, other);
    }
  }

  /// Tokens of the microbatch that this rank holds between products.
  std::int64_t own_rows(int microbatch) const {
    const std::int64_t tokens = std::int64_t{class_.sequences(microbatch)} * class_.shape.length;
    return class_.shape.sequence_parallel ? piece(tokens, class_.shape.tensor_parallel, class_.shape.tensor_index).count() : tokens;
  }

  void require_value(int j, std::size_t here, int microbatch) {
    if (instruction_of(j).per_microbatch && own_rows(microbatch) == 0) return;  // nothing is sent to who holds nothing
    int latest = -1;
    std::size_t by = here;
    for (std::size_t other : cells_[here].meets)
      if (cells_[other].writer > latest) latest = cells_[other].writer, by = other;
    if (latest >= 0 && by == here && cells_[here].microbatch == microbatch) return require_whole(j, here, microbatch);
    violations_.push_back(
        {Violation::Rule::memory, latest < 0 ? text(describe(j), " reads '", name(here), "', which nothing has written")
                                             : text(describe(j), " reads '", name(here), "', but its memory was last written by ",
                                                    describe(latest), " as '", name(by), "'")});
  }

  /// What came in parts is all there.
  void require_whole(int j, std::size_t here, int microbatch) {
    const auto& parts = cells_[here].parts;
    if (parts.empty()) return;
    std::int64_t there = 0;
    for (const ArenaPart& part : parts) there += part.end - part.begin;
    const std::int64_t token = class_.buffers[cells_[here].buffer].size.count / class_.shape.rows();
    const std::int64_t wanted = token * own_rows(microbatch);
    if (there != wanted)
      violations_.push_back(
          {Violation::Rule::memory, text(describe(j), " reads '", name(here), "', of which ", there, " of ", wanted, " bytes have come")});
  }

  void report(int j, std::size_t here, int earlier, std::size_t other) {
    violations_.push_back({Violation::Rule::memory, text(describe(j), " and ", describe(earlier), " both use the memory of '", name(here),
                                                         "' and '", name(other), "' with no ordering edge between them")});
  }

  const std::string& name(std::size_t cell) const { return class_.buffers[cells_[cell].buffer].name; }
  std::string describe(int j) const {
    return text("stage ", class_.stage, " '", instruction_of(j).name, "' microbatch ", list_[static_cast<std::size_t>(j)].microbatch);
  }

  const RankClass& class_;
  const std::vector<IssuedInstruction>& list_;
  HappensBefore before_;
  std::vector<Cell> cells_;
  std::vector<std::size_t> first_;  ///< cell of instance 0, by buffer
  std::vector<Violation> violations_;
};

}  // namespace

std::vector<Violation> check_memory(const RankClass& c, const std::vector<IssuedInstruction>& list) { return Sweep{c, list}.run(); }

}  // namespace flotilla::program
