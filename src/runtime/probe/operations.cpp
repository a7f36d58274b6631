#include "operations.hpp"

#include <algorithm>
#include <numeric>

#include "device.hpp"
#include "flotilla/base/clock.hpp"
#include "flotilla/base/log.hpp"
#include "flotilla/comm/agree.hpp"
#include "one_block.hpp"
#include "samples.hpp"

namespace flotilla::probe {
namespace {

constexpr int least_passes = 3;  // after the first, which makes the library's primitives and touches the memory
constexpr int most_passes = 500;
constexpr Seconds long_pass{0.5};      // of a pass this long one is enough: it is not noise that it measures
constexpr double slowest_flops = 1e9;  // per thread and second; a device slower than that is taken for lost

/// How long the others may take for this shape: passes at the slowest rate, beside the request's deadline.
Seconds patience(const ProbeRequest& request, const OneBlock& block, Seconds slice) {
  return request.deadline + slice * 4 + Seconds{(least_passes + 1) * block.flops() / slowest_flops};
}

ShapeTimes measure_passes(OneBlock& block, const Shape& shape, bool crowded, Seconds slice) {
  block.prepare();
  std::vector<std::vector<double>> samples(model::operation_count);
  std::vector<Seconds> seconds;
  block.pass(seconds);
  const Seconds start = now();
  for (int passes = 0; passes < most_passes; ++passes) {
    const Seconds spent = now() - start;
    const bool enough = passes >= least_passes || (passes >= 1 && spent / passes > long_pass);
    if (enough && spent > slice) break;
    block.pass(seconds);
    for (std::size_t o = 0; o < samples.size(); ++o) samples[o].push_back(seconds[o].value);
  }
  return summarize(shape, samples, crowded);
}

/// The same answer on every rank: whether the shape fits all of them.
bool fits_everywhere(const comm::World& world, const ProbeRequest& request, const OneBlock& block, Bytes memory) {
  const auto answers = mpi::all_gather(world.control(), static_cast<char>(block.memory() <= memory), request.deadline);
  return std::ranges::all_of(answers, [](char fits) { return fits != 0; });
}

/// Rank 0's answer on every rank.
bool rank_0_says(const comm::World& world, const ProbeRequest& request, bool yes) {
  return mpi::broadcast_string(world.control(), yes ? "yes" : "no", 0, request.deadline) == "yes";
}

Seconds pass_time(const ShapeTimes& times) {
  Seconds sum{};
  for (Seconds s : times.seconds) sum += s;
  return sum;
}

/// Forecast of a further shape from the same precision and degree with fewer sequences: passes, and filling the memory again.
Seconds expected(const std::vector<ShapeTimes>& done, const Shape& shape) {
  for (const auto& d : done)
    if (d.shape.precision == shape.precision && d.shape.tensor_parallel == shape.tensor_parallel)
      return pass_time(d) * (static_cast<double>(shape.sequences) / d.shape.sequences) * (least_passes + 2);
  return {};
}

class Series {
 public:
  Series(const comm::World& world, const ProbeRequest& request, const Discovery& here, Seconds budget)
      : world_{world},
        request_{request},
        threads_{here.devices[world.rank().index()].threads},
        memory_{here.memory[world.rank().index()]},
        crowded_{here.crowded[world.rank().index()] != 0},
        end_{now() + budget},
        slice_{budget} {}

  std::vector<ShapeTimes> run() {
    const auto order = shapes(request_, world_.size());
    slice_ = slice_ / static_cast<double>(order.size());
    for (const Shape& shape : order) {
      if (!shape.required && !rank_0_says(world_, request_, now() + expected(done_, shape) < end_)) break;
      measure(shape);
    }
    comm::agree_on(
        world_, "measuring operations", [&] { require_every_precision(); }, request_.deadline);
    return std::move(done_);
  }

 private:
  void measure(const Shape& shape) {
    report_progress(request_, text("operations, ", to_string(shape.precision), ", tensor parallel ", shape.tensor_parallel, ", ",
                                   shape.sequences, shape.sequences == 1 ? " sequence" : " sequences"));
    auto block = comm::agree_on(
        world_, "lowering the probe's program",
        [&] {
          return OneBlock{request_.model, request_.length, shape, threads_};
        },
        request_.deadline);
    if (!fits_everywhere(world_, request_, block, memory_)) return leave_out(shape, block);
    done_.push_back(comm::agree_on(
        world_, "measuring operations", [&] { return measure_passes(block, shape, crowded_, slice_); }, patience(request_, block, slice_)));
  }

  void leave_out(const Shape& shape, const OneBlock& block) {
    if (world_.rank() != Rank{0} || !shape.required) return;
    log::warning("probe: ", to_string(shape.precision), " at tensor-parallel degree ", shape.tensor_parallel, " with ", shape.sequences,
                 " sequences is not measured: its ", block.memory(), " do not fit every device");
  }

  void require_every_precision() const {
    for (Precision precision : request_.precisions) {
      const bool measured = std::ranges::any_of(done_, [&](const auto& d) { return d.shape.precision == precision; });
      FLOTILLA_REQUIRE(measured, ErrorKind::unavailable, "probe: no tensor-parallel degree of ", request_.model.name, " in ",
                       to_string(precision), " fits the devices' memory (", memory_, " here); use more ranks or a smaller model or length");
    }
  }

  const comm::World& world_;
  const ProbeRequest& request_;
  int threads_;
  Bytes memory_;
  bool crowded_;
  Seconds end_, slice_;
  std::vector<ShapeTimes> done_;
};

FlopsPerSecond peak_if_there(const ProbeRequest& request, Precision precision, int threads, Seconds budget) {
  try {
    return peak(precision, threads, budget);
  } catch (const Error&) {
    if (std::ranges::find(request.precisions, precision) != request.precisions.end()) throw;
    return {};
  }
}

}  // namespace

ShapeTimes summarize(const Shape& shape, const std::vector<std::vector<double>>& samples, bool crowded) {
  ShapeTimes result{shape, {}, {}};
  double mean_pass = 0;
  for (const auto& s : samples) {
    result.seconds.push_back({median(s)});
    result.scatter.push_back(relative_scatter(s));
    mean_pass += std::accumulate(s.begin(), s.end(), 0.0) / static_cast<double>(s.size());
  }
  const Seconds medians = pass_time(result);
  if (crowded && medians.value > 0 && mean_pass > medians.value)
    for (Seconds& s : result.seconds) s = s * (mean_pass / medians.value);
  return result;
}

std::vector<ShapeTimes> operation_times(const comm::World& world, const ProbeRequest& request, const Discovery& here, Seconds budget) {
  return Series{world, request, here, budget}.run();
}

DeviceRates device_rates(const ProbeRequest& request, int threads, Bytes cache, Bytes memory, Seconds budget) {
  DeviceRates rates;
  rates.memory_bandwidth = memory_bandwidth(threads, triad_size(cache, memory));
  rates.peak_fp32 = peak_if_there(request, Precision::fp32, threads, budget * 0.3);
  rates.peak_bf16 = peak_if_there(request, Precision::bf16, threads, budget * 0.3);
  const Seconds each = budget * (0.4 / static_cast<double>(request.precisions.size()));
  for (Precision precision : request.precisions)
    rates.elements.push_back(element_times(request.model, request.length, precision, threads, each));
  return rates;
}

}  // namespace flotilla::probe
