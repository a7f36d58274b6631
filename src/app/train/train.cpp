#include "app/train/train.hpp"

#include <algorithm>

#include "app/common/batch_job.hpp"
#include "app/common/components.hpp"
#include "app/common/forecasting.hpp"
#include "app/common/job.hpp"
#include "app/common/plan_text.hpp"
#include "app/common/profile_measurement.hpp"
#include "app/common/search_request.hpp"
#include "app/common/table.hpp"
#include "app/common/tokenizing_lines.hpp"
#include "app/train/changed_options.hpp"
#include "app/train/forecast_text.hpp"
#include "app/train/run_summary.hpp"
#include "flotilla/base/clock.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/base/foreign_text.hpp"
#include "flotilla/base/key_values.hpp"
#include "flotilla/base/log.hpp"
#include "flotilla/base/print.hpp"
#include "flotilla/comm/agree.hpp"
#include "flotilla/comm/fail_world.hpp"
#include "flotilla/files/plan_file.hpp"
#include "flotilla/journal/metrics.hpp"
#include "flotilla/mpi/communicator.hpp"
#include "flotilla/mpi/session.hpp"
#include "flotilla/session/data_files.hpp"
#include "flotilla/session/device_choice.hpp"
#include "flotilla/session/job_plan.hpp"
#include "flotilla/session/local_storage.hpp"
#include "flotilla/session/phases.hpp"
#include "flotilla/session/plan_choice.hpp"
#include "flotilla/session/replan.hpp"
#include "flotilla/session/same_run.hpp"
#include "flotilla/session/training_run.hpp"

namespace flotilla::app {
namespace {

constexpr Seconds start_deadline{120};  // before the job file is read: ranks of a large job do not start at once

/// One start of a run, from reading the job to its last checkpoint.
class Training {
 public:
  /// `left`: of the job's time, on the rank that asked for it.
  Training(const comm::World& world, Job job, std::optional<Seconds> left)
      : world_{world},
        job_{std::move(job)},
        deadline_{job_.comm.deadline},
        batch_{read_batch_job(left)},
        data_{open()},
        allocation_{world, job_, batch_.id},
        place_{world, job_, data_, {}, {}, 1, {}, {}, session::phases_of(job_), {}, !job_.plan.file.empty()} {}

  session::SegmentResult run() {
    find_checkpoint();
    if (is_finished_) {
      allocation_.set_step(steps_done_);
      return {ExitCode::done, text("all ", steps_done_, " steps are done: nothing to do (--training.steps)")};
    }
    if (const auto note = allocation_.note(); !note.empty()) log::warning(note);
    if (world_.rank() == Rank{0})
      log::info("incarnation ", allocation_.incarnation(), " of ", job_.run.directory, ": ", world_.size(),
                world_.size() == 1 ? " rank; " : " ranks; ", resumes_ ? text("resuming after step ", saved_->manifest.step) : "a new run",
                "; measuring and planning");
    choose();
    run_.emplace(place_, allocation_, hooks(), resumes_, batch_.ends);
    const auto result = run_->run(place_.plan_of(session::phase_after(place_.phases, steps_done_)));
    auto totals = run_->totals();
    if (totals.saved_step == 0 && resumes_) totals.saved_step = steps_done_;  // the checkpoint that it began from
    print(run_summary(totals, job_.training.steps, job_.run.directory));
    return result;
  }

  session::Incarnation& allocation() { return allocation_; }

  /// A start that ends before it trains is no part of the run's history. Rank 0, which holds the run directory.
  void note_refusal(const comm::AgreedError& error) const {
    if (allocation_.start().accepted()) return;
    const std::int64_t step = saved_ ? saved_->manifest.step : 0;
    try {
      journal::MetricsWriter writer{allocation_.run(), allocation_.incarnation()};
      writer.write(journal::StopRecord{step, exit_code(error.kind()), error.what(), 0, 0, true});
    } catch (const Error& away) {  // the refusal itself is on its way to the terminal
      log::debug(away.what());
    }
  }

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

