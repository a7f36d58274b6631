#include "flotilla/session/training_run.hpp"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <thread>

#include "active_ranks.hpp"
#include "asynchronous_saves.hpp"
#include "control_requests.hpp"
#include "device_inventory.hpp"
#include "flotilla/base/clock.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/base/log.hpp"
#include "flotilla/base/print.hpp"
#include "flotilla/base/utc.hpp"
#include "flotilla/cluster/product_peak.hpp"
#include "flotilla/comm/agree.hpp"
#include "flotilla/files/plan_file.hpp"
#include "flotilla/files/profile_file.hpp"
#include "flotilla/gpu/device.hpp"
#include "flotilla/monitor/measured_timeline.hpp"
#include "flotilla/mpi/backoff.hpp"
#include "flotilla/mpi/communicator.hpp"
#include "flotilla/session/plan_choice.hpp"
#include "flotilla/session/same_run.hpp"
#include "flotilla/simulate/forecaster.hpp"
#include "flotilla/topology/resident.hpp"
#include "flotilla/weights/carried.hpp"
#include "flotilla/weights/load.hpp"
#include "plan_ahead.hpp"
#include "plan_change.hpp"
#include "start_from.hpp"
#include "training_loop.hpp"

#ifndef FLOTILLA_VERSION
#error "the build defines FLOTILLA_VERSION"
#endif

namespace flotilla::session {
namespace {

/// Without the folders that they are in: a model card shows it.
std::string origin_of_weights(const RunConfig& config) {
  if (const std::filesystem::path from{config.run.from}; !from.empty())
    return (from.parent_path().filename() / from.filename()).string() + (config.run.from_optimizer ? ", with the optimizer's state" : "");
  return config.weights.empty() ? "at random" : std::filesystem::path{config.weights}.filename().string();
}

std::vector<std::pair<std::string, std::string>> provenance(const RunContext& place, const Incarnation& allocation,
                                                            const ChosenPlan& chosen, const train::Trainer& trainer,
                                                            const comm::World& active) {
  std::string devices;
  for (const auto& type : chosen.profile.device_types) devices += (devices.empty() ? "" : ", ") + type.name;
  std::vector<std::pair<std::string, std::string>> words{{"flotilla", FLOTILLA_VERSION},
                                                         {"software", chosen.profile.software},
                                                         {"compute", trainer.description()},
                                                         {"device types", devices},
                                                         {"hosts", hosts_of(active)},
                                                         {"ranks", std::to_string(active.size())},
                                                         {"incarnation", std::to_string(allocation.incarnation())},
                                                         {"started", utc_now()},
                                                         {"weights", origin_of_weights(place.config)}};
  std::ranges::move(provenance_of(place.schedule), std::back_inserter(words));
  words.emplace_back("configuration", place.config.configuration);
  return words;
}

}  // namespace

class TrainingRun::State {
 public:
  State(const RunContext& place, Incarnation& allocation, RunHooks hooks, bool resumes, std::optional<Seconds> ends)
      : place_{place},
        allocation_{allocation},
        hooks_{std::move(hooks)},
        resumes_{resumes},
        ends_{ends},
        ahead_{place.world, place.config.comm.deadline} {}

  const IncarnationTotals& totals() const { return totals_; }

  SegmentResult run(const ChosenPlan& chosen) {
    allocation_.start().reach(StartPhase::connecting);
    auto work = activate(place_, chosen, lower(place_, chosen.plan));
    allocation_.start().reach(work.trainer ? StartPhase::loading : StartPhase::running);
    std::optional<PlanChange> change;
    std::optional<Seconds> longest_save;
    for (;;) {
      std::optional<TrainingLoop> loop;
      SegmentResult segment_result;
      try {
        if (work.trainer) {
          const auto first_step = change ? change->step : fill(work);
          allocation_.start().reach(StartPhase::first_step);
          loop.emplace(input(work, first_step, change, longest_save));
          loop->note_devices(device_inventory(work.chosen.profile, work.active_ranks), work.chosen.origin);
          segment_result = loop->run();
          if (!segment_result.next) close(work);
        }
      } catch (const comm::AgreedError& error) {  // agreed by the active ranks: the ranks that wait must hear of it, too
        segment_result = {exit_code(error.kind()), error.what(), 0, false, now(), 0, error.kind() == ErrorKind::temporary};
      }
      if (work.trainer && !segment_result.next) let_go_of_next();
      segment_result = meet(segment_result, work);
      if (!segment_result.next) return segment_result;
      if (loop && work.active->rank() == Rank{0}) longest_save = loop->longest_save();
      change = change_plan(place_, work, loop ? &*loop : nullptr, ahead_.take(), segment_result);
      if (change->segment_result) return meet(*change->segment_result, work);
    }
  }

 private:
  Seconds deadline() const { return place_.config.comm.deadline; }

