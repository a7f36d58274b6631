#include "operations.hpp"

#include <algorithm>
#include <cmath>

#include "few_blocks.hpp"
#include "flotilla/base/clock.hpp"
#include "flotilla/base/log.hpp"
#include "flotilla/comm/agree.hpp"
#include "flotilla/compute/gpu_rates.hpp"
#include "flotilla/mpi/communicator.hpp"
#include "flotilla/probe/device.hpp"

namespace flotilla::probe {
namespace {

constexpr int least_rounds = 3, most_rounds = 24;
constexpr std::size_t shape_samples_for_halves = 3;  // the first of so many: two thirds of a pass more
constexpr Seconds longest_slice_of_gpus{0.1};        // nothing disturbs them: passes differ little
constexpr double slowest_flops = 1e9;                // per thread and second; a device slower than that is taken for lost

/// As Discovery names it.
bool is_gpu(const std::string& gpu) { return !gpu.empty(); }

/// A shape, its program and what was measured.
struct Measuring {
  MeasuredShape shape;
  FewBlocks blocks;
  std::vector<ShapeSample> shape_samples;
};

/// How long the others may take for a visit: passes (the first visit makes two, one with halves less) at the slowest rate, beside the
/// request's deadline.
Seconds patience(const ProbeRequest& request, const FewBlocks& blocks, Seconds slice) {
  return request.deadline + slice * 4 + Seconds{3 * blocks.flops() / slowest_flops};
}

/// Part of the memory that shapes nobody asked for leave to what libraries take.
constexpr std::int64_t left_alone = 8;

/// The same answer on every rank: whether the shape fits all of them.
bool fits_everywhere(const comm::World& world, const ProbeRequest& request, const Measuring& m, Bytes memory) {
  if (!m.shape.required) memory = memory - Bytes{memory.count / left_alone};
  const auto answers = mpi::all_gather(world.control(), static_cast<char>(m.blocks.memory() <= memory), request.deadline);
  return std::ranges::all_of(answers, [](char fits) { return fits != 0; });
}

/// Rank 0's answer on every rank.
bool rank_0_says(const comm::World& world, const ProbeRequest& request, bool yes) {
  return mpi::broadcast_value(world.control(), yes, 0, request.deadline);
}

class Series {
 public:
  Series(const comm::World& world, const ProbeRequest& request, const Discovery& here, Seconds budget)
      : world_{world},
        request_{request},
        threads_{here.devices[world.rank().index()].threads},
        memory_{here.memory[world.rank().index()]},
        crowded_{here.crowded[world.rank().index()] != 0},
        any_gpu_{std::ranges::any_of(here.gpus, is_gpu)},
        all_gpus_{std::ranges::all_of(here.gpus, is_gpu)},
        throttling_{here.least_throttling[world.rank().index()]},
        begin_{now()},
        budget_{budget} {}

  OperationTimes run() {
    const auto order = shapes(request_, world_.size(), any_gpu_);
    slice_ = budget_ / static_cast<double>(order.size() * (least_rounds + 2));
    if (all_gpus_) slice_ = std::min(slice_, longest_slice_of_gpus);
    for (const MeasuredShape& shape : order)
      if (shape.required || fits_the_budget(shape)) open(shape);
    comm::agree_on(
        world_, "measuring operations", [&] { require_every_precision(); }, request_.deadline);
    for (int rounds = 1; more(rounds); ++rounds)
      for (auto& measuring : all_) measure(measuring);
    if (crowded_) log::debug("probe: work takes ", throttling_.all(), " times its processor time, by the quota ", throttling_.least());
    warn_of_others();
    return {summaries(), crowded_ ? throttling_.all() : 1};
  }

 private:
  Seconds elapsed() const { return now() - begin_; }
  Seconds round() const {
    Seconds sum{};
    for (const auto& m : all_) sum += m.shape_samples.back().took - m.shape_samples.back().once;
    return sum;
  }
  /// Of what is measured already, the rounds that are still owed.
  Seconds rest_of_rounds() const { return round() * (least_rounds - 1); }

