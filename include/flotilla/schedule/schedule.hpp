#pragma once
#include <memory>
#include <span>
#include <vector>

#include "flotilla/plan/plan.hpp"
#include "flotilla/schedule/passes.hpp"

/// Pipeline schedules: in which order devices make their passes, what that keeps in memory, and the least time that it takes.
namespace flotilla::schedule {

class PassRule;

/// How much of something there is room for.
struct Fraction {
  std::int64_t part = 1, whole = 1;
  int of(std::int64_t n) const { return static_cast<int>(n * part / whole); }
};

/// A device of a pipeline whose stages are dealt alike.
struct Position {
  int depth = 1;  ///< devices in a row
  int index = 0;  ///< which of them, from 0
  int microbatches = 0;
  int chunks = 1;            ///< stages that the device holds
  Fraction deferrable = {};  ///< of the weight-gradient halves that it would defer for the sake of time (Schedule::deferrable)
};

/// Microbatches of a stage that are between their forward and their backward pass at one time.
struct InFlight {
  int least = 1;  ///< so many are, at some time
  int most = 1;   ///< never more
};

/// One schedule: all that distinguishes it from the others. Each is a file of src/core/schedule, listed in schedules.cpp.
class Schedule {
 public:
  virtual ~Schedule() = default;

  /// The published order, in closed form: O(1) loops where one device holds one stage.
  virtual PassOrder order(const Position&) const = 0;

  /// Where stages are dealt alike; what the orders above keep, without listing them.
  virtual InFlight in_flight(const Position&) const = 0;

  /// Passes of a device, of all its chunks, that are between forward and backward at one time, at most; where stages are dealt alike.
  virtual int passes_in_flight(const Position& p) const { return in_flight(p).most; }

  /// What filling and draining a pipeline of equal stages takes, about, in what 1F1B with one stage a device takes for it. `stages` are the
  /// devices of the pipeline, two at least.
  virtual double fill(int /*chunks*/, int /*microbatches*/, int /*stages*/) const { return 1; }

  /// Rules for the list scheduler, which keeps the order that ends first (the first of equals): for stages that are dealt unlike, and for
  /// devices that hold several stages. None: a device's order depends on its own microbatches alone, `order` says it.
  /// `deferrable`: by stage.
  virtual std::vector<std::unique_ptr<PassRule>> rules(const std::vector<Fraction>& deferrable) const;

  /// Whether devices hold several stages, so that a microbatch comes back to a device on its way forward.
  virtual bool interleaves() const { return false; }

  /// Whether the stage at this index makes its backward passes in two halves.
  virtual bool splits(int index) const;
  /// Weight-gradient halves that wait at this index, at most; of stages dealt alike.
  virtual int most_deferred(int index) const;
  /// Those of a plan's stage that its memory has room for.
  virtual Fraction deferrable(const plan::Plan&, int stage) const;
};

/// All that there are, the usual one first.
std::span<const plan::ScheduleKind> schedule_kinds();
/// What a plan has that names none: every runtime executes it, it makes whole backward passes, and a device holds one stage.
plan::ScheduleKind usual_schedule();
/// The schedule of that name.
const Schedule& schedule_of(plan::ScheduleKind);
/// What the plan's devices do: with one stage each, interleaved 1F1B is 1F1B.
const Schedule& schedule_of(const plan::Plan&);

/// The part of the batch that is under way from each stage on, to the last one and back, where stage s takes `grains[s]` of it at once; in
/// the unit of the grains. What a later stage gathers is waited for by those before it.
std::vector<std::int64_t> under_way(const std::vector<std::int64_t>& grains);
/// The unit for that: the whole batch.
constexpr std::int64_t whole_batch = std::int64_t{1} << 30;
/// Microbatches in flight on a replica that makes `microbatches` of the whole batch, for `under_way` of it.
int in_flight_of(std::int64_t under_way, int microbatches);

}  // namespace flotilla::schedule