  /// The training state at the start of this incarnation: steps done.
  std::int64_t fill(ActivePlan& work) {
    topology::forget_peak_resident();  // what the probe took is given back; it looked itself whether there was room
    std::int64_t first_step = 0;
    if (resumes_) {
      const auto loaded = checkpoint::load_newest_good(*work.active, allocation_.run(), work.trainer->state(), {deadline()});
      first_step = loaded.manifest.step;
      work.trainer->adopt(loaded.manifest.optimizer_steps, loaded.manifest.loss_scale);
    } else if (!place_.config.weights.empty()) {
      start_from_weights(work);
    } else if (!place_.config.run.from.empty()) {
      start_from_checkpoint(*work.active, place_.config, allocation_.run(), *work.trainer);
    } else {
      work.trainer->initialize();
    }
    if (work.active->rank() == Rank{0}) hooks_.introduce(work, first_step);
    return first_step;
  }

  void start_from_weights(ActivePlan& work) {
    const std::filesystem::path folder = place_.config.weights;
    if (place_.config.architecture.lora.on()) work.trainer->initialize();  // adapters are in no folder
    weights::load(*work.active, folder, place_.config.architecture, work.trainer->state(), deadline());
    work.trainer->adopt(0);
    comm::agree_on(
        *work.active, "keeping the model's configuration and tokenizer",
        [&] {
          if (work.active->rank() == Rank{0}) weights::carry(folder, weights::carried_folder(allocation_.run()));
        },
        deadline());
  }

  /// The first phase that a plan does not serve, from the one on that follows so many steps. A state that was loaded may be of an earlier
  /// phase than the checkpoint that the plan was chosen for, if that is damaged: the run then leaves for its phase at once.
  std::size_t end_phase(const plan::Plan& plan, std::int64_t steps_done) const {
    const auto next = phase_after(place_.phases, steps_done);
    return fits(plan, place_.phases[next]) ? end_of_shape(place_.phases, next) : next;
  }

  std::optional<NextPlan> next_phase(const plan::Plan& plan, std::int64_t steps_done) const {
    const auto phase = end_phase(plan, steps_done);
    if (phase == place_.phases.size()) return std::nullopt;
    return NextPlan{place_.plan_of(phase).plan, spelled(place_.phases[phase]), "", phase};
  }

  LoopInput input(ActivePlan& work, std::int64_t first_step, const std::optional<PlanChange>& change, std::optional<Seconds> longest_save) {
    return {place_.config,
            place_.data,
            allocation_,
            *work.active,
            *work.trainer,
            manifest(work),
            first_step,
            place_.phases,
            end_phase(work.chosen.plan, first_step),
            next_phase(work.chosen.plan, first_step),
            peak_flops(work),
            plan::summary(work.chosen.plan),
            place_.changed,
            work.chosen.forecast,
            ends_,
            change,
            longest_save,
            &totals_,
            work.active_ranks,
            work.chosen.profile,
            asynchronous_saves(place_, work),
            place_.local,
            drains(work),
            requests(work),
            replanner(work),
            corrected_profile_file(allocation_.run(), work.chosen.plan.length, place_.phases.front().length),
            [this, &work](const cluster::Profile& profile) {
              return simulate::ProgramForecaster{profile, place_.runtime, place_.runtime_constant}.forecast(work.chosen.plan).iteration;
            },
            [&work](cluster::Profile profile) {
              work.chosen.profile = std::move(profile);
              work.corrected = true;
            },
            &ahead_,
            [this, &work](const std::optional<NextPlan>& next) {
              if (work.active->rank() == Rank{0}) ahead_.invite(work.active_ranks);
              ahead_.begin(place_, work, work.active_ranks.front(), next);
            }};
  }

  std::unique_ptr<checkpoint::BackgroundSave> drains(const ActivePlan& work) const {
    if (!place_.local) return nullptr;
    return std::make_unique<checkpoint::BackgroundSave>(*work.active, checkpoint::LocalState{}, checkpoint::StateMemory::stays, deadline());
  }

  /// The run ends, and a plan may be half ready.
  void let_go_of_next() {
    ahead_.abandon();
    ahead_.drop();
  }

  std::function<std::optional<NextPlan>()> requests(const ActivePlan& work) const {
    if (work.active->rank() != Rank{0}) return {};
    auto bind = [this, &work](plan::Plan plan, const std::string& source) { return hooks_.bind(std::move(plan), work.chosen, source); };
    const auto requests = std::make_shared<PlanRequests>(allocation_.run(), std::move(bind), work.chosen.plan);
    return [requests] { return requests->look(); };
  }

  Replanner replanner(const ActivePlan& work) const {
    if (work.active->rank() != Rank{0} || !hooks_.plan_again) return {};
    return [this, &work](const std::vector<monitor::Slowness>& slow, std::int64_t steps_left, const std::stop_token& stop) {
      return hooks_.plan_again(work, slow, steps_left, stop);
    };
  }

  void close(const ActivePlan& work) const {
    account_memory(*work.active, work.arena + work.save_copy);
    account_gpu_memory(work);
    if (!place_.config.report.timeline.empty())
      monitor::write_measured_timeline(place_.config.report.timeline, *work.active, *work.trainer, deadline());
  }

