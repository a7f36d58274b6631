#include "app/train.hpp"

#include <algorithm>
#include <cstdio>
#include <thread>

#include "app/allocation.hpp"
#include "app/batch_job.hpp"
#include "app/crew.hpp"
#include "app/forecast_text.hpp"
#include "app/forecasting.hpp"
#include "app/inspect.hpp"
#include "app/job.hpp"
#include "app/measured_timeline.hpp"
#include "app/mix.hpp"
#include "app/plan_choice.hpp"
#include "app/training_loop.hpp"
#include "flotilla/base/clock.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/base/hash.hpp"
#include "flotilla/base/log.hpp"
#include "flotilla/comm/agree.hpp"
#include "flotilla/comm/fail_world.hpp"
#include "flotilla/compute/backend.hpp"
#include "flotilla/files/plan_file.hpp"
#include "flotilla/files/profile_file.hpp"
#include "flotilla/mpi/session.hpp"
#include "flotilla/probe/freshness.hpp"
#include "flotilla/topology/resident.hpp"

namespace flotilla::app {
namespace {

constexpr Seconds start_deadline{120};  // before the job file is read: ranks of a large job do not start at once

data::SamplerOptions sampler_options(const Job& job) {
  data::SamplerOptions options;
  options.seed = static_cast<std::uint64_t>(job.training.seed);
  options.length = job.training.length;
  options.global_batch = job.training.global_batch;
  options.vocabulary = job.architecture.vocabulary;
  return options;
}

struct Samplers {
  data::Sampler training;
  std::optional<data::Sampler> validation;
  std::string fingerprint;
};

/// Every token is checked when it is read, hours into a run and on one rank alone; the wrong tokenizer shows at once, to all.
void scan_beginnings(const data::Corpus& corpus, int vocabulary) {
  constexpr std::int64_t budget = 64 << 20;  // tokens; a tenth of a second
  const auto& sections = corpus.sections();
  for (const auto& section : sections) {
    const auto share = budget / static_cast<std::int64_t>(sections.size());
    section.file->scan(section.first, std::min(section.last, section.first + share), vocabulary);
  }
}

Samplers open_data(const Job& job) {
  data::CorpusOptions options;
  options.training.assign(job.data.train.begin(), job.data.train.end());
  options.validation.assign(job.data.validation.begin(), job.data.validation.end());
  options.format = job.data.format;
  options.validation_fraction = job.data.validation_fraction;  // evaluated or not, so that switching evaluation on keeps the samples
  auto corpora = data::open_corpora(options);
  for (const auto* corpus : {&corpora.training, &corpora.validation}) scan_beginnings(*corpus, job.architecture.vocabulary);
  Samplers samplers{{corpora.training, sampler_options(job)}, {}, hex(corpora.training.fingerprint())};
  if (job.training.evaluate_every > 0) {
    samplers.validation.emplace(corpora.validation, sampler_options(job));
    FLOTILLA_REQUIRE(samplers.validation->sequences_per_epoch() >= job.training.evaluate_sequences, ErrorKind::bad_input,
                     "--training.evaluate-sequences is ", job.training.evaluate_sequences, ", the validation data holds ",
                     samplers.validation->sequences_per_epoch(), " sequences of ", job.training.length,
                     " tokens; ask for fewer or give more data");
  }
  return samplers;
}

search::Request search_request(const Job& job) {
  search::Request request;
  request.model = job.architecture;
  request.length = job.training.length;
  request.global_batch = job.training.global_batch;
  request.precision = job.training.precision;
  const auto given = [](int value) { return value > 0 ? std::optional{value} : std::nullopt; };
  request.fixed = {given(job.plan.data), given(job.plan.pipeline), given(job.plan.tensor), given(job.plan.microbatch),
                   job.plan.schedule,    job.plan.recompute,       job.plan.cuts};
  if (job.device.memory.count > 0) request.memory_limit = job.device.memory;
  return request;
}

probe::ProbeRequest probe_request(const Job& job) {
  probe::ProbeRequest request;
  request.model = job.architecture;
  request.length = job.training.length;
  request.precisions = {job.training.precision};
  request.threads = job.run.threads;
  request.memory_limit = job.device.memory;
  request.budget = job.probe.budget;
  request.deadline = job.comm.deadline;
  return request;
}

train::Options trainer_options(const Job& job, int threads) {
  const auto& t = job.training;
  train::Options options;
  options.seed = static_cast<std::uint64_t>(t.seed);
  options.learning_rate = {t.learning_rate, t.minimum_learning_rate, t.warmup_steps, t.steps};
  options.beta1 = t.beta1;
  options.beta2 = t.beta2;
  options.epsilon = t.epsilon;
  options.weight_decay = t.weight_decay;
  options.clip = t.clip;
  options.skip_non_finite = t.skip_non_finite;
  options.threads = threads;
  options.deadline = job.comm.deadline;
  return options;
}

/// A run that is continued must be the same run: other samples or another model would make its loss curve a lie.
void require_same_run(const Job& job, const std::string& data, const checkpoint::Loaded& saved) {
  const auto refuse = [&](const char* what, const std::string& theirs, const std::string& ours) {
    throw Error{ErrorKind::bad_input, text(saved.directory.string(), ": ", what, " differs: saved with '", theirs, "', the job says '",
                                           ours, "'; put it back or choose another --run.directory")};
  };
  const std::string ours = training_identity(job);
  if (saved.manifest.training != ours) {
    const auto [a, b] = std::mismatch(saved.manifest.training.begin(), saved.manifest.training.end(), ours.begin(), ours.end());
    const auto line = [](const std::string& all, std::string::const_iterator at) {
      const auto offset = static_cast<std::size_t>(at - all.begin());
      const auto begin = offset == 0 ? std::string::npos : all.rfind('\n', offset - 1);
      const auto first = begin == std::string::npos ? 0 : begin + 1;
      return all.substr(first, all.find('\n', first) - first);
    };
    refuse("the training", line(saved.manifest.training, a), line(ours, b));
  }
  if (saved.manifest.data_fingerprint != data) refuse("the training data (fingerprint)", saved.manifest.data_fingerprint, data);
}

std::vector<std::pair<std::string, std::string>> provenance(const Job& job, const Allocation& allocation, const ChosenPlan& chosen,
                                                            const train::Trainer& trainer, const comm::World& crew) {
  std::string hosts;
  for (int r = 0; r < crew.size(); ++r)
    if (r == 0 || crew.host(Rank{r}) != crew.host(Rank{r - 1})) hosts += (hosts.empty() ? "" : ", ") + crew.host(Rank{r});
  std::string devices;
  for (const auto& type : chosen.profile.device_types) devices += (devices.empty() ? "" : ", ") + type.name;
  return {{"flotilla", FLOTILLA_VERSION},
          {"software", chosen.profile.software},
          {"compute", trainer.description()},
          {"device types", devices},
          {"hosts", hosts},
          {"ranks", std::to_string(crew.size())},
          {"incarnation", std::to_string(allocation.incarnation())},
          {"started", probe::utc_now()},
          {"configuration", job.configuration}};
}

/// One start of a run, from reading the job to its last checkpoint.
class Training {
 public:
  Training(const comm::World& world, const Job& job)
      : world_{world}, job_{job}, deadline_{job.comm.deadline}, batch_{read_batch_job()}, data_{open()}, allocation_{world, job, batch_} {}

