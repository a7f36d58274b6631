// The forecast against ourselves: probe once, then train plans of different shapes (twenty on two ranks) and set measured steps beside
// forecast ones.
//
//   mpirun -n RANKS selfcheck_benchmark [--quick] [--rounds N] [--budget SECONDS] [--profile FILE]
//   mpirun -n 2 selfcheck_benchmark --ten --model CONFIG --from FILE [--from FILE] [--rounds N]
//
// Plans take turns, round after round, so that a machine that changes its speed changes all of them. Ends with 1 where something is wrong
// that no clock decides: an arena that is not the forecast's to the byte, a process that holds more than its bound, a forecast that is
// no number. --quick: a few plans of a tiny model, for that alone. --profile: where the probe's profile is kept for later inspection.
// --ten: the ten plans of issue 18, of one and two ranks; --from: profiles that `flotilla bench` wrote, one a precision, instead of a
// probe, for the model of a config.json (ten_plans_benchmark.sh).
//
// "without": the ratio of a forecast in which exchanges and computing take nothing from each other. "computing": the compute queue's time,
// forecast over measured, mean over ranks; what a step takes beside that is waiting. "others": processor time of a rank's other threads.
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
#include "flotilla/files/hugging_face.hpp"
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
  bool quick = false, ten = false;
  int rounds = 3, steps = 4;  ///< timed steps of each plan in each round
  Seconds budget{20};
  std::string profile;
  std::vector<std::string> from;
  model::Config model;
  int length = 128, batch = 8;
};

struct Shape {
  int data, pipeline, tensor, microbatch;
  plan::Recompute recompute = plan::Recompute::none;
  plan::ScheduleKind schedule = plan::ScheduleKind::one_f_one_b;
  std::vector<int> cuts{};
  Precision precision = Precision::fp32;
  bool shards_optimizer = false;
  int first_share = 0;  ///< of the batch, that the first of two replicas handles; 0: half
};

/// The ten: one and two ranks, data, pipeline and tensor parallel.
std::vector<Shape> ten_shapes() {
  using enum plan::Recompute;
  constexpr auto usual = plan::ScheduleKind::one_f_one_b;
  constexpr auto bf16 = Precision::bf16;
  return {{1, 1, 1, 2},
          {1, 1, 1, 4, full},
          {2, 1, 1, 2},
          {2, 1, 1, 2, none, usual, {}, bf16},
          {2, 1, 1, 1, none, usual, {}, Precision::fp32, true},
          {2, 1, 1, 1, none, usual, {}, Precision::fp32, false, 5},
          {1, 2, 1, 1},
          {1, 2, 1, 1, none, plan::ScheduleKind::zero_bubble},
          {1, 2, 1, 2, full, plan::ScheduleKind::gpipe, {0, 3, 8}},
          {1, 1, 2, 2}};
}

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
  Seconds without_interference;  ///< forecast as if exchanges and computing took nothing from each other
  std::vector<double> seconds;
  std::vector<double> compute, beside;  ///< of a step, by rank and round: on the compute queue; processor time of other threads
  bool arena_equal = true;
  Bytes beside_arena;  ///< resident, at most
  double ratio() const;
};

double median(std::vector<double> values) {
  std::ranges::sort(values);
  const std::size_t n = values.size();
  return (values[(n - 1) / 2] + values[n / 2]) / 2;
}

double mean(const std::vector<double>& values) {
  double sum = 0;
  for (double v : values) sum += v;
  return values.empty() ? 0 : sum / static_cast<double>(values.size());
}

/// Seconds of the compute queue, mean over ranks.
double compute_of(const simulate::Forecast& f) {
  using enum simulate::Activity;
  return (f.breakdown[forward] + f.breakdown[backward] + f.breakdown[recompute] + f.breakdown[optimizer]).value;
}

double Case::ratio() const { return forecast.iteration.value / median(seconds); }

