#include "reshape.hpp"

#include <algorithm>

namespace flotilla::search::pool {
namespace {

class Reshaping {
 public:
  Reshaping(const Sketch& sketch, const Stock& stock, bool unlike_degrees, const std::function<void(Sketch&&)>& visit)
      : sketch_{sketch}, stock_{stock}, unlike_degrees_{unlike_degrees}, visit_{visit} {}

  void run() {
    for (std::size_t s = 0; s < stages(); ++s) {
      for (std::size_t c = 0; c < sketch_.columns.size(); ++c) other_places(s, c);
      other_degrees(s);
      split(s);
      if (s + 1 < stages()) merge(s);
      for (std::size_t to = s + 2; to < stages(); ++to) move_block(s, to);
    }
  }

 private:
  std::size_t stages() const { return sketch_.columns.front().slots.size(); }

  void offer(Sketch&& other) {
    if (stock_.holds(other)) visit_(std::move(other));
  }

  void other_places(std::size_t s, std::size_t c) {
    for (int p = 0; p < static_cast<int>(stock_.places.size()); ++p) {
      const Column& column = sketch_.columns[c];
      if (column.slots[s].place == p) continue;
      Sketch all = sketch_;
      all.columns[c].slots[s].place = p;
      offer(std::move(all));
      if (column.count == 1) continue;
      Sketch one = sketch_;
      --one.columns[c].count;
      Column apart = column;
      apart.count = 1;
      apart.slots[s].place = p;
      one.columns.insert(one.columns.begin() + static_cast<std::ptrdiff_t>(c) + 1, std::move(apart));
      offer(std::move(one));
    }
  }

  void other_degrees(std::size_t s) {
    const bool end = s == 0 || s + 1 == stages();
    if (end && s > 0 && !unlike_degrees_) return;  // with the first
    for (const bool larger : {false, true}) {
      Sketch other = sketch_;
      if (change_degree(other, s, larger) && (!end || unlike_degrees_ || stages() == 1 || change_degree(other, stages() - 1, larger)))
        offer(std::move(other));
    }
  }

  bool change_degree(Sketch& sketch, std::size_t s, bool larger) const {
    for (Column& column : sketch.columns) {
      int& tensor = column.slots[s].tensor;
      if (larger ? tensor * 2 > stock_.request.model.groups() : tensor == 1) return false;
      tensor = larger ? tensor * 2 : tensor / 2;
    }
    return true;
  }

  /// From one stage to another that is not beside it, either way: the stages between keep as many.
  void move_block(std::size_t s, std::size_t to) {
    if (stock_.request.restrictions.even_layers) return;
    for (const int step : {-1, 1}) {
      Sketch other = sketch_;
      for (std::size_t cut = s + 1; cut <= to; ++cut) other.cuts[cut] += step;
      if (other.cuts[s] < other.cuts[s + 1] && other.cuts[to] < other.cuts[to + 1]) offer(std::move(other));
    }
  }

  void split(std::size_t s) {
    const int first = sketch_.cuts[s], last = sketch_.cuts[s + 1];
    if (last - first < 2 || stock_.request.restrictions.even_layers) return;
    Sketch other = sketch_;
    const auto at_s = static_cast<std::ptrdiff_t>(s);
    other.cuts.insert(other.cuts.begin() + at_s + 1, (first + last) / 2);
    other.recompute.insert(other.recompute.begin() + at_s, sketch_.recompute[s]);
    for (Column& column : other.columns) column.slots.insert(column.slots.begin() + at_s, column.slots[s]);
    offer(std::move(other));
  }

  /// On the devices of the first of the two, and on those of the second.
  void merge(std::size_t s) {
    if (stock_.request.restrictions.even_layers) return;
    for (const std::size_t gone : {s + 1, s}) {
      Sketch other = sketch_;
      other.cuts.erase(other.cuts.begin() + static_cast<std::ptrdiff_t>(s) + 1);
      other.recompute.erase(other.recompute.begin() + static_cast<std::ptrdiff_t>(gone));
      for (Column& column : other.columns) column.slots.erase(column.slots.begin() + static_cast<std::ptrdiff_t>(gone));
      offer(std::move(other));
    }
  }

  const Sketch& sketch_;
  const Stock& stock_;
  bool unlike_degrees_;
  const std::function<void(Sketch&&)>& visit_;
};

}  // namespace

void for_each_reshaping(const Sketch& sketch, const Stock& stock, bool unlike_degrees, const std::function<void(Sketch&&)>& visit) {
  if (!sketch.columns.empty()) Reshaping{sketch, stock, unlike_degrees, visit}.run();
}

}  // namespace flotilla::search::pool
