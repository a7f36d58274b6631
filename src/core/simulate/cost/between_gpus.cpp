#include "between_gpus.hpp"

namespace flotilla::simulate {
namespace {

using program::CollectiveKind;
constexpr Bytes fp32_element{4};

Cost times(double factor, Cost cost) {
  cost.time = factor * cost.time;
  return cost;
}

}  // namespace

BetweenGpus::BetweenGpus(const cluster::Profile& all, cluster::Transport transport)
    : transport_{transport},
      all_{all},
      profile_{cluster::over(all, transport)},
      costs_{profile_, nullptr},
      ordered_{all, transport, program::Group::Algorithm::direct, by_pairs()},
      by_library_{all, transport, program::Group::Algorithm::library_all_reduce, by_pairs()} {
  costs_.library_sums = transport == cluster::Transport::nccl;
}

GroupCorrection::Predict BetweenGpus::by_pairs() {
  return [this](const program::Group& group, Bytes bytes) {
    return costs_.collective(CollectiveKind::all_reduce, group, bytes, fp32_element, {}).time;
  };
}

bool BetweenGpus::joins(const std::vector<Rank>& members, bool by_library) {
  const auto [found, fresh] = joined_.try_emplace({members, by_library}, false);
  if (fresh) found->second = cluster::joins(all_, transport_, members, by_library);
  return found->second;
}

Cost BetweenGpus::collective(CollectiveKind kind, const program::Group& group, Bytes bytes, Bytes element, const Flows& flows) {
  const auto count = group.members.size();
  const bool library_sums = costs_.library_sums && program::by_library(group, kind);
  const Bytes all = kind == CollectiveKind::all_gather ? static_cast<std::int64_t>(count) * bytes : bytes;
  const double factor = (library_sums ? by_library_ : ordered_).factor(group.members, count, all);
  return times(factor, costs_.collective(kind, group, bytes, element, flows));
}

Cost BetweenGpus::sum_over_many(const std::vector<Rank>& some, std::size_t members, Bytes bytes, Bytes element, const Flows& flows) {
  return times(ordered_.factor(some, members, bytes), costs_.sum_over_many(some, members, bytes, element, flows));
}

std::uint64_t BetweenGpus::path(const program::Group& group) {
  std::uint64_t path = costs_.path(group);
  for (auto* const correction : {&ordered_, &by_library_}) path = joined(path, correction->kind_of(group.members, group.members.size()));
  return marked(path);
}

std::uint64_t BetweenGpus::path(Rank from, Rank to) { return marked(static_cast<std::uint64_t>(costs_.paths.between(from, to) + 1)); }

}  // namespace flotilla::simulate
