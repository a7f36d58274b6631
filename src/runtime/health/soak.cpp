#include "flotilla/health/soak.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <exception>
#include <functional>
#include <iterator>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "cores.hpp"
#include "flotilla/base/clock.hpp"
#include "flotilla/base/hash.hpp"
#include "flotilla/base/text.hpp"
#include "flotilla/compute/kernel_image.hpp"
#include "flotilla/gpu/driver.hpp"
#include "flotilla/health/other_work.hpp"
#include "flotilla/probe/known_step.hpp"
#include "flotilla/topology/topology.hpp"
#include "wear.hpp"

namespace flotilla::health {
namespace {

constexpr double most_windows = 400;
constexpr Seconds least_window{1};
constexpr std::chrono::milliseconds soak_looks{100};
constexpr std::size_t most_wrong = 100;  // that are kept; all are counted
constexpr const char* hardware_thread_type = "hardware thread";

/// What one device did since somebody looked, and its bits.
struct LaneNews {
  std::vector<double> times;  ///< seconds of steps: of the processor, or of the GPU
  std::int64_t steps = 0;
  std::string first;  ///< digest of its first step; empty: there is none yet
  std::vector<bench::WrongStep> wrong;
};

/// A hardware thread or a GPU that repeats a step until it is told to end, by a thread of its own.
class Lane {
 public:
  /// `type`: lanes of one type give the same bits. `work` is given what takes each step's outcome and says whether it is over.
  using Tell = std::function<void(const probe::KnownStep::Outcome&)>;
  using Work = std::function<void(const std::atomic<bool>& over, const Tell&)>;
  Lane(std::string device, std::string type, Seconds begin, const std::atomic<bool>& over, Work work)
      : device_{std::move(device)}, type_{std::move(type)}, begin_{begin}, over_{over}, work_{std::move(work)}, thread_{[this] {
          run();
        }} {}

  LaneNews take() {
    const std::lock_guard lock{mutex_};
    if (error_) std::rethrow_exception(error_);
    LaneNews news = std::move(news_);
    news_ = {{}, 0, news.first, {}};
    return news;
  }
  const std::string& device() const { return device_; }
  const std::string& type() const { return type_; }

 private:
  void run() {
    try {
      work_(over_, [this](const auto& outcome) { tell(outcome); });
    } catch (...) {
      const std::lock_guard lock{mutex_};
      error_ = std::current_exception();
    }
  }

  void tell(const probe::KnownStep::Outcome& outcome) {
    const auto digest = hex(outcome.digest);
    const std::lock_guard lock{mutex_};
    if (news_.first.empty()) news_.first = digest;
    if (digest != news_.first) news_.wrong.push_back({now() - begin_, device_, digest, news_.first});
    news_.times.push_back(type_ == hardware_thread_type ? outcome.processor.value : outcome.wall.value);
    ++news_.steps;
  }

