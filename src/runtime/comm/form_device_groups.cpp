#include "flotilla/comm/device_groups.hpp"

#include <array>
#include <cstring>
#include <optional>
#include <span>

#include "device_views.hpp"
#include "flotilla/base/clock.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/base/log.hpp"
#include "flotilla/comm/agree.hpp"
#include "flotilla/mpi/backoff.hpp"
#include "flotilla/mpi/device_memory.hpp"
#include "flotilla/nccl/library.hpp"
#include "group_self_test.hpp"
#include "group_text.hpp"
#include "leaked_requests.hpp"

namespace flotilla::comm {
namespace {

/// What a member says to the others after each phase. Travels as bytes.
struct Vote {
  bool yes = true;
  nccl::UniqueId id;              ///< the first member's counts
  std::array<char, 96> device{};  ///< this member's: "GPU 1, NVIDIA H100 80GB HBM3"; empty: none
  std::array<char, 300> why{};

  void no(std::string_view reason) {
    if (!yes) return;
    yes = false;
    write(reason, why);
  }
  void computes_on(const gpu::DeviceContext& gpu) { write(text("GPU ", gpu.facts().ordinal, ", ", gpu.facts().name), device); }

 private:
  static void write(std::string_view words, std::span<char> into) {
    std::memcpy(into.data(), words.data(), std::min(words.size(), into.size() - 1));
  }
};

/// A group on its way from the hosts' memory to a transport between devices.
class Candidate {
 public:
  /// `without`: how the group goes on where one refuses; `device`: this rank's, or null.
  Candidate(ProcessGroup& over_mpi, const World& world, const char* without, const gpu::DeviceContext* device)
      : over_mpi_{over_mpi}, world_{world}, without_{without}, votes_(over_mpi.members().size()) {
    if (device != nullptr) vote.computes_on(*device);
  }

  Vote vote;
  std::unique_ptr<DeviceGroup> connected;  ///< by NCCL ...
  std::optional<nccl::NcclCommunicator> joining;
  std::unique_ptr<ProcessGroup> on_device_memory;  ///< ... or by MPI
  std::unique_ptr<ProcessGroup> view;              ///< of either
  std::unique_ptr<GroupSelfTest> proof;            ///< of `view`
  bool refused = false;
  std::string refusal;  ///< who refused it, and why

  int size() const { return over_mpi_.size(); }
  int index() const { return over_mpi_.index(); }
  const program::Group& value() const { return over_mpi_.value(); }
  std::string describe() const { return over_mpi_.describe(); }
  const nccl::UniqueId& id() const { return votes_.front().id; }

  void start_vote() {
    auto* const all = reinterpret_cast<std::byte*>(votes_.data());
    operation_ = over_mpi_.make_all_gather(reinterpret_cast<const std::byte*>(&vote), all, {sizeof(Vote)});
    operation_->start({sizeof(Vote)});
  }
  bool voted() { return operation_->progress(); }
  std::string waiting_for() const { return operation_->describe(); }

  /// One member's no is everybody's.
  void count_votes() {
    const auto no = std::ranges::find(votes_, false, &Vote::yes);
    if (refused || no == votes_.end()) return;
    refused = true;
    refusal = text(refusers(), ": ", no->why.data());
    if (index() == 0) log::warning("the ", describe(), " goes on ", without_, ": ", refusal);
  }

  /// Whatever throws is a no.
  template <class Work>
  void attempt(Work&& work) {
    try {
      if (!refused && vote.yes) work();
    } catch (const Error& error) {
      vote.no(error.what());
    }
  }

 private:
  /// Who said no, on which devices: the first ones. A wrong sum is everybody's who saw it.
  std::string refusers() const {
    constexpr std::ptrdiff_t most_named = 4;
    const auto all = std::ranges::count(votes_, false, &Vote::yes);
    std::string names;
    std::ptrdiff_t named = 0;
    for (std::size_t m = 0; m < votes_.size() && named < most_named; ++m) {
      if (votes_[m].yes) continue;
      const std::string device = votes_[m].device.data();
      names += text(named++ == 0 ? "" : ", ", world_.name(over_mpi_.members()[m]), device.empty() ? "" : text(" (", device, ")"));
    }
    return all > named ? text(names, " and ", all - named, " more") : names;
  }