  /// What GPUs hold beside arenas, against what the probe measured; a GPU that ranks share counts for none of them.
  void account_gpu_memory(const ActivePlan& work) const {
    const auto* type = cluster::find_type(work.chosen.profile, work.chosen.profile.devices.at(place_.world.rank().index()).type);
    std::int64_t over = 0;
    if (place_.device.kind == cluster::DeviceKind::gpu && type != nullptr && type->context.count > 0) {
      const auto gpu = gpu::DeviceContext::open(place_.device.ordinal);
      if (gpu.facts().memory == type->memory) over = (gpu.facts().memory - gpu.free_memory() - work.arena - type->context).count;
    }
    for (auto theirs : mpi::all_gather(work.active->control(), over, deadline())) over = std::max(over, theirs);
    constexpr Bytes granularity{64 << 20};  // of a driver's own allocations
    if (work.active->rank() == Rank{0} && Bytes{over} > granularity)
      log::warning("GPUs hold ", Bytes{over}, " more than the plan assumed; are they used by others? (nvidia-smi)");
  }

  /// What the processes of CPU ranks held beside their arenas and copies of the state, against the bound that the plan was made with.
  void account_memory(const comm::World& active, Bytes exact) const {
    const bool on_cpu = place_.device.kind == cluster::DeviceKind::cpu;
    const std::int64_t mine = on_cpu ? (topology::peak_resident() - exact).count : 0;
    std::int64_t most = 0;
    for (auto theirs : mpi::all_gather(active.control(), mine, deadline())) most = std::max(most, theirs);
    if (active.rank() != Rank{0} || most <= 0) return;
    const Bytes bound = place_.runtime_constant;
    print(text("memory outside the arena: at most ", Bytes{most}, " on a rank, forecast at most ", bound, "\n"));
    if (most > bound.count) log::warning("processes use more memory than the plan assumed: lower --device.memory by ", Bytes{most} - bound);
  }

  checkpoint::Manifest manifest(const ActivePlan& work) const {
    checkpoint::Manifest manifest;
    manifest.seed = static_cast<std::uint64_t>(place_.config.training.seed);
    manifest.training = training_identity(place_.config, 0);  // each save adds the phases that have begun by then
    manifest.data_fingerprint = place_.data.fingerprint;
    manifest.data = to_json(place_.data.record);
    manifest.plan = files::plan_to_json(work.chosen.plan);
    manifest.profile = files::profile_to_json(work.chosen.profile);
    manifest.provenance = provenance(place_, allocation_, work.chosen, *work.trainer, *work.active);
    return manifest;
  }

  double peak_flops(const ActivePlan& work) const {
    const auto& profile = work.chosen.profile;
    double sum = 0;
    for (Rank rank : work.active_ranks)
      if (const auto* type = cluster::find_type(profile, profile.devices.at(rank.index()).type))
        sum += cluster::product_peak(*type, work.chosen.plan.precision).value;
    return sum;
  }

  /// Ranks without work wait here for those with work, pass signals on, make the next plan ready with them, and learn how it ended.
  SegmentResult meet(const SegmentResult& mine, const ActivePlan& work) {
    wait_for_all(work);
    const Rank speaker = work.active_ranks.front();
    const auto words = mpi::broadcast_string(place_.world.control(), to_text(mine), speaker.value, deadline());
    SegmentResult theirs = segment_result_from_text(words);
    theirs.since = mine.next ? mine.since : now();
    if (!theirs.next && !work.trainer) let_go_of_next();
    return theirs;
  }

  void wait_for_all(const ActivePlan& work) {
    std::optional<PlanAhead::Invitation> invitation;
    if (!work.trainer) invitation.emplace(ahead_, work.active_ranks.front());
    auto arrived = place_.world.control().barrier();
    for (mpi::Backoff backoff; !arrived.test();) {
      allocation_.relay_signals();
      if (invitation && invitation->came()) ahead_.begin(place_, work, work.active_ranks.front(), {});
      if (invitation && ahead_.over() && !ahead_.wait()->refused.empty()) {
        ahead_.drop();
        invitation.emplace(ahead_, work.active_ranks.front());
      }
      if (work.trainer || ahead_.over())
        backoff.pause();  // the others come soon
      else
        std::this_thread::sleep_for(std::chrono::milliseconds{5});
    }
  }

  const RunContext& place_;
  Incarnation& allocation_;
  const RunHooks hooks_;
  const bool resumes_;
  const std::optional<Seconds> ends_;
  PlanAhead ahead_;
  IncarnationTotals totals_;
};

TrainingRun::TrainingRun(const RunContext& place, Incarnation& allocation, RunHooks hooks, bool resumes, std::optional<Seconds> ends)
    : state_{std::make_unique<State>(place, allocation, std::move(hooks), resumes, ends)} {}
TrainingRun::~TrainingRun() = default;

SegmentResult TrainingRun::run(const ChosenPlan& chosen) { return state_->run(chosen); }
const IncarnationTotals& TrainingRun::totals() const { return state_->totals(); }

}  // namespace flotilla::session