  session::TrainingData open() {
    TokenizingLines lines{job_.data.tokenizer};
    const auto files = session::find_data_files(world_, job_, lines.events());
    auto samplers = comm::agree_on(
        world_, "opening the data", [&] { return session::open_data(job_, files); }, deadline_);
    comm::require_same(world_, "the training data", samplers.fingerprint, deadline_);
    if (const auto unused = samplers.training.unused(); world_.rank() == Rank{0} && !unused.empty()) log::warning(unused);
    if (world_.rank() == Rank{0} && !samplers.remark.empty()) log::warning(samplers.remark);
    return samplers;
  }

  void find_checkpoint() {
    place_.local = session::take_up_local_storage(world_, job_, allocation_);
    std::string record;
    comm::agree_on(
        world_, "looking for a checkpoint",
        [&] {
          if (world_.rank() != Rank{0}) return;
          saved_ = session::checkpoint_to_resume(allocation_.run(), job_.run.start_over);
          if (saved_) record = require_same_run();
          place_.schedule = session::run_schedule(job_, saved_);
          for (const auto& remark : session::remarks_on(job_, place_.schedule, saved_)) log::info(remark);
        },
        deadline_);
    const auto schedule = session::run_schedule_to_text(place_.schedule);
    place_.schedule = session::run_schedule_from_text(mpi::broadcast_string(world_.control(), schedule, 0, deadline_));
    record = mpi::broadcast_string(world_.control(), record, 0, deadline_);
    place_.changed = mpi::broadcast_string(world_.control(), place_.changed, 0, deadline_);
    if (!record.empty())
      comm::agree_on(
          world_, "arranging the data", [&] { data_.continue_from(session::data_record_from_json(record, "rank 0"), job_); }, deadline_);
    resumes_ = mpi::broadcast_string(world_.control(), saved_ ? "yes" : "", 0, deadline_) == "yes";
    steps_done_ = from_rank_0(saved_ ? saved_->manifest.step : 0);
    // Where weights have exploded, an earlier checkpoint is tried.
    is_finished_ = resumes_ && steps_done_ >= job_.training.steps && from_rank_0(saved_ && saved_->manifest.exploded) == 0;
    oldest_step_ = from_rank_0(saved_ ? checkpoint::list(allocation_.run()).front().step : 0);
  }

  /// The record of the data that goes on, empty where the checkpoint has none. Says what is changed, and refuses what cannot be: by the
  /// options that were changed, not by what follows from them.
  std::string require_same_run() {
    const auto changed = changed_options(job_, *saved_);
    const auto since = text("changed since step ", saved_->manifest.step, ": ");
    std::string record;
    try {
      session::require_same_run(job_, data_.fingerprint, *saved_);
      if (!saved_->manifest.data.empty()) record = continued_record();
    } catch (const session::OtherRun& other) {
      if (changed.fixed.empty()) throw;
      throw session::OtherRun{saved_->directory.string(), text(since, changed.fixed, " (", other.difference(), ")")};
    }
    place_.changed = changed.accepted;
    if (!changed.accepted.empty()) log::info(since, changed.accepted);
    return record;
  }

  std::int64_t from_rank_0(std::int64_t value) const {
    return std::stoll(mpi::broadcast_string(world_.control(), std::to_string(value), 0, deadline_));
  }

  /// Of the data, as the checkpoint and the files that are new make it. Says what is new.
  std::string continued_record() const {
    const auto source = text((saved_->directory / "manifest.json").string(), ": /data");
    const auto saved = session::data_record_from_json(saved_->manifest.data, source);
    const auto record = session::continued(saved, data_.record, saved_->manifest.step, saved_->directory.string());
    for (std::size_t i = 0; i < record.size(); ++i)
      if (const auto added = record[i].files.size() - saved[i].files.size(); added > 0)
        log::info(record[i].name.empty() ? "the training data" : "source " + in_quotes(record[i].name), added == 1 ? " has " : " have ",
                  added, " new ", added == 1 ? "file" : "files", " since step ", saved_->manifest.step, "; what was seen stays seen");
    return session::to_json(record);
  }

  /// A plan for the phase in hand, and for each later one that the plan before it cannot serve: what does not fit is known now. Where
  /// checkpoints of earlier phases are left, those are in the list, too: the newest checkpoint may turn out to be damaged.
  void choose() {
    look_at_devices();
    allocation_.start().reach(session::StartPhase::measuring);
    const auto in_hand = session::phase_after(place_.phases, steps_done_);
    for (auto phase = session::phase_after(place_.phases, oldest_step_); phase < place_.phases.size();) {
      const auto end = session::end_of_shape(place_.phases, phase);
      place_.plans.emplace(phase, plan_for(phase, phase <= in_hand && in_hand < end));
      phase = end;
    }
  }