  ProcessGroup& over_mpi_;
  const World& world_;
  const char* const without_;
  std::vector<Vote> votes_;
  std::unique_ptr<PersistentOperation> operation_;  // after the votes
};

using Candidates = std::vector<std::unique_ptr<Candidate>>;

/// All members of each group learn how the phase ended for the others.
void vote(const World& world, Candidates& candidates, Seconds deadline) {
  const PhaseOutcome mine = outcome_of("forming the groups between GPUs", [&] {
    for (const auto& c : candidates) c->start_vote();
    const Seconds end = now() + deadline;
    for (mpi::Backoff backoff;; backoff.pause()) {
      const Candidate* waiting = nullptr;
      for (const auto& c : candidates)
        if (!c->voted()) waiting = c.get();
      if (waiting == nullptr) return;
      FLOTILLA_REQUIRE(now() < end, ErrorKind::communication, "no answer within ", deadline, " in ", waiting->waiting_for());
    }
  });
  if (!mine.ok) keep_for_mpi(std::make_unique<Candidates>(std::move(candidates)));  // messages to a silent member are still in flight
  agree(world, mine, 2.0 * deadline + Seconds{1.0});
  for (const auto& c : candidates) c->count_votes();
}

/// Polls `done` on every candidate that is still in the race, until all are done, have failed, or time is over.
template <class Done>
void await(Candidates& candidates, Seconds deadline, const char* what, Done done) {
  const Seconds end = now() + deadline;
  for (mpi::Backoff backoff;; backoff.pause()) {
    bool all = true;
    for (const auto& c : candidates)
      c->attempt([&] {
        if (done(*c)) return;
        all = false;
        FLOTILLA_REQUIRE(now() < end, ErrorKind::communication, c->connected || c->joining ? "NCCL" : "MPI on device memory",
                         ": no answer within ", deadline, " in ", what);
      });
    if (all) return;
  }
}

/// Communicators that will not be used are given up, all of them as one. A rank whose GPU hangs meanwhile is everybody's error.
void give_up(const World& world, Candidates& candidates, Seconds deadline) {
  std::vector<nccl::NcclCommunicator> communicators;
  for (const auto& c : candidates) {
    if (!c->refused) continue;
    if (c->connected) communicators.push_back(c->connected->communicator());
    if (c->joining) communicators.push_back(*c->joining);
  }
  comm::agree_on(
      world, "giving up communicators of NCCL",
      [&] {
        FLOTILLA_REQUIRE(nccl::abort_all(communicators, deadline), ErrorKind::communication,
                         "NCCL does not give up its communicators within ", deadline, ": the GPU hangs; see nvidia-smi and dmesg");
      },
      2.0 * deadline + Seconds{1.0});
  for (const auto& c : candidates)
    if (c->refused) {
      c->proof.reset();
      c->view.reset();
      c->connected.reset();
      c->joining.reset();
    }
}

void offer(Candidates& candidates, const gpu::DeviceContext* device) {
  const nccl::NcclPresence presence = nccl::presence();
  for (const auto& c : candidates) {
    if (device == nullptr) c->vote.no("computes on a CPU");
    if (!presence.any()) c->vote.no(presence.why_none);
    c->attempt([&] {
      if (c->index() == 0) c->vote.id = nccl::make_unique_id();
    });
  }
}

void join(Candidates& candidates, const gpu::DeviceContext* device, const OrderedSum& ordered_sum, Seconds deadline) {
  for (const auto& c : candidates)
    c->attempt([&] { c->joining = nccl::NcclCommunicator::join(*device, c->id(), c->size(), c->index(), c->describe(), deadline); });
  await(candidates, deadline, "joining", [](Candidate& c) { return c.joining->ready(); });
  for (const auto& c : candidates)
    c->attempt([&] {
      c->connected = std::make_unique<DeviceGroup>(c->value(), c->index(), *c->joining, ordered_sum);
      c->joining.reset();
    });
}

/// `part` begins a part of the proof, `check` ends it.
template <class Part, class Check>
void prove_part(Candidates& candidates, Seconds deadline, Part part, Check check) {
  for (const auto& c : candidates) c->attempt([&] { part(*c); });
  await(candidates, deadline, "verifying the group", [](Candidate& c) { return c.proof->progress(); });
  for (const auto& c : candidates) c->attempt([&] { check(*c); });
}

/// verify()'s proof. `view_of`: a candidate's group, for data of the host.
template <class ViewOf>
void prove(const World& world, Candidates& candidates, Seconds deadline, ViewOf view_of) {
  prove_part(
      candidates, deadline,
      [&](Candidate& c) {
        c.view = view_of(c);
        c.proof = std::make_unique<GroupSelfTest>(*c.view);
        c.proof->start_identities();
      },
      [&](Candidate& c) { c.proof->check_identities(world); });
  vote(world, candidates, 3.0 * deadline);  // sums wait for all members, so none may begin where one has refused
  prove_part(
      candidates, deadline, [](Candidate& c) { c.proof->start_sums(); }, [](Candidate& c) { c.proof->check_sums(); });
}

/// Wanted groups of several members with this rank; `places`: which they are.
Candidates candidates_of(const World& world, const Groups& groups, const std::vector<bool>& wanted, const char* without,
                         const gpu::DeviceContext* device, std::vector<std::size_t>& places) {
  Candidates candidates;
  for (std::size_t g = 0; g < groups.size(); ++g)
    if (wanted[g] && groups[g] && groups[g]->size() > 1) {
      candidates.push_back(std::make_unique<Candidate>(*groups[g], world, without, device));
      places.push_back(g);
    }
  return candidates;
}

void tell_refusals(const Candidates& candidates, const std::vector<std::size_t>& places, std::size_t groups,
                   std::vector<std::string>* refusals) {
  if (refusals == nullptr) return;
  refusals->assign(groups, {});
  for (std::size_t i = 0; i < candidates.size(); ++i) (*refusals)[places[i]] = candidates[i]->refusal;
}

}  // namespace

DeviceGroups form_device_groups(const World& world, const Groups& groups, const std::vector<bool>& wanted, const gpu::DeviceContext* device,
                                const OrderedSum& ordered_sum, Seconds deadline, std::vector<std::string>* refusals) {
  std::vector<std::size_t> places;
  auto candidates = candidates_of(world, groups, wanted, "over MPI", device, places);
  offer(candidates, device);
  vote(world, candidates, deadline);
  join(candidates, device, ordered_sum, deadline);
  vote(world, candidates, 2.0 * deadline);
  give_up(world, candidates, deadline);
  prove(world, candidates, deadline, [&](Candidate& c) { return make_host_view(world, *c.connected, *device); });
  vote(world, candidates, 3.0 * deadline);
  give_up(world, candidates, deadline);
  DeviceGroups formed(groups.size());
  for (std::size_t i = 0; i < candidates.size(); ++i) formed[places[i]] = std::move(candidates[i]->connected);
  tell_refusals(candidates, places, groups.size(), refusals);
  return formed;
}

Groups form_device_memory_groups(const World& world, const std::vector<program::Group>& values, const Groups& groups,
                                 const std::vector<bool>& wanted, const gpu::DeviceContext* device, const OrderedSum& ordered_sum,
                                 Seconds deadline, std::vector<std::string>* refusals) {
  std::vector<std::size_t> places;
  auto candidates = candidates_of(world, groups, wanted, "through the hosts' memory", device, places);
  const std::string why_not = device == nullptr ? "computes on a CPU" : mpi::why_no_device_memory();
  for (const auto& c : candidates)
    if (!why_not.empty()) c->vote.no(why_not);
  vote(world, candidates, deadline);
  const auto tags = group_tags(world, values);
  for (std::size_t i = 0; i < candidates.size(); ++i)
    candidates[i]->attempt([&, &c = *candidates[i]] {
      c.on_device_memory =
          make_device_memory_group(world, c.value(), tags.first(places[i], GroupTags::device), tags.count, *device, ordered_sum);
    });
  prove(world, candidates, deadline, [&](Candidate& c) { return make_host_view(*c.on_device_memory, *device); });
  vote(world, candidates, 3.0 * deadline);
  Groups formed(groups.size());
  tell_refusals(candidates, places, groups.size(), refusals);
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    if (!candidates[i]->refused)
      formed[places[i]] = std::move(candidates[i]->on_device_memory);
    else if (candidates[i]->proof)
      keep_for_mpi(std::move(candidates[i]));  // messages to a silent member are still in flight
  }
  return formed;
}

}  // namespace flotilla::comm
