#include "plan_ahead.hpp"

#include <algorithm>
#include <atomic>
#include <thread>

#include "flotilla/base/error.hpp"
#include "flotilla/comm/agree.hpp"
#include "flotilla/mpi/communicator.hpp"
#include "flotilla/simulate/forecaster.hpp"
#include "memory_need.hpp"
#include "shared_plan.hpp"

namespace flotilla::session {
namespace {

constexpr int invitations = 0;  // tag
constexpr std::byte invitation{1};

/// The plan at work, as far as the next one depends on it. A copy: steps go on meanwhile.
struct Before {
  plan::Plan plan;
  cluster::Profile profile;
  Bytes arena;                      ///< on this rank
  program::HostMemory host_memory;  ///< likewise
  Bytes save_copy;                  ///< likewise
};

/// The speaker's, on every rank: its run may have corrected it.
cluster::Profile profile_of(const RunContext& place, const Before& before, Rank speaker) {
  auto profile = shared_profile(place.world, speaker, before.profile, "the profile", place.config.comm.deadline);
  profile.wanted_transport = before.profile.wanted_transport;  // the job's wish, in no file
  return profile;
}

/// The active ranks' first rank holds its steps against the forecast.
ChosenPlan chosen_next(const RunContext& place, const Before& before, Rank speaker, const NextPlan& next, const Lowered& lowered) {
  const auto profile = next.phase ? place.plan_of(*next.phase).profile : profile_of(place, before, speaker);
  return comm::agree_on(
      place.world, "forecasting the new plan",
      [&] {
        ChosenPlan chosen;
        chosen.plan = next.plan;
        chosen.profile = profile;
        chosen.origin = next.reason;
        if (place.world.rank() == lowered.active.front())
          chosen.forecast = simulate::ProgramForecaster{chosen.profile, place.runtime, place.runtime_constant}.forecast(chosen.plan, true);
        return chosen;
      },
      place.config.comm.deadline);
}

MemoryNeed need_here(const RunContext& place, const Before& before, const Lowered& lowered) {
  const auto here = place.world.rank();
  const auto* type = cluster::find_type(before.profile, before.profile.devices.at(here.index()).type);
  const Bytes limit = memory_limit(place.config.device.memory, type == nullptr ? Bytes{} : type->memory);
  const Bytes arenas = before.arena + lowered.arena(here);
  if (place.device.kind == cluster::DeviceKind::cpu)
    return {(program::migration_peak(before.arena, lowered.arena(here)) + before.save_copy + place.runtime_constant).count, limit.count};
  const MemoryNeed on_gpu{(arenas + (type == nullptr ? Bytes{} : type->context)).count, limit.count};
  const auto after = lowered.host_memory(here);
  const Bytes copies = before.host_memory.pinned + before.host_memory.state + after.pinned + after.state;
  const MemoryNeed on_host{(program::migration_peak({}, copies) + place.runtime_constant).count,
                           type == nullptr ? 0 : type->host_memory.count};
  return tighter(on_gpu, on_host);
}

/// The speaker's, on every rank.
NextPlan shared(const RunContext& place, Rank speaker, const std::optional<NextPlan>& next) {
  const Seconds deadline = place.config.comm.deadline;
  const auto plan = shared_plan(place.world, speaker, next ? std::optional{next->plan} : std::nullopt, "the new plan", deadline);
  const auto phase = shared_text(place.world, speaker, next && next->phase ? std::to_string(*next->phase) : "", deadline);
  return {plan.value(), shared_text(place.world, speaker, next ? next->reason : "", deadline), "",
          phase.empty() ? std::nullopt : std::optional<std::size_t>{std::stoul(phase)}};
}

}  // namespace

class PlanAhead::Thread {
 public:
  Thread(const RunContext& place, Before before, Rank speaker, std::optional<NextPlan> next)
      : state_{std::make_shared<State>(place, std::move(before), speaker, std::move(next))}, thread_{[state = state_] { state->run(); }} {}
  ~Thread() {
    if (!thread_.joinable()) return;
    static_cast<void>(new std::shared_ptr<State>{state_});  // what it holds is not given back while the job ends
    thread_.detach();
  }
  Thread(const Thread&) = delete;
  Thread& operator=(const Thread&) = delete;