  Ending run() {
    find_checkpoint();
    choose();
    lower();
    const auto crew = crew_of(chosen_.plan);
    const bool works = std::find(crew.begin(), crew.end(), world_.rank()) != crew.end();
    Ending ending;
    try {
      if (works) ending = work(crew);
    } catch (const comm::AgreedError& error) {  // agreed by the crew: the ranks that wait must hear of it, too
      ending = {exit_code(error.kind()), error.what(), 0};
    }
    return meet(ending, crew.front());
  }

  Allocation& allocation() { return allocation_; }

 private:
  BatchJob read_batch_job() const {
    return comm::agree_on(
        world_, "reading the batch system's variables", [&] { return batch_job(job_); }, deadline_);
  }

  Samplers open() {
    auto samplers = comm::agree_on(
        world_, "opening the data", [&] { return open_data(job_); }, deadline_);
    comm::require_same(world_, "the training data", samplers.fingerprint, deadline_);
    if (const auto unused = samplers.training.unused(); world_.rank() == Rank{0} && !unused.empty()) log::warning(unused);
    return samplers;
  }

  void find_checkpoint() {
    comm::agree_on(
        world_, "looking for a checkpoint",
        [&] {
          if (world_.rank() != Rank{0}) return;
          saved_ = checkpoint::latest(allocation_.run());
          if (saved_) require_same_run(job_, data_.fingerprint, *saved_);
        },
        deadline_);
    resumes_ = mpi::broadcast_string(world_.control(), saved_ ? "yes" : "", 0, deadline_) == "yes";
  }

