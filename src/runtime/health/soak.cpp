#include "flotilla/health/soak.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <exception>
#include <iterator>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "cores.hpp"
#include "flotilla/base/clock.hpp"
#include "flotilla/base/hash.hpp"
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

/// What one hardware thread did since somebody looked, and its bits.
struct LaneNews {
  std::vector<double> times;  ///< processor seconds of steps
  std::int64_t steps = 0;
  std::string first;          ///< digest of its first step; empty: there is none yet
  std::vector<bench::WrongStep> wrong;
};

/// A thread that stays on one hardware thread and repeats the step until it is told to end.
class Lane {
 public:
  Lane(int cpu, Seconds begin, const std::atomic<bool>& over) : cpu_{cpu}, begin_{begin}, over_{over}, thread_{[this] { work(); }} {}

  LaneNews take() {
    const std::lock_guard lock{mutex_};
    if (error_) std::rethrow_exception(error_);
    LaneNews news = std::move(news_);
    news_ = {{}, 0, news.first, {}};
    return news;
  }
  int cpu() const { return cpu_; }

 private:
  void work() {
    try {
      stay_on(cpu_);
      probe::KnownStep step{Precision::fp32, 1};
      while (!over_) tell(step.run());
    } catch (...) {
      const std::lock_guard lock{mutex_};
      error_ = std::current_exception();
    }
  }

  void tell(const probe::KnownStep::Outcome& outcome) {
    const auto digest = hex(outcome.digest);
    const std::lock_guard lock{mutex_};
    if (news_.first.empty()) news_.first = digest;
    if (digest != news_.first) news_.wrong.push_back({now() - begin_, cpu_, digest, news_.first});
    news_.times.push_back(outcome.processor.value);
    ++news_.steps;
  }

  const int cpu_;
  const Seconds begin_;
  const std::atomic<bool>& over_;
  std::mutex mutex_;
  LaneNews news_;
  std::exception_ptr error_;
  std::jthread thread_;  ///< last: the others are there when it starts
};

double median_time(std::vector<double> times) {
  if (times.empty()) return 0;
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::ranges::nth_element(times, middle);
  return *middle;
}

/// The first digest of most threads.
std::string usual_first(const std::vector<std::string>& firsts) {
  std::map<std::string, int> votes;
  for (const auto& first : firsts)
    if (!first.empty()) ++votes[first];
  const auto most = std::ranges::max_element(votes, {}, [](const auto& vote) { return vote.second; });
  return most == votes.end() ? "" : most->first;
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
    for (const int cpu : cpus_) lanes_.emplace_back(cpu, begin_, over_);
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
    if (told_ - window_begin_ >= window_) close_window();
    test_.progress(soak_);
  }

  void collect(std::size_t lane, LaneNews news) {
    times_.insert(times_.end(), news.times.begin(), news.times.end());
    soak_.steps += news.steps;
    sometimes_ += static_cast<std::int64_t>(news.wrong.size());
    for (auto& wrong : news.wrong)
      if (soak_.wrong.size() < most_wrong) soak_.wrong.push_back(std::move(wrong));
    firsts_[lane] = news.first;
    constant_[lane] += news.steps;
  }

  /// A thread that always gives other bits than most gives none but wrong ones.
  void count_constant() {
    const auto right = usual_first(firsts_);
    soak_.wrong_steps = sometimes_;
    for (std::size_t l = 0; l < lanes_.size(); ++l) {
      if (firsts_[l].empty() || firsts_[l] == right) continue;
      soak_.wrong_steps += constant_[l];
      const bool known = std::ranges::any_of(soak_.wrong, [&](const auto& w) { return w.cpu == lanes_[l].cpu() && w.digest == firsts_[l]; });
      if (!known && soak_.wrong.size() < most_wrong) soak_.wrong.push_back({soak_.lasted, lanes_[l].cpu(), firsts_[l], right});
    }
  }

  void close_window() {
    bench::SoakWindow window;
    window.at = soak_.lasted;
    window.steps = static_cast<double>(times_.size()) / (told_ - window_begin_).value;
    window.step = {median_time(std::move(times_))};
    window.others = others_.share().value_or(-1);
    window.temperature = std::max(processor_temperature(test_.sys), gpu_temperature());
    window.frequency = clock_of(cpus_, test_.sys);
    soak_.windows.push_back(window);
    times_.clear();
    others_ = OtherWork{};
    window_begin_ = told_;
  }

  const SoakTest& test_;
  const std::vector<int> cpus_;
  const WearCounters counters_;
  const Seconds begin_ = now();
  Seconds window_, told_ = begin_, window_begin_ = begin_;
  std::atomic<bool> over_{false};
  std::deque<Lane> lanes_;  ///< lanes do not move
  bench::Soak soak_;
  std::vector<double> times_;  ///< of the window's steps
  std::vector<std::string> firsts_;
  std::vector<std::int64_t> constant_;  ///< steps by lane
  std::int64_t sometimes_ = 0;          ///< steps whose bits differ from their own thread's first
  OtherWork others_;
};

}  // namespace

bench::Soak soak(const SoakTest& test) { return SoakRun{test}.run(); }

}  // namespace flotilla::health
