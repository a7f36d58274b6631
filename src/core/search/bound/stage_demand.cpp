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

/// What precedes a stage passes at least the layers before it, on whatever is fastest: as many sequences at a time as the stage itself
/// takes at least, or one where microbatches differ from stage to stage.
void StageBounds::set_waits() {
  ByKind forward, both;  // seconds of a sequence, in microbatches of this size or a smaller one
  forward.fill(impossible), both.fill(impossible);
  for (std::size_t size = 0;; ++size) {
    const MicrobatchCosts* any = nullptr;
    for (const ReplicaOption& option : costs_.options) {
      if (size >= option.microbatches.size()) continue;
      const MicrobatchCosts& m = option.microbatches[size];
      any = &m;
      for (std::size_t k = 0; k < layer_kinds; ++k) {
        forward[k] = std::min(forward[k], m.forward[k] / m.most);
        both[k] = std::min(both[k], (m.forward[k] + m.backward[k]) / m.most);
      }
    }
    if (!any) return;
    const bool whole = size == 0 || space_.pipeline_replicas;
    waits_.push_back(whole ? waits_of(any->least, forward, both) : waits_.front());
  }
}

/// The layers before the first of a device's c interleaved stages are a (2c - 1)-th of the device's at least (floor(n / c) of n >= c).
StageBounds::Waits StageBounds::waits_of(double sequences, const ByKind& forward, const ByKind& both) const {
  Waits waits;
  const auto before = [&](const ByKind& each, double layers) {
    return layers < 1 ? 0 : sequences * (each[embedding] + std::min<double>(costs_.layers - 2, layers - 1) * each[block]);
  };
  for (int a = 0; a < costs_.layers; ++a) {
    const double chunked = static_cast<double>(a) / (2 * space_.chunks - 1);
    waits.there.push_back(before(forward, a)), waits.back.push_back(before(both, a) - waits.there.back());
    waits.chunked_there.push_back(before(forward, chunked));
    waits.chunked_back.push_back(before(both, chunked) - waits.chunked_there.back());
  }
  return waits;
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

/// Microbatches of one size through a stage.
struct StageBounds::Pass {
  const MicrobatchCosts* costs = nullptr;
  const Waits* waits = nullptr;
  double rate = 0;   ///< seconds of a sequence, at least
  double again = 0;  ///< seconds of a microbatch that are recomputed
};

/// Visits each size of microbatch that fits.
template <class Visit>
void StageBounds::for_passes(const ReplicaOption& option, const Interval& i, Visit visit) const {
  const int blocks = costs_.blocks(i), ends = (costs_.begins(i) ? 1 : 0) + (costs_.ends(i) ? 2 : 0);
  double least_rate = impossible;
  for (std::size_t size = 0; size < option.microbatches.size(); ++size) {
    const MicrobatchCosts& m = option.microbatches[size];
    double again = impossible;
    for (std::size_t mode = 0; mode < recompute_modes; ++mode)
      if (blocks <= m.most_blocks[mode][at(ends)]) again = std::min(again, blocks * m.recompute[mode]);
    if (again == impossible) continue;
    least_rate = std::min(least_rate, (costs_.of(m.forward, i) + costs_.of(m.backward, i) + again) / m.most);
    visit(Pass{&m, &waits_[size], least_rate, again});
  }
}

/// The iteration's last microbatch may be short. Either it is followed back through the stages before, or the full one ahead of it, and
/// then its own passes do not count: so much is lost at most of the way back.
double StageBounds::wait(const Pass& pass, const Interval& i) const {
  const auto there_and_back = [&](double there, double back) {
    const double own = pass.rate * pass.costs->least;
    return there + (space_.pipeline_replicas && pass.costs->most > 1 && back > 0 ? back * back / (back + own) : back);
  };
  const auto a = at(i.first);
  double least = impossible;
  if (space_.whole) least = there_and_back(pass.waits->there[a], pass.waits->back[a]);
  if (space_.splits) least = std::min(least, pass.waits->there[a]);
  if (space_.chunks > 1) least = std::min(least, there_and_back(pass.waits->chunked_there[a], pass.waits->chunked_back[a]));
  return least;
}

double StageBounds::wait_of_sums(const Pass& pass, const Interval& i) const {
  return (space_.chunks > 1 ? pass.waits->chunked_there : pass.waits->there)[at(i.first)];
}

/// Gradients are summed while a full microbatch goes back through the layers below the stage's last. Where gradients of weights are made
/// later, those of as many more microbatches as stages stand before, all of which are under way within the time.
double StageBounds::hidden(const Pass& pass, const Interval& i, double seconds) const {
  const MicrobatchCosts& m = *pass.costs;
  const std::size_t top = costs_.ends(i) ? head : costs_.blocks(i) > 0 ? block : embedding;
  const double most = std::min(seconds / pass.rate, static_cast<double>(device_pool_.request.global_batch)) / m.least;
  const double later = space_.splits ? std::min<double>(i.first, most) : 0;
  return std::max(0.0, costs_.of(m.backward, i) + pass.again - m.backward[top] + later * (costs_.of(m.weights, i) - m.weights[top]));
}

StageBounds::Share StageBounds::share(const ReplicaOption& option, const Interval& i, double seconds, const ReplicaCount& count,
                                      int groups) const {
  Share share;
  const int batch = device_pool_.request.global_batch;
  const double last = update(option, i), own_last = space_.sharded ? 0 : last;
  const double beside = costs_.is_ours ? after_passes(option, i, groups) : last, all = costs_.is_ours ? after_all(option, i, groups) : last;
  for_passes(option, i, [&](const Pass& pass) {
    const double rest = seconds - wait(pass, i), rest_of_sums = seconds - wait_of_sums(pass, i);
    const auto allow = [&](int& most, double left) {
      const int sequences = sequences_within(left, pass.rate, batch);
      if (sequences >= pass.costs->least) most = std::max(most, sequences);
    };
    if (count.least == 1) allow(share.alone, rest - last);
    if (count.most == 1) return;
    if (option.tensor + std::max(2, count.least) - 1 <= device_pool_.types[at(option.type)].per_node)
      allow(share.one_host, rest - own_last);
    allow(share.many, std::min(rest - beside, rest_of_sums - all + (costs_.is_ours ? hidden(pass, i, seconds) : 0)));
  });
  return share;
}

/// Hosts on which a stage stands at least, in the zone where it has most of them: among so many one level of its sums is made.
int StageBounds::groups_needed(const Interval& i, double seconds, const ReplicaCount& count) const {
  double hosts = impossible;
  int widest = 1;
  for (const ReplicaOption& option : costs_.options) {
    const int most = share(option, i, seconds, count, 2).many, per_node = device_pool_.types[at(option.type)].per_node;
    widest = std::max(widest, per_node);
    if (most > 0) hosts = std::min(hosts, static_cast<double>(device_pool_.request.global_batch) / most * option.tensor / per_node);
  }
  if (hosts == impossible) return 2;
  hosts = std::max(std::ceil(hosts - nearly), std::ceil(static_cast<double>(count.least) / widest));
  return std::clamp(static_cast<int>(std::ceil(hosts / sums_.zones() - nearly)), 2, std::max(2, sums_.hosts()));
}

StageDemand StageBounds::demand(double seconds, const ReplicaCount& count, double by_batch) {
  const int types = static_cast<int>(device_pool_.types.size());
  const double batch = device_pool_.request.global_batch;
  StageDemand out{costs_.layers, types};
  std::vector<double> on_one_host(at(types));
  for (int first = 0; first < costs_.layers; ++first)
    for (int last = first + 1; last <= costs_.layers; ++last) {
      const Interval i{first, last};
      const int groups = costs_.is_ours && count.most > 1 ? groups_needed(i, seconds, count) : 2;
      double* least = out.of(first, last);
      std::ranges::fill(on_one_host, impossible);
      for (const ReplicaOption& option : costs_.options) {
        const Share most = share(option, i, seconds, count, groups);
        double& here = least[option.type];
        const auto devices = [&](int sequences) { return option.tensor / (by_batch * sequences / batch + (1 - by_batch) / count.least); };
        if (most.alone >= batch) here = std::min<double>(here, option.tensor);
        if (most.one_host > 0) on_one_host[at(option.type)] = std::min(on_one_host[at(option.type)], devices(most.one_host));
        if (most.many > 0) here = std::min(here, types == 1 ? std::ceil(devices(most.many) - nearly) : devices(most.many));
      }
      for (int t = 0; t < types; ++t)
        if (const double devices = std::ceil(on_one_host[at(t)] - nearly); devices <= device_pool_.types[at(t)].per_node)
          least[t] = std::min(least[t], devices);
    }
  return out;
}

void StageBounds::list_replicas(double seconds, const ReplicaCount& count, std::vector<BoundProof::Replica>& out) const {
  for (int first = 0; first < costs_.layers; ++first)
    for (int last = first + 1; last <= costs_.layers; ++last) {
      const int groups = costs_.is_ours && count.most > 1 ? groups_needed({first, last}, seconds, count) : 2;
      for (const ReplicaOption& option : costs_.options) {
        const Share most = share(option, {first, last}, seconds, count, groups);
        const int host = device_pool_.types[at(option.type)].per_node;
        if (most.alone > 0 || most.one_host > 0 || most.many > 0)
          out.push_back({first, last, option.type, option.tensor, most.alone, most.one_host, most.many, host});
      }
    }
}

double StageBounds::expense_of(const ReplicaOption& option, const Interval& i, double seconds) const {
  const double price = device_pool_.types[at(option.type)].price * option.tensor, batch = device_pool_.request.global_batch;
  const Share most = share(option, i, seconds, {1, device_pool_.request.global_batch}, 2);
  const double last = update(option, i);
  double least = impossible;
  for_passes(option, i, [&](const Pass& pass) {
    const double before = wait(pass, i);
    if (most.alone >= batch) least = std::min(least, price * (batch * pass.rate + before + last));
    const double sequences = std::max(most.many, most.one_host);
    if (sequences > 0) least = std::min(least, price * batch * (pass.rate + (before + (space_.sharded ? 0 : last)) / sequences));
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
