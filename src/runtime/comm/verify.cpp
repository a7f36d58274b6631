// Groups are proved before they are used: NCCL across generations hangs or returns wrong sums in the field, and a mistake in forming groups
// would train a wrong model without a word.
#include "flotilla/comm/agree.hpp"
#include "group_self_test.hpp"
#include "leaked_requests.hpp"

namespace flotilla::comm {
namespace {

/// One part on all of this rank's groups, then the agreement of all ranks. A rank whose groups are fine waits there while another waits for
/// its silent member.
template <class Part>
void prove(const World& world, std::unique_ptr<Proofs>& proofs, Seconds deadline, const Part& part) {
  const PhaseOutcome mine = outcome_of("verifying the groups", part);
  if (!mine.ok) keep_for_mpi(std::move(proofs));  // messages to a silent member are still in flight
  agree(world, mine, 2.0 * deadline + Seconds{1.0});
}

}  // namespace

void verify(const World& world, const Groups& groups, Seconds deadline) {
  auto proofs = std::make_unique<Proofs>();
  for (const auto& group : groups)
    if (group) proofs->push_back(std::make_unique<GroupSelfTest>(*group));
  prove(world, proofs, deadline, [&] {
    for (const auto& proof : *proofs) proof->start_identities();
    finish(*proofs, deadline);
    for (const auto& proof : *proofs) proof->check_identities(world);
  });
  prove(world, proofs, deadline, [&] {
    for (const auto& proof : *proofs) proof->start_sums();
    finish(*proofs, deadline);
    for (const auto& proof : *proofs) proof->check_sums();
  });
}

}  // namespace flotilla::comm
