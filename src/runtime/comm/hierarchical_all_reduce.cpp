// Sums hierarchically, whole or by halves (program/hierarchical_all_reduce.hpp states them): level by level contributions go to those who
// add them, then the sums take the same ways back. Every level and way has a tag of its own; what one member gives another at one level
// comes in the order of the pieces.
#include "flotilla/program/hierarchical_all_reduce.hpp"

#include <algorithm>
#include <vector>

#include "flotilla/base/error.hpp"
#include "mpi_operations.hpp"
#include "transfer.hpp"

namespace flotilla::comm {
namespace {

/// A piece that this rank adds, or gives away to be added.
struct SumPiece {
  program::RowRange row_range;
  bool mine = false;            // to add
  std::vector<int> from;        // mine: the members whose contributions are added, in order
  std::vector<Transfer> there;  // contributions in; or mine out
  std::vector<Transfer> back;   // sums out; or the sum in
};

class HierarchicalAllReduce final : public PersistentOperation {
 public:
  HierarchicalAllReduce(const World& world, const ProcessGroup& group, int tag, std::unique_ptr<LocalWork> work, Ways ways, std::byte* data,
                        Bytes element, ElementType type, Bytes capacity, std::byte* staging)
      : group_{group},
        work_{std::move(work)},
        ways_{ways},
        data_{data},
        staging_{staging},
        type_{type},
        width_{element.count},
        capacity_{capacity} {
    const auto levels = program::reduction_levels(group.value(), group.index());
    for (std::size_t l = 0; l < levels.size(); ++l) {
      auto& pieces = levels_.emplace_back();
      const auto add = [&](const program::RowRange& row_range, bool mine, const std::vector<int>& from, const std::vector<int>& others) {
        using enum Transfer::Direction;
        auto& piece = pieces.emplace_back(SumPiece{row_range, mine, from, {}, {}});
        for (int member : others) {
          const Rank rank = group.members()[static_cast<std::size_t>(member)];
          const int first = tag + 2 * static_cast<int>(l);
          piece.there.emplace_back(world, world.reduce(), mine ? receive : send, rank, first);
          piece.back.emplace_back(world, world.reduce(), mine ? send : receive, rank, first + 1);
        }
      };
      for (const auto& adding : levels[l].adds) {
        auto others = adding.from;
        std::erase(others, group.index());
        add(adding.row_range, true, adding.from, others);
      }
      for (const auto& giving : levels[l].gives) add(giving.row_range, false, {}, {giving.to});
    }
  }

  void start(Bytes size) override {
    FLOTILLA_ASSERT(step_ == idle, "started twice: ", describe());
    FLOTILLA_ASSERT(size <= capacity_ && size.count % width_ == 0, size.count, " bytes: ", describe());
    elements_ = size.count / width_;
    step_ = ways_ == Ways::back ? depth() : 0;
    begin_step();
  }

  bool progress() override {
    while (step_ != idle) {
      if (!transfers_done()) return false;
      if (there() && !level_summed()) return false;
      const bool last = step_ + 1 == (ways_ == Ways::there ? depth() : 2 * depth());
      step_ = last ? idle : step_ + 1;
      if (step_ != idle) begin_step();
    }
    return true;
  }

  std::string describe() const override {
    const char* what = ways_ == Ways::both ? "all-reduce " : ways_ == Ways::there ? "reduce-scatter " : "gather of shares, ";
    std::string line = text(what, Bytes{elements_ * width_}, " over the ", group_.describe());
    if (step_ == idle) return line;
    for (const SumPiece& piece : level())
      for (const Transfer& transfer : there() ? piece.there : piece.back)
        if (transfer.in_flight()) return text(line, ", waiting to ", transfer.describe());
    return line;
  }

 private:
  static constexpr int idle = -1;

  int depth() const { return static_cast<int>(levels_.size()); }
  /// Steps go up the levels and down again.
  bool there() const { return step_ < depth(); }
  std::vector<SumPiece>& level() { return levels_[static_cast<std::size_t>(there() ? step_ : 2 * depth() - 1 - step_)]; }
  const std::vector<SumPiece>& level() const { return levels_[static_cast<std::size_t>(there() ? step_ : 2 * depth() - 1 - step_)]; }
  std::int64_t first(const SumPiece& piece) const { return program::position(elements_, piece.row_range.first); }
  std::int64_t count(const SumPiece& piece) const { return program::position(elements_, piece.row_range.last) - first(piece); }
  std::byte* at(std::int64_t element) const { return data_ + element * width_; }

  void begin_step() {
    std::byte* place = staging_;
    for (SumPiece& piece : level())
      for (Transfer& transfer : there() ? piece.there : piece.back) {
        const std::int64_t bytes = count(piece) * width_;
        if (piece.mine != there()) {  // a contribution given away, or a sum sent back
          transfer.start_send(at(first(piece)), bytes);
        } else if (there()) {
          transfer.start_receive(place, bytes);
          place += bytes;
        } else {
          transfer.start_receive(at(first(piece)), bytes);
        }
      }
    next_ = 0;
    staged_ = staging_;
  }

  bool transfers_done() {
    bool all = true;
    for (SumPiece& piece : level())
      for (Transfer& transfer : there() ? piece.there : piece.back) all = transfer.done() && all;
    return all;
  }

  /// True when all of the level is summed, one piece after the other.
  bool level_summed() {
    auto& pieces = level();
    while (work_->progress()) {
      while (next_ < pieces.size() && !pieces[next_].mine) ++next_;
      if (next_ == pieces.size()) return true;
      start_sum(pieces[next_++]);
    }
    return false;
  }

  void start_sum(const SumPiece& piece) {
    const auto members = static_cast<int>(piece.from.size());
    const auto mine = static_cast<int>(std::ranges::find(piece.from, group_.index()) - piece.from.begin());
    work_->start_sum(type_, at(first(piece)), staged_, members, mine, count(piece));
    staged_ += (members - 1) * count(piece) * width_;
  }

  const ProcessGroup& group_;
  const std::unique_ptr<LocalWork> work_;
  const Ways ways_;
  std::byte* data_;
  std::byte* staging_;
  ElementType type_;
  std::int64_t width_;  // bytes of an element
  Bytes capacity_;
  std::vector<std::vector<SumPiece>> levels_;
  int step_ = idle;
  std::int64_t elements_ = 0;
  std::size_t next_ = 0;         // piece to sum
  std::byte* staged_ = nullptr;  // its contributions
};

}  // namespace

std::unique_ptr<PersistentOperation> make_subgroup_sum(const World& world, const ProcessGroup& group, int tag,
                                                       std::unique_ptr<LocalWork> work, Ways ways, std::byte* data, Bytes element,
                                                       ElementType type, Bytes capacity, std::byte* staging) {
  return std::make_unique<HierarchicalAllReduce>(world, group, tag, std::move(work), ways, data, element, type, capacity, staging);
}

}  // namespace flotilla::comm
