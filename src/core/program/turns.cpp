#include "turns.hpp"

#include <algorithm>

namespace flotilla::program {

PassOrder order_of_column(plan::ScheduleKind kind, int stages, int stage, int microbatches) {
  const bool eager = kind != plan::ScheduleKind::gpipe;
  const int ahead = eager ? std::min(microbatches, stages - 1 - stage) : microbatches, steady = microbatches - ahead;
  PassOrder order;
  if (ahead > 0) order.turns.push_back({ahead, 0, -1});
  if (steady > 0) order.turns.push_back({steady, ahead, 0});
  if (ahead > 0) order.turns.push_back({ahead, -1, steady});
  order.in_flight = std::max(1, std::min(microbatches, eager ? stages - stage : microbatches));
  return order;
}

PassOrder forward_order(int microbatches) {
  PassOrder order;
  if (microbatches > 0) order.turns.push_back({microbatches, 0, -1});
  return order;
}

}  // namespace flotilla::program
