// The forecast against ourselves: probe once, then train plans of different shapes (twenty on two ranks) and set measured steps beside
// forecast ones.
//
//   mpirun -n RANKS selfcheck_benchmark [--quick] [--rounds N] [--budget SECONDS] [--profile FILE]
//
// Plans take turns, round after round, so that a machine that changes its speed changes all of them. Ends with 1 where something is wrong
// that no clock decides: an arena that is not the forecast's to the byte, a process that holds more than its bound, a forecast that is
// no number. --quick: a few plans of a tiny model, for that alone. --profile: where the probe's profile is kept for later inspection.
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <random>

#include "active_ranks.hpp"
#include "app/common/forecasting.hpp"
#include "app/common/table.hpp"
#include "flotilla/base/clock.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/compute/backend.hpp"
#include "flotilla/files/profile_file.hpp"
#include "flotilla/mpi/session.hpp"
#include "flotilla/plan/plan.hpp"
#include "flotilla/probe/probe.hpp"
#include "flotilla/simulate/forecaster.hpp"
#include "flotilla/train/trainer.hpp"

namespace flotilla {
namespace {

constexpr Seconds deadline{300};

struct Setting {
  bool quick = false;
  int rounds = 3, steps = 4;  ///< timed steps of each plan in each round
  Seconds budget{20};
  std::string profile;
  model::Config model;
  int length = 128, batch = 8;
};

struct Shape {
  int data, pipeline, tensor, microbatch;
  plan::Recompute recompute = plan::Recompute::none;
  plan::ScheduleKind schedule = plan::ScheduleKind::one_f_one_b;
  std::vector<int> cuts{};
};

/// For up to two ranks, and some for four.
std::vector<Shape> shapes(bool quick) {
  using enum plan::Recompute;
  constexpr auto gpipe = plan::ScheduleKind::gpipe;
  constexpr auto split = plan::ScheduleKind::zero_bubble;
  constexpr auto usual = plan::ScheduleKind::one_f_one_b;
  if (quick) return {{1, 1, 1, 2}, {2, 1, 1, 1, full}, {1, 2, 1, 2, none, gpipe}, {1, 2, 1, 2, none, split}, {1, 1, 2, 2, selective}};
  return {{1, 1, 1, 1},
          {1, 1, 1, 2},
          {1, 1, 1, 4},
          {1, 1, 1, 2, selective},
          {1, 1, 1, 2, full},
          {2, 1, 1, 1},
          {2, 1, 1, 2},
          {2, 1, 1, 4},
          {2, 1, 1, 2, selective},
          {2, 1, 1, 4, full},
          {1, 2, 1, 1},
          {1, 2, 1, 2},
          {1, 2, 1, 1, none, gpipe},
          {1, 2, 1, 2, none, gpipe},
          {1, 2, 1, 1, none, split},
          {1, 2, 1, 2, none, split},
          {1, 2, 1, 1, full},
          {1, 2, 1, 1, full, split},
          {1, 2, 1, 2, none, usual, {0, 3, 8}},
          {1, 1, 2, 1},
          {1, 1, 2, 2},
          {1, 1, 2, 4},
          {1, 1, 2, 2, full},
          {4, 1, 1, 1},
          {2, 2, 1, 1},
          {2, 1, 2, 2},
          {1, 2, 2, 2}};
}

/// One plan, what was forecast for it and what was measured. Figures of the slowest or fullest rank.
struct Case {
  plan::Plan plan;
  simulate::Forecast forecast;
  std::vector<double> seconds;
  bool arena_equal = true;
  Bytes beside_arena;  ///< resident, at most
  double ratio() const;
};

double median(std::vector<double> values) {
  std::ranges::sort(values);
  const std::size_t n = values.size();
  return (values[(n - 1) / 2] + values[n / 2]) / 2;
}

double Case::ratio() const { return forecast.iteration.value / median(seconds); }

Setting read(int count, char** words) {
  Setting s;
  s.model = model::built_in("gpt2-mini");
  for (int i = 1; i < count; ++i) {
    const std::string word = words[i];
    const bool has_value = i + 1 < count;
    if (word == "--quick")
      s.quick = true;
    else if (word == "--rounds" && has_value)
      s.rounds = std::stoi(words[++i]);
    else if (word == "--budget" && has_value)
      s.budget = Seconds{std::stod(words[++i])};
    else if (word == "--profile" && has_value)
      s.profile = words[++i];
    else
      throw Error{ErrorKind::usage, text("'", word, "': expected --quick, --rounds N, --budget SECONDS or --profile FILE")};
  }
  if (s.quick) {
    s.model = model::built_in("gpt2-tiny");
    s.rounds = 1;
    s.steps = 2;
    s.budget = Seconds{1};
    s.length = 32;
    return s;
  }
  // Large enough that products and memory decide, not the threads' wakes; small enough for twenty plans in six minutes.
  s.model.name = "selfcheck";
  s.model.blocks = 6;
  s.model.hidden = s.model.embedding_width = 384;
  s.model.heads = 6;
  s.model.feed_forward = 1536;
  s.model.vocabulary = 4096;
  s.model.dropout = s.model.attention_dropout = 0.1;
  return s;
}

/// Random bytes as text, one file a process.
class Data {
 public:
  Data() : path_{std::filesystem::temp_directory_path() / text("flotilla-selfcheck-", getpid(), ".txt")} {
    std::ofstream out{path_};
    std::mt19937 random{7};
    for (int i = 0; i < 200000; ++i) out << static_cast<char>('a' + random() % 26);
  }
  Data(const Data&) = delete;
  Data& operator=(const Data&) = delete;
  ~Data() { std::filesystem::remove(path_); }