  /// Forecast of a further shape's rounds from the same precision and degree with other numbers of sequences; 0 where there are none.
  Seconds expected(const MeasuredShape& shape) const {
    std::vector<TimeTaken> once, fill, pass;
    for (const auto& m : all_) {
      if (m.shape.precision != shape.precision || m.shape.tensor_parallel != shape.tensor_parallel) continue;
      const ShapeSample& first = m.shape_samples.front();
      once.push_back({m.shape.sequences, first.once});
      fill.push_back({m.shape.sequences, first.took - first.once - first.wall});
      pass.push_back({m.shape.sequences, first.pass});
    }
    if (pass.empty()) return {};
    const auto of = [&](const auto& taken) { return expected_time(taken, shape.sequences); };
    // A GPU's first shape loads the libraries: only a second one tells what the opening of a further one takes.
    const bool tells = !all_gpus_ || once.size() > 1;
    return (tells ? of(once) : Seconds{}) + (of(fill) + std::max(slice_, of(pass))) * least_rounds;
  }

  /// Whether the slowest rank expects to have measured the shape within the budget, and all that is open too.
  bool fits_the_budget(const MeasuredShape& shape) const {
    const Seconds mine = elapsed() + rest_of_rounds() + expected(shape);
    return std::ranges::max(mpi::all_gather(world_.control(), mine.value, request_.deadline)) < budget_.value;
  }

  /// GPUs that repeat themselves.
  bool needs_no_more() const {
    return all_gpus_ && std::ranges::all_of(all_, [&](const auto& m) {
             return settled(m.shape_samples, least_rounds, crowded_) && repeats_itself(m.shape_samples, least_rounds);
           });
  }

  /// Rank 0's word: until the budget is spent, at least three rounds, unless one is longer than the budget. GPUs that repeat themselves
  /// need no more than the three.
  bool more(int rounds) {
    const bool enough = std::ranges::all_of(mpi::all_gather(world_.control(), static_cast<char>(needs_no_more()), request_.deadline),
                                            [](char yes) { return yes != 0; });
    const bool owed = rounds < least_rounds && round() < budget_;
    const bool wanted = elapsed() + round() < budget_ && !enough;
    return rank_0_says(world_, request_, rounds < most_rounds && (owed || wanted));
  }

  void open(const MeasuredShape& shape) {
    report_progress(request_, text("operations, ", to_string(shape.precision), ", tensor parallel ", shape.tensor_parallel, ", ",
                                   shape.sequences, shape.sequences == 1 ? " sequence" : " sequences"));
    const int count = distinct_blocks(request_.model, shape);
    auto blocks = comm::agree_on(
        world_, "lowering the probe's program",
        [&] {
          FewBlocks few{request_.model, request_.length, shape, threads_, count, request_.device, turns_};
          few.use_text_tokens();
          return few;
        },
        request_.deadline);
    Measuring next{shape, std::move(blocks), {}};
    if (!fits_everywhere(world_, request_, next, memory_)) return leave_out(shape, next.blocks);
    all_.push_back(std::move(next));
    measure(all_.back());
  }

  void measure(Measuring& m) {
    const bool fresh = m.shape_samples.empty(), halves = m.shape_samples.size() % shape_samples_for_halves == 0;
    m.shape_samples.push_back(comm::agree_on(
        world_, "measuring operations",
        [&] {
          return shape_sample(m.blocks, m.shape, slice_, {fresh, halves, crowded_});
        },
        patience(request_, m.blocks, slice_)));
    const ShapeSample& last = m.shape_samples.back();
    add(throttling_, m.shape_samples.size() - 1, last);
    log::debug("probe: tensor parallel ", m.shape.tensor_parallel, ", ", m.shape.sequences, " sequences: a visit of ", last.took,
               ", computed ", last.busy, " of ", last.wall, ", block ",
               Seconds{last.seconds[static_cast<std::size_t>(model::Operation::mlp_forward)]}, crowded_ ? " of processor time" : "");
  }

  void leave_out(const MeasuredShape& shape, const FewBlocks& blocks) {
    if (world_.rank() != Rank{0} || !shape.required) return;
    log::warning("probe: ", to_string(shape.precision), " at tensor-parallel degree ", shape.tensor_parallel, " with ", shape.sequences,
                 " sequences is not measured: its ", blocks.memory(), " do not fit every device");
  }

  void require_every_precision() const {
    for (Precision precision : request_.precisions) {
      const bool measured = std::ranges::any_of(all_, [&](const auto& m) { return m.shape.precision == precision; });
      FLOTILLA_REQUIRE(measured, ErrorKind::unavailable, "probe: no tensor-parallel degree of ", request_.model.name, " in ",
                       to_string(precision), " fits the devices' memory (", memory_, " here); use more ranks or a smaller model or length");
    }
  }