  void choose() {
    auto probing = probe_request(job_);
    probing.zone = batch_.zone;
    PlanRequest request;
    request.search = search_request(job_);
    request.probe = probing;
    request.file = job_.plan.file;
    request.profile = job_.probe.file.empty() ? allocation_.run() / "profile.json" : std::filesystem::path{job_.probe.file};
    request.reuse.longest_age = job_.probe.fresh_for;
    request.replan = job_.plan.replan;
    request.resume = saved_;
    const auto here = probe::discover(world_, probing);
    threads_ = here.devices[world_.rank().index()].threads;
    for (const auto& device : here.devices) runtime_.threads = std::max(runtime_.threads, device.threads);
    runtime_.library_scratch = scratch(1, 0, 1);
    request.runtime = runtime_;
    runtime_constant_ = request.runtime_constant = runtime_constant(most_on_a_host(here.devices));
    chosen_ = choose_plan(world_, request, deadline_);
  }

  Bytes scratch(int tensor_parallel, int tensor_index, int sequences) const {
    const compute::Setup setup{job_.architecture,
                               job_.training.length,
                               tensor_parallel,
                               tensor_index,
                               job_.training.precision,
                               runtime_.threads,
                               static_cast<std::uint64_t>(job_.training.seed)};
    return compute::library_scratch(setup, sequences);
  }

  // What the matrix library asks for may differ between CPU types, and all ranks lower the same program: the largest counts.
  void lower() {
    const auto place = plan::place_of(chosen_.plan, world_.rank());
    std::int64_t mine = 0;
    comm::agree_on(
        world_, "preparing the matrix library",
        [&] {
          if (place.stage < 0) return;
          const auto& replica =
              chosen_.plan.stages[static_cast<std::size_t>(place.stage)].replicas[static_cast<std::size_t>(place.replica)];
          mine = scratch(replica.tensor_parallel, place.tensor_index, replica.quanta * chosen_.plan.quantum).count;
        },
        deadline_);
    for (auto theirs : mpi::all_gather(world_.control(), mine, deadline_))
      runtime_.library_scratch.count = std::max(runtime_.library_scratch.count, theirs);
    const auto crew = crew_of(chosen_.plan);
    comm::agree_on(
        world_, "lowering the plan",
        [&] {
          const auto plan = renumbered(chosen_.plan, crew);
          program_ = program::lower(plan, runtime_);
          program::require_valid(program_);
          if (!data_.validation) return;
          evaluation_ = program::lower_evaluation(plan, runtime_, static_cast<int>(job_.training.evaluate_sequences));
          program::require_valid(*evaluation_);
        },
        deadline_);
  }

  Ending work(const std::vector<Rank>& crew_ranks) {
    topology::forget_peak_resident();  // what the probe took is given back; it looked itself whether there was room
    std::vector<int> numbers;
    for (Rank rank : crew_ranks) numbers.push_back(rank.value);
    const comm::World crew{session_world().subset(numbers), deadline_};
    auto options = trainer_options(job_, threads_);
    options.record = !job_.report.timeline.empty() || crew.rank() == Rank{0};  // rank 0 holds its own against the forecast
    train::Trainer trainer{crew, program_, evaluation_, data_.training, data_.validation, options};
    std::int64_t first_step = 0;
    if (resumes_) {
      const auto loaded = checkpoint::load_newest_good(crew, allocation_.run(), trainer.state(), {deadline_});
      first_step = loaded.manifest.step;
      trainer.adopt(loaded.manifest.optimizer_steps);
    } else {
      trainer.initialize();
    }
    if (crew.rank() == Rank{0}) introduce(trainer, first_step);
    TrainingLoop loop{{job_, allocation_, crew, trainer, manifest(trainer, crew), first_step, peak_flops(crew_ranks),
                       plan::summary(chosen_.plan), chosen_.forecast, batch_.ends}};
    loop.note_devices(mix_of(chosen_.profile, crew_ranks), chosen_.origin);
    const auto ending = loop.run();
    account_memory(crew, trainer.arena());
    if (!job_.report.timeline.empty()) write_measured_timeline(job_.report.timeline, crew, trainer, deadline_);
    return ending;
  }

  /// What the processes held beside their arenas, against the bound that the plan was made with.
  void account_memory(const comm::World& crew, Bytes arena) const {
    const std::int64_t mine = (topology::peak_resident() - arena).count;
    std::int64_t most = 0;
    for (auto theirs : mpi::all_gather(crew.control(), mine, deadline_)) most = std::max(most, theirs);
    if (crew.rank() != Rank{0} || most <= 0) return;
    const Bytes bound = runtime_constant_;
    std::printf("memory beside the arena: at most %s on a rank, forecast at most %s\n", to_string(Bytes{most}).c_str(),
                to_string(bound).c_str());
    std::fflush(stdout);
    if (most > bound.count) log::warning("processes hold more memory than planned with: lower --device.memory by ", Bytes{most} - bound);
  }

  const mpi::Communicator& session_world() const { return world_.control(); }

