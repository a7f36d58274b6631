#include "group_self_test.hpp"

#include <algorithm>

#include "flotilla/base/clock.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/base/hash.hpp"
#include "flotilla/mpi/backoff.hpp"
#include "flotilla/program/hierarchical_all_reduce.hpp"
#include "known_answer.hpp"

namespace flotilla::comm {
namespace {

/// Elements of the large reduction: pieces beyond what networks send eagerly (64 kB over TCP), within 1 MiB.
std::int64_t large_count(int members) { return std::min(std::int64_t{17'000} * members, std::int64_t{1} << 18); }
/// And of the small one, in uneven pieces.
std::int64_t small_count(int members) { return std::int64_t{3} * members + 1; }

std::uint64_t fingerprint(const program::Group& group) {
  std::string members = to_string(group.kind);
  for (const Rank member : group.members) members += text(' ', member);
  for (const auto& level : group.subgroups) {
    members += " subgroups";
    for (const int subgroup : level) members += text(' ', subgroup);
  }
  return fnv1a(members);
}

template <class T>
std::byte* bytes(T* data) {
  return reinterpret_cast<std::byte*>(data);
}

bool progress(const Proofs& proofs) {
  bool all = true;
  for (const auto& proof : proofs) all = proof->progress() && all;
  return all;
}

}  // namespace

GroupSelfTest::GroupSelfTest(ProcessGroup& group) : group_{group}, identities_(group.members().size()) {}

void GroupSelfTest::start_identities() {
  mine_ = {fingerprint(group_.value()), group_.members()[static_cast<std::size_t>(group_.index())].value, group_.index()};
  operations_.push_back(group_.make_all_gather(bytes(&mine_), bytes(identities_.data()), {sizeof mine_}));
  operations_.back()->start({sizeof mine_});
}

void GroupSelfTest::check_identities(const World& world) const {
  for (int i = 0; i < group_.size(); ++i) {
    const Rank rank = group_.members()[static_cast<std::size_t>(i)];
    const Identity expected{mine_.group, rank.value, i};
    FLOTILLA_REQUIRE(identities_[static_cast<std::size_t>(i)] == expected, ErrorKind::communication, group_.describe(), ": ",
                     world.name(rank), " takes other ranks, or another order of them, for the group");
  }
}

void GroupSelfTest::start_sums() {
  reduce(small_, small_count(group_.size()), small_staging_);
  reduce(large_, large_count(group_.size()), large_staging_);
}

void GroupSelfTest::check_sums() const {
  check_sum(small_);
  check_sum(large_);
}

bool GroupSelfTest::progress() {
  bool all = true;
  for (const auto& operation : operations_) all = operation->progress() && all;
  return all;
}

std::string GroupSelfTest::waiting_for() const {
  for (const auto& operation : operations_)
    if (!operation->progress()) return operation->describe();
  return {};
}

void GroupSelfTest::reduce(std::vector<float>& values, std::int64_t count, std::vector<float>& staging) {
  const Bytes size{count * 4};
  const bool subgroups = !group_.value().subgroups.empty();
  const Bytes staging_size = subgroups ? program::sum_staging(group_.value(), group_.index(), size, element_size(ElementType::fp32))
                                       : all_reduce_staging(size, ElementType::fp32, group_.size());
  values.resize(static_cast<std::size_t>(count));
  staging.resize(static_cast<std::size_t>(staging_size.count / 4));
  fill_known(group_.value(), group_.index(), values);
  operations_.push_back(group_.make_all_reduce(bytes(values.data()), ElementType::fp32, size, bytes(staging.data()), staging_size));
  operations_.back()->start(size);
}

void GroupSelfTest::check_sum(const std::vector<float>& values) const {
  const std::int64_t wrong = first_wrong(group_.value(), values);
  FLOTILLA_REQUIRE(wrong < 0, ErrorKind::communication, group_.describe(), ": a sum of known values came out wrong (element ", wrong,
                   " of ", values.size(), ": ", values[static_cast<std::size_t>(wrong)], " instead of ", KnownSum{group_.value()}(wrong),
                   "); exclude these ranks one by one to find the faulty one");
}

void finish(const Proofs& proofs, Seconds deadline) {
  const Seconds end = now() + deadline;
  for (mpi::Backoff backoff; !progress(proofs); backoff.pause()) {
    if (now() < end) continue;
    for (const auto& proof : proofs)
      if (const std::string what = proof->waiting_for(); !what.empty())
        throw Error{ErrorKind::communication, text("no answer within ", deadline, " in ", what)};
  }
}

}  // namespace flotilla::comm
