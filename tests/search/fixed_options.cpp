#include "fixed_options.hpp"

#include "flotilla/base/text.hpp"
#include "flotilla/plan/recompute_modes.hpp"
#include "flotilla/schedule/schedule.hpp"

namespace flotilla::fixture {
namespace {

using search::Constraints;

template <class Field, class Value>
FixedOption option(std::string name, Field field, Value value) {
  FixedOption out{std::move(name), {}};
  out.constraints.*field = value;
  return out;
}

}  // namespace

std::vector<FixedOption> execution_options() {
  std::vector<FixedOption> all;
  for (const plan::ScheduleKind kind : schedule::schedule_kinds()) all.push_back(option(to_string(kind), &Constraints::schedule, kind));
  all.push_back(option("sequence parallelism", &Constraints::sequence_parallel, true));
  for (const bool shards : {true, false})
    all.push_back(option(shards ? "sharded optimizer" : "no sharded optimizer", &Constraints::shard_optimizer, shards));
  return all;
}

std::vector<FixedOption> fixed_options() {
  std::vector<FixedOption> all = execution_options();
  all.push_back(option("no sequence parallelism", &Constraints::sequence_parallel, false));
  for (const auto mode : {plan::Recompute::none, plan::Recompute::selective, plan::Recompute::full})
    all.push_back(option(text("recompute ", to_string(mode)), &Constraints::recompute, mode));
  for (const int value : {1, 2, 4, 8}) {
    all.push_back(option(text("tensor ", value), &Constraints::tensor, value));
    all.push_back(option(text("microbatch ", value), &Constraints::microbatch, value));
    all.push_back(option(text("pipeline ", value), &Constraints::pipeline, value));
    all.push_back(option(text("data ", value), &Constraints::data, value));
  }
  return all;
}

}  // namespace flotilla::fixture