  data::Sampler sampler(const plan::Plan& plan) const {
    data::CorpusOptions corpus;
    corpus.training = {path_};
    corpus.format = data::Format::text;
    corpus.validation_fraction = 0;
    data::SamplerOptions how;
    how.length = plan.length;
    how.global_batch = plan.global_batch;
    how.vocabulary = plan.model.vocabulary;
    return {data::open_corpora(corpus).training, how};
  }

 private:
  std::filesystem::path path_;
};

Bytes resident_now() {
  std::ifstream statm{"/proc/self/statm"};
  std::int64_t all = 0, resident = 0;
  statm >> all >> resident;
  return Bytes{resident * sysconf(_SC_PAGESIZE)};
}

/// Processor seconds: of this job's processes, of the whole machine.
double own_seconds(const comm::World& world) {
  rusage use{};
  getrusage(RUSAGE_SELF, &use);
  const auto seconds = [](const timeval& t) { return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec); };
  double sum = 0;
  for (double theirs : mpi::all_gather(world.control(), seconds(use.ru_utime) + seconds(use.ru_stime), deadline)) sum += theirs;
  return sum;
}

double machine_seconds() {
  std::ifstream stat{"/proc/stat"};
  std::string cpu;
  double user = 0, nice = 0, system = 0, idle = 0, wait = 0, hard = 0, soft = 0, stolen = 0;
  stat >> cpu >> user >> nice >> system >> idle >> wait >> hard >> soft >> stolen;
  return (user + nice + system + hard + soft + stolen) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

class Selfcheck {
 public:
  Selfcheck(const comm::World& world, Setting setting) : world_{world}, setting_{std::move(setting)} {}

  int run() {
    probe();
    for (const Shape& shape : shapes(setting_.quick)) {
      const int ranks = shape.data * shape.pipeline * shape.tensor;
      // More ranks than processors: the probe's times are those of ranks that take turns, so all must compute.
      if (ranks == world_.size() || (ranks < world_.size() && world_.size() == 2)) add(shape);
    }
    FLOTILLA_REQUIRE(!cases_.empty(), ErrorKind::usage, "no plan is for ", world_.size(), " ranks; start 1, 2 or 4");
    const Seconds start = now();
    const double own = own_seconds(world_), machine = machine_seconds();
    for (int round = 0; round < setting_.rounds; ++round)
      for (Case& c : cases_) measure(c);
    others_ = (machine_seconds() - machine - (own_seconds(world_) - own)) / (now() - start).value;
    return report();
  }

 private:
  void probe() {
    probe::ProbeRequest request;
    request.model = setting_.model;
    request.length = setting_.length;
    request.budget = setting_.budget;
    request.deadline = deadline;
    const auto here = probe::discover(world_, request);
    const Seconds start = now();
    profile_ = probe::measure(world_, request, here);
    if (!speaks()) return;
    if (!setting_.profile.empty()) files::write_profile(setting_.profile, profile_);
    std::printf("probed %s in %s\n", here.devices.front().type.c_str(), to_string(now() - start).c_str());
    std::fflush(stdout);
  }

  program::Runtime runtime(const plan::Plan& plan) const {
    program::Runtime runtime;
    runtime.threads = profile_.devices.front().threads;
    for (const auto& stage : plan.stages)
      for (const auto& replica : stage.replicas)
        for (int t = 0; t < replica.tensor_parallel; ++t) {
          const compute::Setup setup{plan.model, plan.length, replica.tensor_parallel, t, plan.precision, runtime.threads, 1};
          runtime.library_scratch = std::max(runtime.library_scratch, compute::library_scratch(setup, replica.quanta * plan.quantum));
        }
    return runtime;
  }

  void add(const Shape& s) {
    Case c;
    c.plan = plan::even_plan(setting_.model, setting_.length, setting_.batch, Precision::fp32, s.data, s.pipeline, s.tensor, s.microbatch,
                             s.schedule, s.cuts);
    for (auto& stage : c.plan.stages) {
      stage.recompute = s.recompute;
      for (auto& replica : stage.replicas) replica.device_type = profile_.devices[replica.devices.front().index()].type;
    }
    const simulate::ProgramForecaster forecaster{profile_, runtime(c.plan), app::runtime_constant(world_.size())};
    c.forecast = forecaster.forecast(c.plan);
    cases_.push_back(std::move(c));
  }

  /// All ranks come here; those that the plan does not use wait.
  void measure(Case& c) {
    const auto ranks = session::active_ranks_of(c.plan);
    if (std::ranges::find(ranks, world_.rank()) != ranks.end()) {
      std::vector<int> numbers;
      for (Rank rank : ranks) numbers.push_back(rank.value);
      const comm::World active{world_.control().subset(numbers), deadline};
      train(c, active);
    }
    mpi::barrier(world_.control(), deadline);
  }

  void train(Case& c, const comm::World& active) {
    train::Options options;
    options.threads = profile_.devices[world_.rank().index()].threads;
    options.deadline = deadline;
    auto program = program::lower(c.plan, runtime(c.plan));
    program::require_valid(program);
    train::Trainer trainer{active, std::move(program), std::nullopt, data_.sampler(c.plan), std::nullopt, options};
    trainer.initialize();
    for (int step = 0; step <= setting_.steps; ++step) {
      const Seconds start = now();
      trainer.step(step);
      if (step > 0) c.seconds.push_back((now() - start).value);  // the first makes the library's primitives
    }
    check_memory(c, trainer, active);
  }

  void check_memory(Case& c, const train::Trainer& trainer, const comm::World& active) {
    const simulate::MemoryForecast* memory = nullptr;
    for (const auto& kind : c.forecast.kinds)
      if (std::ranges::find(kind.ranks, active.rank()) != kind.ranks.end()) memory = &kind.memory;
    FLOTILLA_REQUIRE(memory != nullptr, ErrorKind::internal, "no memory was forecast for ", active.name(active.rank()));
    const bool equal = trainer.arena() == memory->arena;
    for (char all : mpi::all_gather(active.control(), static_cast<char>(equal), deadline)) c.arena_equal = c.arena_equal && all != 0;
    for (auto bytes : mpi::all_gather(active.control(), (resident_now() - trainer.arena()).count, deadline))
      c.beside_arena = std::max(c.beside_arena, Bytes{bytes});
  }

  bool speaks() const { return world_.rank() == Rank{0}; }

  int report() const {
    int wrong = 0;
    if (speaks()) wrong = print();
    return mpi::all_gather(world_.control(), wrong, deadline).front();
  }

  int print() const {
    using app::Align;
    app::TextTable table{{{"plan"},
                          {"forecast ms", Align::right},
                          {"measured ms", Align::right},
                          {"ratio", Align::right},
                          {"bar", Align::right},
                          {"inside"},
                          {"arena", Align::right},
                          {"equal"},
                          {"beside it", Align::right},
                          {"bound", Align::right}}};
    const auto fixed = [](const char* format, double value) {
      char buffer[32];
      std::snprintf(buffer, sizeof buffer, format, value);
      return std::string{buffer};
    };
    int wrong = 0, inside = 0;
    double sum = 0, worst = 0;
    const Bytes bound = app::runtime_constant(world_.size());
    for (const Case& c : cases_) {
      const double measured = median(c.seconds), forecast = c.forecast.iteration.value, error = std::abs(c.ratio() - 1);
      const bool covered = std::abs(measured - forecast) <= forecast * c.forecast.relative_error;
      sum += error;
      worst = std::max(worst, error);
      inside += covered ? 1 : 0;
      const bool finite = std::isfinite(forecast) && forecast > 0 && std::isfinite(c.forecast.relative_error);
      wrong += finite && c.arena_equal && c.beside_arena <= bound ? 0 : 1;
      table.add({plan::summary(c.plan), fixed("%.1f", 1e3 * forecast), fixed("%.1f", 1e3 * measured), fixed("%.3f", c.ratio()),
                 fixed("%.0f %%", 100 * c.forecast.relative_error), covered ? "yes" : "no",
                 to_string(c.forecast.kinds.front().memory.arena), c.arena_equal ? "yes" : "NO", to_string(c.beside_arena),
                 to_string(bound)});
    }
    std::fputs(table.print(app::output_style()).c_str(), stdout);
    const auto count = static_cast<double>(cases_.size());
    std::printf(
        "forecast / measured: off by %.1f %% in the mean (aim 5 %%), %.1f %% at worst (aim 10 %%); inside the error bar %d of %zu\n",
        100 * sum / count, 100 * worst, inside, cases_.size());
    std::printf("other processes used %.2f processors meanwhile\n", others_);
    std::fflush(stdout);
    return wrong;
  }

  const comm::World& world_;
  const Setting setting_;
  const Data data_;
  cluster::Profile profile_;
  std::vector<Case> cases_;
  double others_ = 0;
};

}  // namespace
}  // namespace flotilla

int main(int count, char** words) {
  using namespace flotilla;
  mpi::Session session;
  const comm::World world{session.world(), deadline};
  try {
    return Selfcheck{world, read(count, words)}.run() == 0 ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "selfcheck_benchmark: %s\n", error.what());
    std::_Exit(1);  // the other rank may wait for this one; mpirun ends it
  }
}
