#include "balance.hpp"

#include <algorithm>
#include <cmath>

namespace flotilla::search::pool {
namespace {

/// One stage: what it takes beside its blocks, for a block, and how many its memory holds.
struct Stage {
  double fixed = 0, block = 0;
  int least = 0, most = 0;
  int within(double pace) const {
    if (fixed > pace) return -1;
    return std::min(most, block > 0 ? static_cast<int>(std::min(1e6, (pace - fixed) / block + 1e-9)) : most);
  }
  double time(int blocks) const { return fixed + block * blocks; }
};

class Balance {
 public:
  Balance(Estimator& estimator, Network& network, const Column& column, plan::Recompute recompute, int microbatches)
      : blocks_{estimator.stock().request.model.blocks} {
    const Stock& stock = estimator.stock();
    const int count = static_cast<int>(column.slots.size());
    for (int s = 0; s < count; ++s) {
      const Slot& slot = column.slots[at(s)];
      const int type = stock.places[at(slot.place)].type;
      const Sounding& sounding = estimator.soundings().of(type, slot.tensor, column.microbatch, recompute);
      if (!sounding.usable) return;
      const int in_flight = std::min(count - s, std::max(1, microbatches));
      Stage stage;
      const auto bytes = [&](const Part& part) { return part.state + part.activations * in_flight; };
      double held = sounding.beside;
      if (s == 0) stage.fixed += sounding.embedding.pass, held += bytes(sounding.embedding);
      if (s + 1 == count) stage.fixed += sounding.head.pass, held += bytes(sounding.head);
      stage.least = s > 0 && s + 1 < count ? 1 : 0;
      stage.block = sounding.block.pass;
      const double limit = static_cast<double>(stock.types[at(type)].memory.count);
      const double room = limit > 0 ? std::floor((limit - held) / bytes(sounding.block)) : blocks_;
      stage.most = static_cast<int>(std::clamp<double>(room, -1, blocks_));
      if (estimator.blocks_on(column.microbatch)) {
        const auto message = [&](int from, int to) {
          const int a = column.slots[at(from)].place, b = column.slots[at(to)].place;
          return network.message(a, b, column.microbatch) + network.message(b, a, column.microbatch);
        };
        if (s > 0) stage.fixed += message(s - 1, s);
        if (s + 1 < count) stage.fixed += message(s, s + 1);
      }
      if (stage.most < stage.least) return;
      stages_.push_back(stage);
    }
    usable_ = true;
  }

  std::optional<std::vector<int>> run() const {
    if (!usable_ || room(1e300) < blocks_) return std::nullopt;
    double low = 0, high = 1e-9;
    while (room(high) < blocks_) high *= 4;
    for (int i = 0; i < 40 && high - low > 1e-4 * high; ++i) {
      const double middle = (low + high) / 2;
      (room(middle) >= blocks_ ? high : low) = middle;
    }
    return cuts(high);
  }

 private:
  /// Blocks that all stages take within `pace`; -1 where one cannot keep it.
  int room(double pace) const {
    int all = 0;
    for (const Stage& stage : stages_) {
      const int some = stage.within(pace);
      if (some < stage.least) return -1;
      all += some;
    }
    return all;
  }

  std::vector<int> cuts(double pace) const {
    std::vector<int> counts;
    int surplus = -blocks_;
    for (const Stage& stage : stages_) {
      counts.push_back(stage.within(pace));
      surplus += counts.back();
    }
    for (; surplus > 0; --surplus) {  // off the slowest stage that can spare one
      std::size_t slowest = counts.size();
      for (std::size_t s = 0; s < counts.size(); ++s)
        if (counts[s] > stages_[s].least &&
            (slowest == counts.size() || stages_[s].time(counts[s]) > stages_[slowest].time(counts[slowest])))
          slowest = s;
      --counts[slowest];
    }
    std::vector<int> cuts{0};
    for (const int count : counts) cuts.push_back(cuts.back() + count + (cuts.size() == 1 ? 1 : 0));
    cuts.back() += 1;
    return cuts;
  }

  int blocks_;
  bool usable_ = false;
  std::vector<Stage> stages_;
};

}  // namespace

std::optional<std::vector<int>> balance(Estimator& estimator, Network& network, const Column& column, plan::Recompute recompute,
                                        int microbatches) {
  if (estimator.stock().request.restrictions.even_layers)
    return even_cuts(estimator.stock().request.model.blocks, static_cast<int>(column.slots.size()));
  return Balance{estimator, network, column, recompute, microbatches}.run();
}

std::vector<int> even_cuts(int blocks, int stages) {
  std::vector<int> cuts{0};
  for (int s = 0; s < stages; ++s) cuts.push_back(cuts.back() + blocks / stages + (s < blocks % stages ? 1 : 0) + (s == 0 ? 1 : 0));
  cuts.back() += 1;
  return cuts;
}

}  // namespace flotilla::search::pool