  const std::string device_, type_;
  const Seconds begin_;
  const std::atomic<bool>& over_;
  const Work work_;
  std::mutex mutex_;
  LaneNews news_;
  std::exception_ptr error_;
  std::jthread thread_;  ///< last: the others are there when it starts
};

Lane::Work on_hardware_thread(int cpu) {
  return [cpu](const std::atomic<bool>& over, const Lane::Tell& tell) {
    stay_on(cpu);
    probe::KnownStep step{Precision::fp32, 1};
    while (!over) tell(step.run());
  };
}

/// A load that keeps the GPU at work for about a quarter of a second a step: where the small step takes no time, much wider passes, and
/// many of them between two looks at the bits. The first pass warms up.
probe::KnownStep::Load load_for(const gpu::DeviceFacts& gpu) {
  constexpr Seconds quick{0.02}, wanted{0.25};
  constexpr int wide = 128;
  probe::KnownStep::Load load;
  const auto time_of = [&] {
    probe::KnownStep step{Precision::fp32, gpu, load};
    step.run();
    return step.run().wall;
  };
  Seconds pass = time_of();
  if (pass < quick) load.sequences = wide, pass = time_of();
  constexpr double most_passes = 256;
  load.passes = static_cast<int>(std::clamp(wanted / pass, 1.0, most_passes));
  return load;
}

Lane::Work on_gpu(const gpu::DeviceFacts& gpu, probe::KnownStep::Load load) {
  return [gpu, load](const std::atomic<bool>& over, const Lane::Tell& tell) {
    probe::KnownStep step{Precision::fp32, gpu, load};
    while (!over) tell(step.run());
  };
}

/// Those that this program has kernels for.
std::vector<gpu::DeviceFacts> soaked_gpus() {
  auto found = gpu::presence();
  std::erase_if(found.devices, [&](const auto& facts) { return !compute::why_no_kernels(facts, found.driver_version).empty(); });
  return found.devices;
}

double median_time(std::vector<double> times) {
  if (times.empty()) return 0;
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::ranges::nth_element(times, middle);
  return *middle;
}

/// The first digest of most lanes of a type, once more than half of them have it or all have one; before that "".
std::string usual_first(const std::deque<Lane>& lanes, const std::vector<std::string>& firsts, const std::string& type) {
  std::map<std::string, int> votes;
  int all = 0, voted = 0;
  for (std::size_t l = 0; l < lanes.size(); ++l) {
    if (lanes[l].type() != type) continue;
    ++all;
    if (!firsts[l].empty()) ++voted, ++votes[firsts[l]];
  }
  const auto most = std::ranges::max_element(votes, {}, [](const auto& vote) { return vote.second; });
  return most != votes.end() && (voted == all || 2 * most->second > all) ? most->first : "";
}

std::optional<std::int64_t> since(const std::optional<std::int64_t>& before, const std::optional<std::int64_t>& now) {
  if (!before || !now) return std::nullopt;
  return std::max<std::int64_t>(0, *now - *before);
}

class SoakRun {
 public:
  explicit SoakRun(const SoakTest& test) : test_{test}, cpus_{topology::this_node().usable}, counters_{wear_counters(test.sys)} {
    soak_.wanted = test.length;
    window_ = std::max(least_window, test.length / most_windows);
    add_gpus();
    for (const int cpu : cpus_)
      lanes_.emplace_back(text("hardware thread ", cpu), hardware_thread_type, begin_, over_, on_hardware_thread(cpu));
    firsts_.resize(lanes_.size());
    constant_.resize(lanes_.size());
  }
  ~SoakRun() { over_ = true; }

  bench::Soak run() {
    while (soak_.ended.empty()) {
      std::this_thread::sleep_for(soak_looks);
      if (const auto word = test_.stopped())
        soak_.ended = *word;
      else if (now() - begin_ >= test_.length)
        soak_.ended = "time";
      if (!soak_.ended.empty() || now() - told_ >= least_window) look();
    }
    return soak_;
  }

 private:
  /// Before the hardware threads begin: the load of a GPU is chosen by its time, once for all of its type.
  void add_gpus() {
    const auto gpus = soaked_gpus();
    std::map<std::string, probe::KnownStep::Load> loads;
    for (const auto& gpu : gpus)
      if (!loads.contains(gpu.name)) loads[gpu.name] = load_for(gpu);
    for (const auto& gpu : gpus)
      lanes_.emplace_back(text("GPU ", gpu.ordinal, " (", gpu.name, ")"), gpu.name, begin_, over_, on_gpu(gpu, loads[gpu.name]));
    soak_.gpus = static_cast<int>(gpus.size());
  }