  void look_at_devices() {
    place_.device = session::choose_device(world_, job_.device.kind, session::how_to_compute(job_), deadline_);
    settle_precision();
    const auto here = probe::discover(world_, probing(place_.phases.front().length));
    if (world_.rank() == Rank{0} && !here.idle_threads.empty()) log::warning(here.idle_threads);
    place_.threads = here.devices[world_.rank().index()].threads;
    for (const auto& device : here.devices) place_.runtime.threads = std::max(place_.runtime.threads, device.threads);
    const auto& shortest = *std::ranges::min_element(place_.phases, {}, &session::Phase::length);
    place_.runtime.separate_documents = job_.data.separate_documents;
    if (job_.data.sources.size() > 1) place_.runtime.sources = static_cast<int>(job_.data.sources.size());
    place_.runtime.library_scratch = session::least_scratch(place_, shortest.length);
    place_.runtime.placement = program::placement_of(here.devices);
    place_.runtime.library_all_reduce = job_.comm.reduction == Job::Comm::Reduction::nccl;
    place_.runtime_constant = runtime_constant(most_on_a_host(here.devices));
  }

  /// Of the checkpoint, or else of the plan's file, with its place; on rank 0.
  std::optional<std::pair<Precision, std::string>> recorded_precision() const {
    if (saved_ && !saved_->manifest.plan.empty()) {
      const auto manifest = (saved_->directory / "manifest.json").string();
      return std::pair{files::plan_from_json(saved_->manifest.plan, manifest + ": /plan").precision, text("step ", saved_->manifest.step)};
    }
    if (job_.plan.file.empty()) return std::nullopt;
    return std::pair{files::read_plan(job_.plan.file).precision, job_.plan.file};
  }

  /// What was left open is settled, and what was not is held against the checkpoint. What the devices are not made for is said.
  void settle_precision() {
    const auto asked = job_.training.precision;
    std::optional<std::pair<Precision, std::string>> recorded;
    comm::agree_on(
        world_, "looking for the precision",
        [&] {
          if (world_.rank() == Rank{0}) recorded = recorded_precision();
          if (asked && saved_ && recorded && recorded->first != *asked)
            log::info("the plan of ", recorded->second, " is not kept: it is for ", to_string(recorded->first));
        },
        deadline_);
    if (asked) return;
    const auto made_for = session::precision_of_devices(world_, place_.device, deadline_);
    const auto name = mpi::broadcast_string(world_.control(), to_string(recorded ? recorded->first : made_for), 0, deadline_);
    job_.training.precision = parse_precision(name);
    if (recorded && recorded->first != made_for) log::info("precision: ", name, ", as ", recorded->second, " has it");
    if (world_.rank() == Rank{0} && !recorded && made_for != Precision::fp32)
      log::info("precision: ", name, ", which the devices are made for (--training.precision)");
  }

  probe::ProbeRequest probing(int length) const {
    auto request = probe_request(job_);
    request.length = length;
    request.zone = batch_.zone;
    request.device = place_.device;
    const auto& largest = *std::ranges::max_element(place_.phases, {}, &session::Phase::global_batch);
    if (job_.plan.microbatch == 0) request.largest_microbatch = largest.global_batch;
    return request;
  }

  /// A profile is of one sequence length.
  std::filesystem::path profile_file(int length) const {
    std::filesystem::path file = job_.probe.file.empty() ? allocation_.run() / "profile.json" : std::filesystem::path{job_.probe.file};
    if (length == place_.phases.front().length) return file;
    return file.replace_filename(text(file.stem().string(), "-", length, file.extension().string()));
  }