  bool over() const noexcept { return state_->over.load(std::memory_order_acquire); }
  void abandon() noexcept { state_->abandoned = true; }
  ReadyPlan& wait() {
    if (thread_.joinable()) thread_.join();
    if (state_->error) std::rethrow_exception(state_->error);
    return state_->ready;
  }

 private:
  struct State {
    State(const RunContext& where, Before old, Rank who, std::optional<NextPlan> plan)
        : place{where}, before{std::move(old)}, speaker{who}, next{std::move(plan)} {}

    void run() noexcept {
      try {
        make_ready();
      } catch (const comm::AgreedError& refusal) {
        ready.work = {};
        ready.refused = refusal.what();
      } catch (...) {
        error = std::current_exception();
      }
      over.store(true, std::memory_order_release);
    }

    void make_ready() {
      ready.next = shared(place, speaker, next);
      const auto& plan = ready.next.plan;
      auto lowered = lower(place, plan);
      auto mine = need_here(place, before, lowered);
      mine.abandoned = abandoned;
      const auto needs = mpi::all_gather(place.world.control(), mine, place.config.comm.deadline);
      const auto readiness = readiness_of(needs, place.plan_is_given, [this](Rank rank) { return place.world.name(rank); });
      if (readiness.verdict == Readiness::Verdict::refuse) {
        ready.refused = readiness.why;
      } else if (readiness.verdict == Readiness::Verdict::save) {
        ready.too_large = readiness.why;
      } else {
        ready.migration = program::migrate(before.plan, plan, place.runtime.placement);
        const auto chosen = chosen_next(place, before, speaker, ready.next, lowered);
        ready.work = activate(place, chosen, std::move(lowered));
      }
    }

    const RunContext place;
    const Before before;
    const Rank speaker;
    const std::optional<NextPlan> next;
    ReadyPlan ready;
    std::exception_ptr error;
    std::atomic<bool> over{false}, abandoned{false};
  };

  std::shared_ptr<State> state_;
  std::thread thread_;
};

PlanAhead::PlanAhead(const comm::World& all, Seconds deadline) : world_{all.control(), deadline} {}
PlanAhead::~PlanAhead() = default;

void PlanAhead::begin(const RunContext& place, const ActivePlan& work, Rank speaker, const std::optional<NextPlan>& next) {
  FLOTILLA_ASSERT(!thread_, "two plans are made ready at once");
  const RunContext beside{world_,       place.config,   place.data,   place.runtime, place.runtime_constant, place.threads,
                          place.device, place.schedule, place.phases, place.plans,   place.plan_is_given};
  thread_ = std::make_unique<Thread>(beside,
                                     Before{work.chosen.plan, work.chosen.profile, work.arena,
                                            work.trainer ? work.trainer->host_memory() : program::HostMemory{}, work.save_copy},
                                     speaker, next);
}

bool PlanAhead::over() const noexcept { return thread_ && thread_->over(); }

void PlanAhead::abandon() noexcept {
  if (thread_) thread_->abandon();
}

const ReadyPlan* PlanAhead::wait() { return thread_ ? &thread_->wait() : nullptr; }

ReadyPlan PlanAhead::take() {
  FLOTILLA_ASSERT(thread_, "no plan was made ready");
  ReadyPlan ready = std::move(thread_->wait());
  thread_.reset();
  return ready;
}

void PlanAhead::drop() {
  if (thread_) static_cast<void>(take());
}

PlanAhead::Invitation::Invitation(const PlanAhead& ahead, Rank speaker)
    : request_{ahead.world_.messages().receive({&word_, 1}, speaker.value, invitations)} {}

bool PlanAhead::Invitation::came() { return request_.active() && request_.test(); }

void PlanAhead::invite(const std::vector<Rank>& active) const {
  for (int r = 0; r < world_.size(); ++r)
    if (!std::ranges::binary_search(active, Rank{r})) {
      auto request = world_.messages().send({&invitation, 1}, r, invitations);
      mpi::wait(request, Seconds{10}, "inviting a rank without work");
    }
}

}  // namespace flotilla::session
