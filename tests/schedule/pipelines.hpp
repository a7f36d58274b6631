#pragma once
#include <random>
#include <string>
#include <vector>

#include "list_scheduler.hpp"

namespace flotilla::schedule::testing {

inline int pick(std::mt19937& random, int least, int most) { return std::uniform_int_distribution{least, most}(random); }

/// "F0 F1 B0 W0 ..."; of several chunks "F0.1": chunk 0, microbatch 1.
inline std::string spelled(const std::vector<Pass>& passes, int chunks = 1) {
  std::string text;
  for (const Pass& pass : passes) {
    text += text.empty() ? "" : " ";
    text += pass.work == Work::forward ? "F" : pass.work == Work::backward ? "B" : "W";
    if (chunks > 1) text += std::to_string(pass.chunk) + ".";
    text += std::to_string(pass.microbatch);
  }
  return text;
}

inline std::vector<Pass> passes_of(const ScheduledDevice& device) { return {device.passes.begin(), device.passes.end()}; }

/// One replica a stage, and the same microbatches in all of them.
class Column {
 public:
  Column(int devices, int microbatches, int chunks = 1) : chunks_{chunks} {
    plan::BatchPartition batch_partition(1);
    for (int m = 0; m < microbatches; ++m) batch_partition.front().push_back({m, 1});
    batch_partitions_.assign(static_cast<std::size_t>(devices), batch_partition);
    boundaries_.resize(batch_partitions_.size());
  }
  PipelineShape shape() const { return {batch_partitions_, boundaries_, chunks_, true}; }

 private:
  int chunks_;
  std::vector<plan::BatchPartition> batch_partitions_;
  std::vector<Boundary> boundaries_;
};

/// The published orders of all devices of a column.
inline std::vector<std::vector<std::vector<Pass>>> published(const Schedule& schedule, int devices, int microbatches, int chunks = 1) {
  std::vector<std::vector<std::vector<Pass>>> all;
  for (int d = 0; d < devices; ++d) all.push_back({schedule::passes_of(schedule.order({devices, d, microbatches, chunks}))});
  return all;
}

}  // namespace flotilla::schedule::testing
