// GPipe (Huang et al. 2019, https://arxiv.org/abs/1811.06965): all forward passes, then all backward passes.
#include <algorithm>

#include "schedules.hpp"

namespace flotilla::schedule {
namespace {

class GPipe : public Schedule {
 public:
  PassOrder order(const Position& p) const override {
    PassOrder order;
    order.in_flight = in_flight(p).most;
    if (p.microbatches > 0) order.loops = {{p.microbatches, 0, -1}, {p.microbatches, -1, 0}};
    return order;
  }
  InFlight in_flight(const Position& p) const override {
    const int all = std::max(1, p.microbatches);
    return {all, all};
  }
};

}  // namespace

const Schedule& gpipe() {
  static const GPipe schedule;
  return schedule;
}

}  // namespace flotilla::schedule
