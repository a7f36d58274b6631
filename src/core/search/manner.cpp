#include "flotilla/search/manner.hpp"

#include "flotilla/base/error.hpp"
#include "flotilla/search/search.hpp"

namespace flotilla::search {
namespace {

constexpr int usual_chunks = 2;

}  // namespace

Manner manner_of(const Fixed& fixed) { return {fixed.schedule, fixed.chunks, fixed.sequence_parallel, fixed.shard_optimizer}; }

Manner settled(Manner manner) {
  constexpr auto interleaved = plan::ScheduleKind::interleaved;
  const int chunks = manner.chunks.value_or(1);
  FLOTILLA_REQUIRE(chunks >= 1, ErrorKind::bad_input, "a device holds ", chunks, " stages; expected at least 1");
  FLOTILLA_REQUIRE(chunks == 1 || manner.schedule.value_or(interleaved) == interleaved, ErrorKind::bad_input, "a device holds ", chunks,
                   " stages, but the schedule is ", to_string(*manner.schedule), "; only the interleaved one knows several");
  if (chunks > 1) manner.schedule = interleaved;
  if (manner.schedule && !manner.chunks) manner.chunks = manner.schedule == interleaved ? usual_chunks : 1;
  return manner;
}

std::optional<plan::Plan> in_chunks(const plan::Plan& plan, int chunks) {
  plan::Plan out = plan;
  out.schedule = plan::ScheduleKind::interleaved;
  out.chunks = chunks;
  out.stages.clear();
  int layer = 0;
  for (int c = 0; c < chunks; ++c)
    for (const plan::Stage& stage : plan.stages) {
      const int layers = stage.last_layer - stage.first_layer;
      plan::Stage chunk = stage;
      chunk.first_layer = layer;
      layer += layers * (c + 1) / chunks - layers * c / chunks;
      chunk.last_layer = layer;
      if (chunk.first_layer == chunk.last_layer) return std::nullopt;
      out.stages.push_back(std::move(chunk));
    }
  return out;
}

plan::Plan in_manner(plan::Plan plan, const Manner& manner) {
  if (manner.sequence_parallel) plan.sequence_parallel = *manner.sequence_parallel;
  if (manner.shard_optimizer) plan.shard_optimizer = *manner.shard_optimizer;
  if (manner.schedule == plan::ScheduleKind::interleaved)
    if (auto chunked = in_chunks(plan, manner.chunks.value_or(usual_chunks))) return std::move(*chunked);
  if (manner.schedule && manner.schedule != plan::ScheduleKind::interleaved) plan.schedule = *manner.schedule;
  return plan;
}

bool keeps(const plan::Plan& plan, const Manner& manner) {
  const auto is = [](const auto& asked, const auto& value) { return !asked || *asked == value; };
  return is(manner.schedule, plan.schedule) && is(manner.chunks, plan.chunks) && is(manner.sequence_parallel, plan.sequence_parallel) &&
         is(manner.shard_optimizer, plan.shard_optimizer);
}

}  // namespace flotilla::search
