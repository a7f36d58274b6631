#include "stage_demand.hpp"

#include <algorithm>
#include <cmath>

namespace flotilla::search::bound {
namespace {

constexpr double nearly = 1e-9;

/// Whole sequences in so many seconds.
int sequences_within(double seconds, double each, int most) {
  if (!(seconds > 0)) return 0;
  const double count = seconds / each * (1 + nearly);
  return count >= most ? most : static_cast<int>(count);
}

}  // namespace

StageBounds::StageBounds(const pool::DevicePool& device_pool, const LayerCosts& costs, SumTable& sums, const Space& space)
    : device_pool_{device_pool}, costs_{costs}, sums_{sums}, space_{space} {
  set_waits();
}

/// What precedes a stage passes at least the layers before it, at the smallest microbatch, on whatever is fastest. The layers before the
/// first of a device's c interleaved stages are a (2c - 1)-th of the device's at least (floor(n / c) of n >= c).
void StageBounds::set_waits() {
  ByKind forward, both;
  forward.fill(impossible), both.fill(impossible);
  for (const ReplicaOption& option : costs_.options)
    for (const MicrobatchCosts& m : option.microbatches)
      for (std::size_t k = 0; k < layer_kinds; ++k) {
        forward[k] = std::min(forward[k], m.forward[k]);
        both[k] = std::min(both[k], m.forward[k] + m.backward[k]);
      }
  const auto before = [&](const ByKind& each, double layers) {
    return layers < 1 ? 0 : each[embedding] + std::min<double>(costs_.layers - 2, layers - 1) * each[block];
  };
  for (int a = 0; a < costs_.layers; ++a) {
    const double chunked = static_cast<double>(a) / (2 * space_.chunks - 1);
    double wait = impossible, forward_wait = before(forward, a);
    if (space_.unsplit) wait = before(both, a);
    if (space_.zero_bubble) wait = std::min(wait, before(forward, a));
    if (space_.chunks > 1) wait = std::min(wait, before(both, chunked)), forward_wait = std::min(forward_wait, before(forward, chunked));
    waits_.push_back(wait);
    forward_waits_.push_back(forward_wait);
  }
}

/// A replica's optimizer, where it is not sharded.
double StageBounds::update(const ReplicaOption& option, const Interval& i) const {
  const bool has_token_embedding = costs_.begins(i) || costs_.ends(i);
  return costs_.of(option.update, i) + (has_token_embedding ? option.token_embedding_update : 0);
}

/// After the last pass of a replica that shares its stage with hosts beside its own: what cannot hide is the sum of what is whole last, and
/// the optimizer; or, where it is sharded, the gathering of weights.
double StageBounds::after_passes(const ReplicaOption& option, const Interval& i, int groups) const {
  const SumTimes& sums = sums_.between_hosts(option, groups);
  const bool has_token_embedding = costs_.begins(i) || costs_.ends(i);
  const double token_embedding = has_token_embedding ? sums.token_embedding : 0;
  double least = update(option, i) + (costs_.begins(i) ? token_embedding + sums.own[embedding] : 0);
  if (space_.sharded) {
    const double gathered = device_pool_.request.precision == Precision::fp32 ? 0.5 : 0.25;
    const double last = costs_.begins(i) ? token_embedding / 2 : 0;
    least = std::min(least, last + gathered * (costs_.of(sums.own, i) + token_embedding));
  }
  return least;
}

/// After the last microbatch's backward pass has left the stage's last layer: all sums, one after the other, and what follows them.
double StageBounds::after_all(const ReplicaOption& option, const Interval& i, int groups) const {
  const SumTimes& sums = sums_.between_hosts(option, groups);
  const double all = costs_.of(sums.own, i) + (costs_.begins(i) || costs_.ends(i) ? sums.token_embedding : 0);
  double least = all + update(option, i);
  if (space_.sharded) least = std::min(least, all * (device_pool_.request.precision == Precision::fp32 ? 1.0 : 0.75));
  const bool pipelined = !costs_.begins(i) || !costs_.ends(i);
  if (pipelined && space_.chunks > 1) {  // of a device's interleaved stages only the first one's sums come last
    const double layers = static_cast<double>(i.last - i.first) / (2 * space_.chunks - 1) - (costs_.begins(i) ? 1 : 0);
    least = std::min(least, std::max(0.0, layers) * sums.own[block] * 0.75);
  }
  return least;
}

/// Visits each size of microbatch that fits: least sequences of it, seconds for a sequence at least, seconds that sums may hide behind.
template <class Visit>
void StageBounds::for_passes(const ReplicaOption& option, const Interval& i, Visit visit) const {
  const int blocks = costs_.blocks(i), ends = (costs_.begins(i) ? 1 : 0) + (costs_.ends(i) ? 2 : 0);
  double least_rate = impossible;
  for (const MicrobatchCosts& m : option.microbatches) {
    double again = impossible;
    for (std::size_t mode = 0; mode < recompute_modes; ++mode)
      if (blocks <= m.most_blocks[mode][at(ends)]) again = std::min(again, blocks * m.recompute[mode]);
    if (again == impossible) continue;
    const double backward = costs_.of(m.backward, i), pass = costs_.of(m.forward, i) + backward + again;
    least_rate = std::min(least_rate, pass / m.most);
    const double top = costs_.ends(i) ? m.backward[head] : blocks > 0 ? m.backward[block] : m.backward[embedding];
    visit(m.least, least_rate, std::max(0.0, backward + again - top));
  }
}

StageBounds::Share StageBounds::share(const ReplicaOption& option, const Interval& i, double seconds, int groups) const {
  Share share;
  const int batch = device_pool_.request.global_batch;
  const double wait = waits_[at(i.first)], forward_wait = forward_waits_[at(i.first)];
  if (!(seconds - wait > 0)) return share;
  const double alone = seconds - wait - update(option, i), together = space_.sharded ? seconds - wait : alone;
  const double beside = costs_.is_ours ? seconds - wait - after_passes(option, i, groups) : alone;
  const double with_sums = costs_.is_ours ? seconds - forward_wait - after_all(option, i, groups) : alone;
  for_passes(option, i, [&](int least, double rate, double hidden) {
    const auto allow = [&](int& most, int count) {
      if (count >= least) most = std::max(most, count);
    };
    allow(share.alone, sequences_within(alone, rate, batch));
    allow(share.one_host, sequences_within(together, rate, batch));
    allow(share.many, sequences_within(std::min(beside, with_sums + hidden), rate, batch));
  });
  return share;
}

/// Hosts on which a stage stands at least, in the zone where it has most of them: among so many one level of its sums is made.
int StageBounds::groups_needed(const Interval& i, double seconds) const {
  double hosts = impossible;
  for (const ReplicaOption& option : costs_.options) {
    const int most = share(option, i, seconds, 2).many;
    if (most > 0)
      hosts = std::min(hosts, static_cast<double>(device_pool_.request.global_batch) / most * option.tensor /
                                  device_pool_.types[at(option.type)].per_node);
  }
  if (hosts == impossible) return 2;
  const int of_a_zone = static_cast<int>(std::ceil(std::ceil(hosts - nearly) / sums_.zones() - nearly));
  return std::clamp(of_a_zone, 2, std::max(2, sums_.hosts()));
}

StageDemand StageBounds::demand(double seconds) {
  const int batch = device_pool_.request.global_batch, types = static_cast<int>(device_pool_.types.size());
  StageDemand out{costs_.layers, types};
  for (int first = 0; first < costs_.layers; ++first)
    for (int last = first + 1; last <= costs_.layers; ++last) {
      const Interval i{first, last};
      const int groups = costs_.is_ours ? groups_needed(i, seconds) : 2;
      double* least = out.of(first, last);
      for (const ReplicaOption& option : costs_.options) {
        const Share most = share(option, i, seconds, groups);
        double& here = least[option.type];
        const auto& type = device_pool_.types[at(option.type)];
        if (most.alone >= batch) here = std::min<double>(here, option.tensor);
        if (most.one_host > 0) {
          const int replicas = (batch + most.one_host - 1) / most.one_host;
          if (replicas * option.tensor <= type.per_node) here = std::min<double>(here, replicas * option.tensor);
        }
        if (most.many > 0) {
          const double devices = static_cast<double>(batch) / most.many * option.tensor;
          here = std::min(here, types == 1 ? std::ceil(devices - nearly) : devices);
        }
      }
    }
  return out;
}

void StageBounds::list_replicas(double seconds, std::vector<BoundProof::Replica>& out) const {
  for (int first = 0; first < costs_.layers; ++first)
    for (int last = first + 1; last <= costs_.layers; ++last) {
      const int groups = costs_.is_ours ? groups_needed({first, last}, seconds) : 2;
      for (const ReplicaOption& option : costs_.options) {
        const Share most = share(option, {first, last}, seconds, groups);
        const int host = device_pool_.types[at(option.type)].per_node;
        if (most.alone > 0 || most.one_host > 0 || most.many > 0)
          out.push_back({first, last, option.type, option.tensor, most.alone, most.one_host, most.many, host});
      }
    }
}

double StageBounds::expense_of(const ReplicaOption& option, const Interval& i, double seconds) const {
  const Share most = share(option, i, seconds, 2);
  const double price = device_pool_.types[at(option.type)].price * option.tensor, batch = device_pool_.request.global_batch;
  const double wait = waits_[at(i.first)], last = update(option, i);
  double least = impossible;
  for_passes(option, i, [&](int, double rate, double) {
    if (most.alone >= batch) least = std::min(least, price * (batch * rate + wait + last));
    const double sequences = std::max(most.many, most.one_host);
    if (sequences > 0) least = std::min(least, price * batch * (rate + (wait + (space_.sharded ? 0 : last)) / sequences));
  });
  return least;
}

StageDemand StageBounds::expense(double seconds) {
  StageDemand out{costs_.layers, static_cast<int>(device_pool_.types.size())};
  for (int first = 0; first < costs_.layers; ++first)
    for (int last = first + 1; last <= costs_.layers; ++last)
      for (const ReplicaOption& option : costs_.options) {
        double& here = out.of(first, last)[option.type];
        here = std::min(here, expense_of(option, {first, last}, seconds));
      }
  return out;
}

}  // namespace flotilla::search::bound