  std::vector<ShapeTimes> summaries() const {
    std::vector<ShapeTimes> times;
    for (const auto& m : all_)
      times.push_back(crowded_ ? summarize(m.shape, m.shape_samples, throttling_) : summarize(m.shape, m.shape_samples));
    std::ranges::stable_sort(times, {}, [](const ShapeTimes& t) { return t.shape.sequences; });
    return times;
  }

  /// One line for all ranks.
  void warn_of_others() const {
    double worst = crowded_ ? throttling_.taken_by_others() : 0;
    for (const auto& m : all_)
      if (!settled(m.shape_samples, 1, crowded_)) worst = std::max(worst, m.shape_samples.back().disturbance());
    const auto by_rank = mpi::all_gather(world_.control(), worst, request_.deadline);
    const auto disturbed = std::ranges::count_if(by_rank, [](double share) { return share > 0; });
    if (world_.rank() != Rank{0} || disturbed == 0) return;
    const auto most = std::ranges::max_element(by_rank);
    const Rank rank{static_cast<int>(most - by_rank.begin())};
    log::warning("probe: other work on ", world_.name(rank), disturbed > 1 ? text(" and ", disturbed - 1, " more") : "", " took up to ",
                 std::lround(100 * *most), " % of the processors' time; times and error bars are too large: measure on a quiet machine");
  }

  const comm::World& world_;
  const ProbeRequest& request_;
  int threads_;
  Bytes memory_;
  bool crowded_, any_gpu_, all_gpus_;
  ThrottlingFactor throttling_;
  Seconds begin_, budget_, slice_;
  std::shared_ptr<TakenInTurns> turns_ = std::make_shared<TakenInTurns>();
  std::vector<Measuring> all_;
};

FlopsPerSecond peak_if_there(const ProbeRequest& request, Precision precision, int threads, Seconds budget) {
  try {
    return peak(precision, threads, budget);
  } catch (const Error&) {
    if (std::ranges::find(request.precisions, precision) != request.precisions.end()) throw;
    return {};
  }
}

compute::Setup setup_of(const ProbeRequest& request, Precision precision, int threads) {
  return {request.model, request.length, 1, 0, precision, threads, 0, false, request.device};
}

std::vector<std::vector<ElementTime>> elements(const ProbeRequest& request, int threads, Bytes memory, Seconds budget, Clock clock) {
  std::vector<std::vector<ElementTime>> times;
  for (Precision precision : request.precisions)
    times.push_back(
        element_times(setup_of(request, precision, threads), budget / static_cast<double>(request.precisions.size()), memory, clock));
  return times;
}

/// A backend has loaded its kernels and libraries: what is gone now of a GPU's memory is no arena's.
double context_of(const gpu::DeviceContext& device, const compute::Setup& setup, int sharers) {
  const Workbench bench{setup};
  return static_cast<double>((device.facts().memory - device.free_memory()).count / sharers);
}

}  // namespace

OperationTimes operation_times(const comm::World& world, const ProbeRequest& request, const Discovery& here, Seconds budget) {
  return Series{world, request, here, budget}.run();
}

DeviceRates device_rates(const ProbeRequest& request, int threads, Bytes cache, Bytes memory, Seconds budget, Clock clock) {
  DeviceRates rates;
  rates.memory_bandwidth = memory_bandwidth(threads, triad_size(cache, memory));
  rates.peak_fp32 = peak_if_there(request, Precision::fp32, threads, budget * 0.3);
  rates.peak_bf16 = peak_if_there(request, Precision::bf16, threads, budget * 0.3);
  rates.elements = elements(request, threads, memory, budget * 0.4, clock);
  return rates;
}

DeviceRates gpu_rates(const ProbeRequest& request, int threads, int sharers, Bytes memory, Seconds budget) {
  const auto device = gpu::DeviceContext::open(request.device.ordinal);
  DeviceRates rates;
  rates.context_bytes = context_of(device, setup_of(request, request.precisions.front(), threads), sharers);
  const auto measured = compute::measure_rates(device, request.device.tf32, budget * 0.6);
  rates.peak_fp32 = measured.fp32;
  rates.peak_bf16 = measured.bf16;
  rates.memory_bandwidth = measured.memory;
  rates.to_device = {measured.to_device_latency, measured.to_device};
  rates.to_host = {measured.to_host_latency, measured.to_host};
  rates.elements = elements(request, threads, memory, budget * 0.4, now);
  return rates;
}

DeviceRates throttled(DeviceRates rates, double throttling) {
  for (auto& of_precision : rates.elements)
    for (ElementTime& element : of_precision) element.per_million = element.per_million * throttling;
  return rates;
}

}  // namespace flotilla::probe