Setting read(int count, char** words) {
  Setting s;
  std::string config;
  s.model = model::built_in("gpt2-mini");
  for (int i = 1; i < count; ++i) {
    const std::string word = words[i];
    const bool has_value = i + 1 < count;
    if (word == "--quick")
      s.quick = true;
    else if (word == "--ten")
      s.ten = true;
    else if (word == "--rounds" && has_value)
      s.rounds = std::stoi(words[++i]);
    else if (word == "--budget" && has_value)
      s.budget = Seconds{std::stod(words[++i])};
    else if (word == "--profile" && has_value)
      s.profile = words[++i];
    else if (word == "--from" && has_value)
      s.from.push_back(words[++i]);
    else if (word == "--model" && has_value)
      config = words[++i];
    else
      throw Error{
          ErrorKind::usage,
          text("'", word, "': expected --quick, --ten, --rounds N, --budget SECONDS, --profile FILE, --from FILE or --model CONFIG")};
  }
  if (!config.empty()) {
    s.model = files::read_hugging_face_config(config);
    return s;
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

/// Processor seconds of this process, without the calling thread's and its team's waits.
double other_threads_seconds() {
  rusage all{}, mine{};
  getrusage(RUSAGE_SELF, &all);
  getrusage(RUSAGE_THREAD, &mine);
  const auto seconds = [](const timeval& t) { return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec); };
  return seconds(all.ru_utime) + seconds(all.ru_stime) - seconds(mine.ru_utime) - seconds(mine.ru_stime);
}

/// Of the last step.
double compute_seconds(const train::Trainer& trainer, Rank rank) {
  const auto& program = trainer.program();
  double sum = 0;
  for (const auto& span : trainer.timeline()) {
    const auto& c = program.classes[static_cast<std::size_t>(program.ranks[rank.index()].rank_class)];
    if (c.instructions[static_cast<std::size_t>(span.instruction)].queue == program::Queue::compute) sum += (span.end - span.start).value;
  }
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
    for (const Shape& shape : setting_.ten ? ten_shapes() : shapes(setting_.quick)) {
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
    if (setting_.ten) request.precisions = {Precision::fp32, Precision::bf16};
    if (!setting_.from.empty()) return read_profiles(request);
    const auto here = probe::discover(world_, request);
    const Seconds start = now();
    profiles_ = {probe::measure(world_, request, here)};
    if (!speaks()) return;
    if (!setting_.profile.empty()) files::write_profile(setting_.profile, profile());
    std::printf("probed %s in %s\n", here.devices.front().type.c_str(), to_string(now() - start).c_str());
    std::fflush(stdout);
  }

  void read_profiles(probe::ProbeRequest request) {
    for (const auto& file : setting_.from) {
      profiles_.push_back(files::read_profile(file));
      request.precisions = {profiles_.back().operation_times.at(0).precision};  // they decide which of the library's code runs
      const auto here = probe::discover(world_, request);
      const auto why = cluster::why_stale(profiles_.back(), here.devices, here.software, here.model_fingerprint);
      FLOTILLA_REQUIRE(why.empty(), ErrorKind::bad_input, file, ": ", why, "; measure it again with as many ranks, for this model");
    }
  }

  const cluster::Profile& profile() const { return profiles_.front(); }
  /// The one that has times in that precision.
  const cluster::Profile& profile_of(Precision precision) const {
    for (const auto& one : profiles_)
      if (std::ranges::count(one.operation_times, precision, &cluster::OperationTime::precision) > 0) return one;
    throw Error{ErrorKind::usage, text("no profile has times in ", to_string(precision), "; add one by --from FILE")};
  }

  program::Runtime runtime(const plan::Plan& plan) const {
    program::Runtime runtime;
    runtime.threads = profile().devices.front().threads;
    for (const auto& stage : plan.stages)
      for (const auto& replica : stage.replicas)
        for (int t = 0; t < replica.tensor_parallel; ++t) {
          const compute::Setup setup{plan.model, plan.length, replica.tensor_parallel, t, plan.precision, runtime.threads, 1};
          runtime.library_scratch = std::max(runtime.library_scratch, compute::library_scratch(setup, replica.quanta * plan.quantum));
        }
    return runtime;
  }

  simulate::Forecast forecast(const plan::Plan& plan, const cluster::Profile& profile) const {
    return simulate::ProgramForecaster{profile, runtime(plan), app::runtime_constant(world_.size())}.forecast(plan);
  }

  void add(const Shape& s) {
    Case c;
    c.plan = plan::even_plan(setting_.model, setting_.length, setting_.batch, s.precision, s.data, s.pipeline, s.tensor, s.microbatch,
                             s.schedule, s.cuts);
    c.plan.shard_optimizer = s.shards_optimizer;
    for (auto& stage : c.plan.stages) {
      if (s.first_share > 0) {
        stage.replicas.front().sequences = s.first_share;
        stage.replicas.back().sequences = setting_.batch - s.first_share;
      }
      stage.recompute = s.recompute;
      for (auto& replica : stage.replicas) replica.device_type = profile().devices[replica.devices.front().index()].type;
    }
    auto profile = profile_of(s.precision);
    c.forecast = forecast(c.plan, profile);
    for (auto& type : profile.device_types) type.interference = {};
    c.without_interference = forecast(c.plan, profile).iteration;
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
    options.threads = profile().devices[world_.rank().index()].threads;
    options.deadline = deadline;
    options.record = true;
    auto program = program::lower(c.plan, runtime(c.plan));
    program::require_valid(program);
    train::Trainer trainer{active, std::move(program), std::nullopt, data_.sampler(c.plan), std::nullopt, options};
    trainer.initialize();
    double compute = 0, beside = 0;
    for (int step = 0; step <= setting_.steps; ++step) {
      const double before = other_threads_seconds();
      const Seconds start = now();
      trainer.step(step);
      if (step == 0) continue;  // it makes the library's primitives
      c.seconds.push_back((now() - start).value);
      beside += other_threads_seconds() - before;
      compute += compute_seconds(trainer, active.rank());
    }
    for (double theirs : mpi::all_gather(active.control(), compute / setting_.steps, deadline)) c.compute.push_back(theirs);
    for (double theirs : mpi::all_gather(active.control(), beside / setting_.steps, deadline)) c.beside.push_back(theirs);
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
    app::TextTable table{{{"plan", Align::right},
                          {"forecast ms", Align::right},
                          {"measured ms", Align::right},
                          {"ratio", Align::right},
                          {"without", Align::right},
                          {"computing", Align::right},
                          {"others ms", Align::right},
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
    int wrong = 0, inside = 0, number = 0;
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
      table.add(
          {std::to_string(++number), fixed("%.1f", 1e3 * forecast), fixed("%.1f", 1e3 * measured), fixed("%.3f", c.ratio()),
           fixed("%.3f", c.without_interference.value / measured), fixed("%.3f", compute_of(c.forecast) / mean(c.compute)),
           fixed("%.1f", 1e3 * mean(c.beside)), fixed("%.0f %%", 100 * c.forecast.relative_error), covered ? "yes" : "no",
           to_string(c.forecast.kinds.front().memory.arena), c.arena_equal ? "yes" : "NO", to_string(c.beside_arena), to_string(bound)},
          plan::summary(c.plan));
    }
    for (const auto& profile : profiles_)
      for (const auto& type : profile.device_types)
        std::printf("%s: exchanges take %.1f %% of computing, and are %s late where both ends compute\n", type.name.c_str(),
                    100 * type.interference.compute_share, to_string(type.interference.message_delay).c_str());
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
  std::vector<cluster::Profile> profiles_;
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