  /// Once a second: what is new, and a window where one is full.
  void look() {
    told_ = now();
    soak_.lasted = told_ - begin_;
    for (std::size_t l = 0; l < lanes_.size(); ++l) collect(l, lanes_[l].take());
    count_constant();
    const auto counters = wear_counters(test_.sys);
    soak_.throttled = since(counters_.throttled, counters.throttled);
    soak_.corrected = since(counters_.corrected, counters.corrected);
    soak_.uncorrected = since(counters_.uncorrected, counters.uncorrected);
    look_at_gpus();
    if (told_ - window_begin_ >= window_) close_window();
    test_.progress(soak_);
  }

  void look_at_gpus() {
    if (soak_.gpus == 0) return;
    gpu_now_ = gpu_wear();
    soak_.gpu_corrected = since(gpu_counters_.corrected, gpu_now_.corrected);
    soak_.gpu_uncorrected = since(gpu_counters_.uncorrected, gpu_now_.uncorrected);
    if (gpu_now_.hot) soak_.gpu_throttled = soak_.gpu_throttled.value_or(0) + (*gpu_now_.hot ? 1 : 0);
  }

  void collect(std::size_t lane, LaneNews news) {
    auto& times = lanes_[lane].type() == hardware_thread_type ? times_ : gpu_times_;
    times.insert(times.end(), news.times.begin(), news.times.end());
    soak_.steps += news.steps;
    sometimes_ += static_cast<std::int64_t>(news.wrong.size());
    for (auto& wrong : news.wrong)
      if (soak_.wrong.size() < most_wrong) soak_.wrong.push_back(std::move(wrong));
    firsts_[lane] = news.first;
    constant_[lane] += news.steps;
  }

  /// A device that always gives other bits than most of its type gives none but wrong ones.
  void count_constant() {
    soak_.wrong_steps = sometimes_;
    for (std::size_t l = 0; l < lanes_.size(); ++l) {
      const auto right = usual_first(lanes_, firsts_, lanes_[l].type());
      if (firsts_[l].empty() || right.empty() || firsts_[l] == right) continue;
      soak_.wrong_steps += constant_[l];
      const bool known =
          std::ranges::any_of(soak_.wrong, [&](const auto& w) { return w.device == lanes_[l].device() && w.digest == firsts_[l]; });
      if (!known && soak_.wrong.size() < most_wrong) soak_.wrong.push_back({soak_.lasted, lanes_[l].device(), firsts_[l], right});
    }
  }

  void close_window() {
    bench::SoakWindow window;
    window.at = soak_.lasted;
    window.steps = static_cast<double>(times_.size()) / (told_ - window_begin_).value;
    window.step = {median_time(std::move(times_))};
    window.gpu_steps = static_cast<double>(gpu_times_.size()) / (told_ - window_begin_).value;
    window.gpu_step = {median_time(std::move(gpu_times_))};
    window.others = others_.share().value_or(-1);
    window.temperature = std::max(processor_temperature(test_.sys), gpu_now_.temperature);
    window.frequency = clock_of(cpus_, test_.sys);
    soak_.windows.push_back(window);
    times_.clear();
    gpu_times_.clear();
    others_ = OtherWork{};
    window_begin_ = told_;
  }

  const SoakTest& test_;
  const std::vector<int> cpus_;
  const WearCounters counters_;
  const GpuWear gpu_counters_ = gpu_wear();
  GpuWear gpu_now_;
  const Seconds begin_ = now();
  Seconds window_, told_ = begin_, window_begin_ = begin_;
  std::atomic<bool> over_{false};
  std::deque<Lane> lanes_;  ///< lanes do not move
  bench::Soak soak_;
  std::vector<double> times_, gpu_times_;  ///< of the window's steps
  std::vector<std::string> firsts_;
  std::vector<std::int64_t> constant_;  ///< steps by lane
  std::int64_t sometimes_ = 0;          ///< steps whose bits differ from their own lane's first
  OtherWork others_;
};

}  // namespace

bench::Soak soak(const SoakTest& test) { return SoakRun{test}.run(); }

}  // namespace flotilla::health
