#include "rendezvous.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>

#include "flotilla/base/clock.hpp"
#include "flotilla/mpi/backoff.hpp"
#include "leaked_requests.hpp"

namespace flotilla::comm {
namespace {

struct MailboxMessage {
  std::int32_t size = 0;
  std::uint8_t everyone = 1, ok = 1;
  ErrorKind kind = ErrorKind::internal;
  std::array<char, longest_word> characters{};

  void set(const std::string& text) {
    size = static_cast<std::int32_t>(std::min(text.size(), characters.size()));
    std::copy_n(text.begin(), size, characters.begin());
  }
  std::string get() const { return {characters.data(), static_cast<std::size_t>(size)}; }
  std::span<std::byte> bytes() { return std::as_writable_bytes(std::span{this, 1}); }
};
static_assert(std::is_trivially_copyable_v<MailboxMessage>);

/// Rank 0's side. Kept alive when somebody is missing: the verdict to a stopped rank is in flight until it wakes or the job ends.
struct RendezvousMailbox {
  std::vector<MailboxMessage> messages;
  std::vector<mpi::Request> requests;
  std::vector<mpi::Request> to_missing;  ///< verdicts that nobody may ever fetch
  MailboxMessage verdict;
};

/// Tests all that are still in flight until none is, or until `end`. True when all finished.
bool finish_all(std::vector<mpi::Request>& requests, Seconds end) {
  for (mpi::Backoff backoff;; backoff.pause()) {
    bool all = true;
    for (mpi::Request& request : requests) all = request.test() && all;
    if (all) return true;
    if (now() >= end) return false;
  }
}

Gathered gather(const World& world, const std::string& mine, int tag, RendezvousMailbox& mailbox, Seconds deadline) {
  const auto size = static_cast<std::size_t>(world.size());
  mailbox.messages.resize(size);
  mailbox.requests.resize(size);
  for (int r = 1; r < world.size(); ++r)
    mailbox.requests[static_cast<std::size_t>(r)] = world.control().receive(mailbox.messages[static_cast<std::size_t>(r)].bytes(), r, tag);
  finish_all(mailbox.requests, now() + deadline);
  Gathered gathered;
  gathered.words.push_back(mine.substr(0, longest_word));
  for (int r = 1; r < world.size(); ++r) {
    const auto i = static_cast<std::size_t>(r);
    const bool came = !mailbox.requests[i].active();
    gathered.words.push_back(came ? mailbox.messages[i].get() : "");
    if (!came) gathered.missing.push_back(Rank{r});
  }
  return gathered;
}

PhaseVerdict preside(const World& world, const std::string& mine, const Judge& judge, int tag, Seconds deadline) {
  auto mailbox = std::make_unique<RendezvousMailbox>();
  const Gathered gathered = gather(world, mine, tag, *mailbox, deadline);
  PhaseVerdict verdict = judge(gathered);
  verdict.outcome.message.resize(std::min(verdict.outcome.message.size(), longest_word));
  mailbox->verdict.everyone = verdict.everyone;
  mailbox->verdict.ok = verdict.outcome.ok;
  mailbox->verdict.kind = verdict.outcome.kind;
  mailbox->verdict.set(verdict.outcome.message);
  // Who came must not wait in the next agreement while rank 0 waits here for who did not.
  for (int r = 1; r < world.size(); ++r) {
    const bool missing = std::ranges::find(gathered.missing, Rank{r}) != gathered.missing.end();
    auto request = world.control().send(mailbox->verdict.bytes(), r, tag);
    if (missing) mailbox->to_missing.push_back(std::move(request));
    mailbox->requests[static_cast<std::size_t>(r)] = missing ? mpi::Request{} : std::move(request);
  }
  if (!finish_all(mailbox->requests, now() + deadline) || !mailbox->to_missing.empty()) keep_for_mpi(std::move(mailbox));
  return verdict;
}

PhaseVerdict rank_zero_is_silent(const World& world, Seconds deadline) {
  const Rank zero{0};
  return {false, {false, ErrorKind::communication, no_answer(world, std::span{&zero, 1}, deadline)}};
}

struct RendezvousVisit {
  MailboxMessage mine, verdict;
  std::vector<mpi::Request> requests;
};

PhaseVerdict attend(const World& world, const std::string& mine, int tag, Seconds deadline) {
  auto visit = std::make_unique<RendezvousVisit>();
  visit->mine.set(mine);
  visit->requests.push_back(world.control().send(visit->mine.bytes(), 0, tag));
  visit->requests.push_back(world.control().receive(visit->verdict.bytes(), 0, tag));
  // Rank 0 may come a deadline after us and then wait a deadline for somebody else.
  const Seconds patience = 2.0 * deadline + Seconds{0.5};
  if (!finish_all(visit->requests, now() + patience)) {
    visit->requests.pop_back();  // withdraws the receive
    keep_for_mpi(std::move(visit));
    return rank_zero_is_silent(world, patience);
  }
  const MailboxMessage& verdict = visit->verdict;
  return {verdict.everyone != 0, {verdict.ok != 0, verdict.kind, verdict.get()}};
}

}  // namespace

PhaseVerdict rendezvous(const World& world, const std::string& mine, const Judge& judge, Seconds deadline) {
  const int tag = world.next_agreement() & 0x3fff;  // a late letter of an agreement that failed meets no later one
  return world.rank() == Rank{0} ? preside(world, mine, judge, tag, deadline) : attend(world, mine, tag, deadline);
}

void enforce(const PhaseVerdict& verdict) {
  if (verdict.outcome.ok) return;
  if (verdict.everyone) throw AgreedError{verdict.outcome.kind, verdict.outcome.message};
  throw Error{verdict.outcome.kind, verdict.outcome.message};
}

std::string no_answer(const World& world, std::span<const Rank> missing, Seconds deadline) {
  return text("no answer within ", deadline, " from ", world.names(missing), " (stopped, dead or cut off?)");
}

}  // namespace flotilla::comm
