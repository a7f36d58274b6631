#include "app/train.hpp"

#include <algorithm>
#include <cstdio>
#include <sstream>
#include <thread>

#include "app/allocation.hpp"
#include "app/batch_job.hpp"
#include "app/components.hpp"
#include "app/forecast_text.hpp"
#include "app/forecasting.hpp"
#include "app/inspect.hpp"
#include "app/job.hpp"
#include "app/measured_timeline.hpp"
#include "app/mix.hpp"
#include "app/plan_at_work.hpp"
#include "app/plan_change.hpp"
#include "app/plan_requests.hpp"
#include "app/replan.hpp"
#include "app/training_loop.hpp"
#include "flotilla/base/clock.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/base/log.hpp"
#include "flotilla/comm/agree.hpp"
#include "flotilla/comm/fail_world.hpp"
#include "flotilla/files/plan_file.hpp"
#include "flotilla/files/profile_file.hpp"
#include "flotilla/mpi/backoff.hpp"
#include "flotilla/mpi/session.hpp"
#include "flotilla/probe/freshness.hpp"
#include "flotilla/topology/resident.hpp"

namespace flotilla::app {
namespace {

constexpr Seconds start_deadline{120};  // before the job file is read: ranks of a large job do not start at once

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

/// An ending as text for the other ranks, without the plan: that they have made ready.
std::string in_words(const Ending& ending) {
  return text(static_cast<int>(ending.code), ' ', ending.step, ' ', ending.updates, ' ', ending.next ? 1 : 0, ' ', ending.reason);
}

Ending from_words(const std::string& words) {
  std::istringstream in{words};
  int code = 0, goes_on = 0;
  Ending ending;
  in >> code >> ending.step >> ending.updates >> goes_on;
  in.get();
  ending.code = static_cast<ExitCode>(code);
  if (goes_on != 0) ending.next.emplace();
  std::getline(in, ending.reason, '\0');
  return ending;
}

/// One start of a run, from reading the job to its last checkpoint.
class Training {
 public:
  /// `left`: of the job's time, on the rank that asked for it.
  Training(const comm::World& world, const Job& job, std::optional<Seconds> left)
      : world_{world},
        job_{job},
        deadline_{job.comm.deadline},
        batch_{read_batch_job(left)},
        data_{open()},
        allocation_{world, job, batch_},
        ahead_{world, deadline_},
        place_{world, job, data_, {}, {}} {}

  Ending run() {
    find_checkpoint();
    const auto chosen = choose();
    auto work = take_up(place_, chosen, lower(place_, chosen.plan));
    std::optional<PlanChange> change;
    std::optional<Seconds> longest_save;
    for (;;) {
      std::optional<TrainingLoop> loop;
      Ending ending;
      try {
        if (work.trainer) {
          const auto first_step = change ? change->step : fill(work);
          loop.emplace(input(work, first_step, change, longest_save));
          loop->note_devices(mix_of(work.chosen.profile, work.crew_ranks), work.chosen.origin);
          ending = loop->run();
          if (!ending.next) close(work);
        }
      } catch (const comm::AgreedError& error) {  // agreed by the crew: the ranks that wait must hear of it, too
        ending = {exit_code(error.kind()), error.what(), 0, {}, now(), 0};
      }
      if (work.trainer && !ending.next) let_go_of_next();
      ending = meet(ending, work);
      if (!ending.next) return ending;
      if (loop && work.crew->rank() == Rank{0}) longest_save = loop->longest_save();
      change = change_plan(place_, work, loop ? &*loop : nullptr, ahead_.take(), ending);
      if (change->ending) return meet(*change->ending, work);
    }
  }

  Allocation& allocation() { return allocation_; }

 private:
  BatchJob read_batch_job(std::optional<Seconds> left) const {
    auto batch = comm::agree_on(
        world_, "reading the batch system's variables", [&] { return batch_job(job_); }, deadline_);
    require_components(batch);
    for (const double theirs : mpi::all_gather(world_.control(), left ? left->value : -1.0, deadline_))
      if (theirs >= 0 && !batch.ends) batch.ends = now() + Seconds{theirs};
    return batch;
  }