  void introduce(const train::Trainer& trainer, std::int64_t first_step) const {
    std::string table = plan_text(chosen_.plan);
    if (chosen_.forecast.iteration.value > 0) table += "\n" + forecast_text(chosen_.forecast);
    table += key_values({{"origin", chosen_.origin}});
    std::fputs(table.c_str(), stdout);
    std::printf("arena %s on this rank; %s\n", to_string(trainer.arena()).c_str(), trainer.description().c_str());
    if (first_step >= job_.training.steps)
      std::printf("all %lld steps are done already: nothing to do (--training.steps)\n", static_cast<long long>(first_step));
    else if (first_step > 0)
      std::printf("resumed after step %lld (incarnation %d)\n", static_cast<long long>(first_step), allocation_.incarnation());
    std::fflush(stdout);
  }

  checkpoint::Manifest manifest(const train::Trainer& trainer, const comm::World& crew) const {
    checkpoint::Manifest manifest;
    manifest.seed = static_cast<std::uint64_t>(job_.training.seed);
    manifest.training = training_identity(job_);
    manifest.data_fingerprint = data_.fingerprint;
    manifest.plan = files::plan_to_json(chosen_.plan);
    manifest.profile = files::profile_to_json(chosen_.profile);
    manifest.provenance = provenance(job_, allocation_, chosen_, trainer, crew);
    return manifest;
  }

  double peak_flops(const std::vector<Rank>& crew) const {
    double sum = 0;
    for (Rank rank : crew)
      if (const auto* type = cluster::find_type(chosen_.profile, chosen_.profile.devices.at(rank.index()).type))
        sum += (job_.training.precision == Precision::fp32 ? type->peak_fp32 : type->peak_bf16).value;
    return sum;
  }

  /// Ranks without work wait here for those with work, pass signals on, and learn how it ended.
  Ending meet(const Ending& mine, Rank speaker) {
    auto arrived = world_.control().barrier();
    while (!arrived.test()) {
      allocation_.relay_signals();
      std::this_thread::sleep_for(std::chrono::milliseconds{5});
    }
    const auto codes = mpi::all_gather(world_.control(), static_cast<int>(mine.code), deadline_);
    const auto steps = mpi::all_gather(world_.control(), mine.step, deadline_);
    const std::string reason = mpi::broadcast_string(world_.control(), mine.reason, speaker.value, deadline_);
    return {static_cast<ExitCode>(codes[speaker.index()]), reason, steps[speaker.index()]};
  }

  const comm::World& world_;
  const Job& job_;
  const Seconds deadline_;
  const BatchJob batch_;
  Samplers data_;
  Allocation allocation_;
  std::optional<checkpoint::Loaded> saved_;  ///< rank 0
  bool resumes_ = false;
  ChosenPlan chosen_;
  program::Runtime runtime_;
  Bytes runtime_constant_;
  int threads_ = 1;
  program::Program program_;
  std::optional<program::Program> evaluation_;
};

int run_job(const comm::World& world, std::span<const std::string> arguments) {
  const Job job = comm::agree_on(
      world, "reading the job",
      [&] {
        auto read = read_job(arguments);
        FLOTILLA_REQUIRE(
            !read.output.json && read.output.file.empty(), ErrorKind::usage,
            "flotilla train prints for people only; its numbers are in metrics.jsonl of the run directory, so leave out --format and -o");
        return read;
      },
      start_deadline);
  comm::require_same(world, "the job", shared_configuration(job), start_deadline);
  std::optional<Training> training;
  try {
    training.emplace(world, job);
    const auto ending = training->run();
    if (world.rank() == Rank{0}) {
      training->allocation().write_outcome(ending.code, ending.reason);
      const bool good = ending.code == ExitCode::done || ending.code == ExitCode::requeue;
      log::write(good ? log::Level::info : log::Level::error, ending.reason);
    }
    training->allocation().close();
    return static_cast<int>(ending.code);
  } catch (const comm::AgreedError& error) {
    // Everybody is here and knows the same: one speaks, all end in good order.
    if (training) {
      if (world.rank() == Rank{0}) training->allocation().write_outcome(exit_code(error.kind()), error.what());
      training->allocation().close();
    }
    throw;
  } catch (...) {
    const auto words = comm::last_words();
    comm::fail_world(&world, training ? training->allocation().watch() : nullptr, words, [&](const comm::LastWords& last) {
      if (training) training->allocation().write_outcome(last.code, last.line);
    });
  }
}

}  // namespace

int train(std::span<const std::string> arguments) {
  mpi::Session session;
  const comm::World world{session.world(), start_deadline};
  try {
    return run_job(world, arguments);
  } catch (const comm::AgreedError& error) {
    if (world.rank() == Rank{0}) log::error(error.what());
    return static_cast<int>(exit_code(error.kind()));
  }
}

}  // namespace flotilla::app