  session::ChosenPlan plan_for(std::size_t number, bool in_hand) {
    const auto& phase = place_.phases[number];
    session::ChoiceRequest request;
    request.search = search_request(job_, phase.length, phase.global_batch);
    request.probe = probing(phase.length);
    request.file = job_.plan.file;
    request.transport = job_.comm.transport;
    request.profile = profile_file(phase.length);
    request.corrected = session::corrected_profile_file(allocation_.run(), phase.length, place_.phases.front().length);
    request.reuse.longest_age = job_.probe.fresh_for;
    request.replan = job_.plan.replan == Job::Replan::on_resume;
    if (in_hand) request.resume = saved_;
    request.begins_phase = steps_done_ == phase.first_step;
    request.measured = [this] { allocation_.start().reach(session::StartPhase::planning); };
    request.runtime = place_.runtime;
    request.runtime.library_scratch = session::least_scratch(place_, phase.length);
    request.runtime_constant = place_.runtime_constant;
    try {
      auto chosen = session::choose_plan(world_, request, deadline_);
      if (world_.rank() == Rank{0} && !phase.name.empty())
        log::info(session::in_words(phase), ": ", plan::summary(chosen.plan), "; ", chosen.forecast.iteration, " an iteration forecast");
      return chosen;
    } catch (const comm::AgreedError& error) {
      if (phase.name.empty()) throw;
      throw comm::AgreedError{error.kind(), text(session::spelled(phase), ": ", error.what())};
    }
  }

  /// For the phase that a plan serves.
  search::PlanRequest request_like(const plan::Plan& plan) const { return search_request(job_, plan.length, plan.global_batch); }

  session::RunHooks hooks() {
    session::RunHooks hooks;
    hooks.bind = [this](plan::Plan plan, const session::ChosenPlan& active, const std::string& source) {
      return session::for_job(std::move(plan), request_like(active.plan), active.profile, world_.size(), source);
    };
    if (job_.plan.replan == Job::Replan::automatic)
      hooks.plan_again = [this](const session::ActivePlan& work, std::span<const monitor::Slowness> slow, std::int64_t steps_left,
                                const std::stop_token& stop) {
        return session::plan_again(place_, request_like(work.chosen.plan), work, slow, steps_left, stop);
      };
    hooks.introduce = [this](const session::ActivePlan& work, std::int64_t first_step) { introduce(work, first_step); };
    return hooks;
  }

  void introduce(const session::ActivePlan& work, std::int64_t first_step) const {
    std::string table = plan_text(work.chosen.plan);
    if (work.chosen.forecast.iteration.value > 0) table += "\n" + forecast_text(work.chosen.forecast);
    table += key_values_within(
        {{"plan source", work.chosen.origin}, {"arena", text(work.arena, " on this rank; ", work.trainer->description())}}, table_width);
    if (first_step > 0) table += text("resumed after step ", first_step, " (incarnation ", allocation_.incarnation(), ")\n");
    print(table);
  }

  const comm::World& world_;
  Job job_;
  const Seconds deadline_;
  const BatchJob batch_;
  session::TrainingData data_;
  session::Incarnation allocation_;
  session::RunContext place_;
  std::optional<checkpoint::Loaded> saved_;  ///< rank 0
  bool resumes_ = false;
  bool is_finished_ = false;
  std::int64_t steps_done_ = 0;              ///< by earlier incarnations
  std::int64_t oldest_step_ = 0;             ///< of the checkpoints
  std::optional<session::TrainingRun> run_;  ///< a member: where a rank fails, what other threads of it use stays until the job is ended
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
    const auto segment_result = training->run();
    if (world.rank() == Rank{0}) {
      training->allocation().write_outcome(segment_result.code, segment_result.reason, segment_result.temporary);
      const bool good = segment_result.code == ExitCode::done || segment_result.code == ExitCode::requeue;
      log::write(good ? log::Level::info : log::Level::error, segment_result.reason);
    }
    training->allocation().close();
    return static_cast<int>(segment_result.code);
  } catch (const session::StoppedBeforeStart& stopped) {
    if (world.rank() == Rank{0}) log::info(stopped.what());
    return static_cast<int>(ExitCode::requeue);
  } catch (const comm::AgreedError& error) {
    // Everybody is here and knows the same: one speaks, all end in good order.
    if (training) {
      if (world.rank() == Rank{0}) {
        training->note_refusal(error);
        training->allocation().write_outcome(exit_code(error.kind()), error.what(), error.kind() == ErrorKind::temporary);
      }
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