  /// In a heterogeneous job mpirun, and srun by itself, start ranks in the first component only.
  void require_components(const BatchJob& batch) const {
    const auto& job = batch.allocation;
    const auto mine = job ? slurm::component_of(*job, job->host) : std::nullopt;
    std::vector<std::optional<std::size_t>> places;
    for (const int place : mpi::all_gather(world_.control(), mine ? static_cast<int>(*mine) : -1, deadline_))
      places.push_back(place < 0 ? std::nullopt : std::optional{static_cast<std::size_t>(place)});
    comm::agree_on(
        world_, "looking for the components of the job",
        [&] {
          if (!job || job_.run.part_of_job) return;
          const auto missing = component_without_ranks(*job, places);
          FLOTILLA_REQUIRE(
              !missing, ErrorKind::usage, "component ", *missing, " (", job->components[*missing].partition,
              ") of this heterogeneous job has no rank in the run: mpirun, and srun without --het-group, start component 0 only; "
              "start it with: ",
              launch_line(*job), " (or say --run.part-of-job)");
        },
        deadline_);
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

  ChosenPlan choose() {
    auto probing = probe_request(job_);
    probing.zone = batch_.zone;
    PlanRequest request;
    request.search = search_request(job_);
    request.probe = probing;
    request.file = job_.plan.file;
    request.profile = job_.probe.file.empty() ? allocation_.run() / "profile.json" : std::filesystem::path{job_.probe.file};
    request.reuse.longest_age = job_.probe.fresh_for;
    request.replan = job_.plan.replan == Job::Replan::on_resume;
    request.resume = saved_;
    const auto here = probe::discover(world_, probing);
    place_.threads = here.devices[world_.rank().index()].threads;
    for (const auto& device : here.devices) place_.runtime.threads = std::max(place_.runtime.threads, device.threads);
    place_.runtime.library_scratch = least_scratch(place_);
    place_.runtime.placement = program::placement_of(here.devices);
    request.runtime = place_.runtime;
    place_.runtime_constant = request.runtime_constant = runtime_constant(most_on_a_host(here.devices));
    return choose_plan(world_, request, deadline_);
  }

  /// The training state at the start of this incarnation: steps done.
  std::int64_t fill(PlanAtWork& work) {
    topology::forget_peak_resident();  // what the probe took is given back; it looked itself whether there was room
    std::int64_t first_step = 0;
    if (resumes_) {
      const auto loaded = checkpoint::load_newest_good(*work.crew, allocation_.run(), work.trainer->state(), {deadline_});
      first_step = loaded.manifest.step;
      work.trainer->adopt(loaded.manifest.optimizer_steps);
    } else {
      work.trainer->initialize();
    }
    if (work.crew->rank() == Rank{0}) introduce(work, first_step);
    return first_step;
  }

  LoopInput input(PlanAtWork& work, std::int64_t first_step, const std::optional<PlanChange>& change, std::optional<Seconds> longest_save) {
    return {job_,
            allocation_,
            *work.crew,
            *work.trainer,
            manifest(work),
            first_step,
            peak_flops(work),
            plan::summary(work.chosen.plan),
            work.chosen.forecast,
            batch_.ends,
            change,
            longest_save,
            work.crew_ranks,
            work.chosen.profile,
            requests(work),
            replanner(work),
            &ahead_,
            [this, &work](const std::optional<NextPlan>& next) {
              if (work.crew->rank() == Rank{0}) ahead_.invite(work.crew_ranks);
              ahead_.begin(place_, work, work.crew_ranks.front(), next);
            }};
  }

  /// The run ends, and a plan may be half ready.
  void let_go_of_next() {
    ahead_.abandon();
    ahead_.drop();
  }

  std::function<std::optional<NextPlan>()> requests(const PlanAtWork& work) const {
    if (work.crew->rank() != Rank{0}) return {};
    const auto requests = std::make_shared<PlanRequests>(job_, allocation_.run(), work.chosen.profile, world_.size(), work.chosen.plan);
    return [requests] { return requests->look(); };
  }

  std::function<std::optional<NextPlan>(std::vector<Slowness>, std::int64_t, std::stop_token)> replanner(const PlanAtWork& work) const {
    if (work.crew->rank() != Rank{0} || job_.plan.replan != Job::Replan::automatic) return {};
    return [this, &work](const std::vector<Slowness>& slow, std::int64_t steps_left, const std::stop_token& stop) {
      return plan_again(place_, work, slow, steps_left, stop);
    };
  }

  void close(const PlanAtWork& work) const {
    account_memory(*work.crew, work.arena);
    if (!job_.report.timeline.empty()) write_measured_timeline(job_.report.timeline, *work.crew, *work.trainer, deadline_);
  }

  /// What the processes held beside their arenas, against the bound that the plan was made with.
  void account_memory(const comm::World& crew, Bytes arena) const {
    const std::int64_t mine = (topology::peak_resident() - arena).count;
    std::int64_t most = 0;
    for (auto theirs : mpi::all_gather(crew.control(), mine, deadline_)) most = std::max(most, theirs);
    if (crew.rank() != Rank{0} || most <= 0) return;
    const Bytes bound = place_.runtime_constant;
    std::printf("memory outside the arena: at most %s on a rank, forecast at most %s\n", to_string(Bytes{most}).c_str(),
                to_string(bound).c_str());
    std::fflush(stdout);
    if (most > bound.count) log::warning("processes use more memory than the plan assumed: lower --device.memory by ", Bytes{most} - bound);
  }

  void introduce(const PlanAtWork& work, std::int64_t first_step) const {
    std::string table = plan_text(work.chosen.plan);
    if (work.chosen.forecast.iteration.value > 0) table += "\n" + forecast_text(work.chosen.forecast);
    table += key_values({{"plan source", work.chosen.origin}});
    std::fputs(table.c_str(), stdout);
    std::printf("arena %s on this rank; %s\n", to_string(work.arena).c_str(), work.trainer->description().c_str());
    if (first_step >= job_.training.steps)
      std::printf("all %lld steps are already done: nothing to do (--training.steps)\n", static_cast<long long>(first_step));
    else if (first_step > 0)
      std::printf("resumed after step %lld (incarnation %d)\n", static_cast<long long>(first_step), allocation_.incarnation());
    std::fflush(stdout);
  }

  checkpoint::Manifest manifest(const PlanAtWork& work) const {
    checkpoint::Manifest manifest;
    manifest.seed = static_cast<std::uint64_t>(job_.training.seed);
    manifest.training = training_identity(job_);
    manifest.data_fingerprint = data_.fingerprint;
    manifest.plan = files::plan_to_json(work.chosen.plan);
    manifest.profile = files::profile_to_json(work.chosen.profile);
    manifest.provenance = provenance(job_, allocation_, work.chosen, *work.trainer, *work.crew);
    return manifest;
  }

  double peak_flops(const PlanAtWork& work) const {
    const auto& profile = work.chosen.profile;
    double sum = 0;
    for (Rank rank : work.crew_ranks)
      if (const auto* type = cluster::find_type(profile, profile.devices.at(rank.index()).type))
        sum += (job_.training.precision == Precision::fp32 ? type->peak_fp32 : type->peak_bf16).value;
    return sum;
  }

  /// Ranks without work wait here for those with work, pass signals on, make the next plan ready with them, and learn how it ended.
  Ending meet(const Ending& mine, const PlanAtWork& work) {
    wait_for_all(work);
    const Rank speaker = work.crew_ranks.front();
    const auto words = mpi::broadcast_string(world_.control(), in_words(mine), speaker.value, deadline_);
    Ending theirs = from_words(words);
    theirs.since = mine.next ? mine.since : now();
    if (!theirs.next && !work.trainer) let_go_of_next();
    return theirs;
  }

  void wait_for_all(const PlanAtWork& work) {
    std::optional<PlanAhead::Invitation> invitation;
    if (!work.trainer) invitation.emplace(ahead_, work.crew_ranks.front());
    auto arrived = world_.control().barrier();
    for (mpi::Backoff backoff; !arrived.test();) {
      allocation_.relay_signals();
      if (invitation && invitation->came()) ahead_.begin(place_, work, work.crew_ranks.front(), {});
      if (invitation && ahead_.over() && !ahead_.wait()->refused.empty()) {
        ahead_.drop();
        invitation.emplace(ahead_, work.crew_ranks.front());
      }
      if (work.trainer || ahead_.over())
        backoff.pause();  // the others come soon
      else
        std::this_thread::sleep_for(std::chrono::milliseconds{5});
    }
  }

  const comm::World& world_;
  const Job& job_;
  const Seconds deadline_;
  const BatchJob batch_;
  Samplers data_;
  Allocation allocation_;
  PlanAhead ahead_;
  Workplace place_;
  std::optional<checkpoint::Loaded> saved_;  ///< rank 0
  bool resumes_ = false;
};

int run_job(const comm::World& world, std::span<const std::string> arguments, std::optional<Seconds> left) {
  const Job job = comm::agree_on(
      world, "reading the job",
      [&] {
        auto read = read_job(arguments);
        FLOTILLA_REQUIRE(
            !read.output.json && read.output.file.empty(), ErrorKind::usage,
            "flotilla train has no JSON output; its metrics are in metrics.jsonl of the run directory, so omit --format and -o");
        return read;
      },
      start_deadline);
  comm::require_same(world, "the job", shared_configuration(job), start_deadline);
  std::optional<Training> training;
  try {
    training.emplace(world, job, left);
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
  const Seconds begin = now();
  auto left = time_left_of_job(options::environment());
  mpi::Session session;
  const comm::World world{session.world(), start_deadline};
  if (left) *left = *left - (now() - begin);
  try {
    return run_job(world, arguments, left);
  } catch (const comm::AgreedError& error) {
    if (world.rank() == Rank{0}) log::error(error.what());
    return static_cast<int>(exit_code(error.kind()));
  }
}

}  // namespace flotilla::app
