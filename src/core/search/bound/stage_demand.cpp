#include "stage_demand.hpp"

#include <algorithm>
#include <cmath>
#include <ranges>

namespace flotilla::search::bound {
namespace {

constexpr double nearly = 1e-9;
constexpr std::size_t two_groups = 0;  // of SumTable::number_of

/// The most whole sequences of the batch that any size of microbatch does within its time.
struct MostSequences {
  int batch = 0;
  int sequences = 0;
  bool may_be_more(double seconds, double each) const {
    return sequences < batch && seconds * (1 + 2 * nearly) >= (sequences + 1) * each;  // a division for few of them
  }
  void allow(double seconds, double each, int least) {
    if (!(seconds > 0) || !may_be_more(seconds, each)) return;
    const double count = seconds / each * (1 + nearly);
    const int whole = count >= batch ? batch : static_cast<int>(count);
    if (whole >= least) sequences = std::max(sequences, whole);
  }
};

}  // namespace

StageBounds::StageBounds(const pool::DevicePool& device_pool, const LeastLayerCosts& costs, SumTable& sums, const Space& space)
    : device_pool_{device_pool}, costs_{costs}, sums_{sums}, space_{space}, remainders_(sums.numbers() * costs.options.size()) {
  set_waits();
  for (int first = 0; first < costs_.layers; ++first)
    for (int last = first + 1; last <= costs_.layers; ++last)
      for (const ReplicaOption& option : costs_.options) add_passes(option, {first, last});
  first_pass_.push_back(passes_.size());
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

const StageBounds::Remainder& StageBounds::remainder(const ReplicaOption& option, const Interval& i, std::size_t number_of_groups) {
  auto& known = remainders_[number_of_groups * costs_.options.size() + number_of(option)];
  if (known.empty()) set_remainders(option, number_of_groups, known);
  return known[content_of(i)];
}

/// A stage of each content, wherever it stands.
void StageBounds::set_remainders(const ReplicaOption& option, std::size_t number_of_groups, std::vector<Remainder>& out) {
  const int groups = sums_.groups_of(number_of_groups);
  out.resize(4 * at(costs_.layers));
  const auto add = [&](const Interval& stage) {
    Remainder& here = out[content_of(stage)];
    here.update = update(option, stage);
    here.after_passes = costs_.is_ours ? after_passes(option, stage, groups) : here.update;
    here.after_all = costs_.is_ours ? after_all(option, stage, groups) : here.update;
  };
  for (int layers = 1; layers <= costs_.layers; ++layers) {
    add({0, layers}), add({costs_.layers - layers, costs_.layers});
    if (layers < costs_.layers) add({1, 1 + layers});
  }
}

/// Each size of microbatch that fits. The iteration's last microbatch may be short. Either it is followed back through the stages before,
/// or the full one ahead of it, and then its own passes do not count: so much is lost at most of the way back.
void StageBounds::add_passes(const ReplicaOption& option, const Interval& i) {
  first_pass_.push_back(passes_.size());
  const int blocks = costs_.blocks(i), ends = (costs_.begins(i) ? 1 : 0) + (costs_.ends(i) ? 2 : 0);
  const std::size_t top = costs_.ends(i) ? head : blocks > 0 ? block : embedding;
  double rate = impossible, least_wait = impossible;
  for (std::size_t size = 0; size < option.microbatches.size(); ++size) {
    const MicrobatchCosts& m = option.microbatches[size];
    double again = impossible;
    for (std::size_t mode = 0; mode < recompute_modes; ++mode)
      if (blocks <= m.most_blocks[mode][at(ends)]) again = std::min(again, blocks * m.recompute[mode]);
    if (again == impossible) continue;
    const double back = costs_.of(m.backward, i);
    rate = std::min(rate, (costs_.of(m.forward, i) + back + again) / m.most);
    const Waits& waits = waits_[size];
    const double before = wait(m, rate, waits, i);
    least_wait = std::min(least_wait, before);
    passes_.push_back({rate, before, (space_.chunks > 1 ? waits.chunked_there : waits.there)[at(i.first)], back + again - m.backward[top],
                       costs_.of(m.weights, i) - m.weights[top], m.least, least_wait});
  }
}

std::span<const StageBounds::Pass> StageBounds::passes(const ReplicaOption& option, const Interval& i) const {
  const int before = i.first * (2 * costs_.layers - i.first + 1) / 2 + (i.last - i.first - 1);  // intervals
  const std::size_t at = pool::at(before) * costs_.options.size() + number_of(option);
  return std::span{passes_}.subspan(first_pass_[at], first_pass_[at + 1] - first_pass_[at]);
}

double StageBounds::wait(const MicrobatchCosts& m, double rate, const Waits& waits, const Interval& i) const {
  const auto there_and_back = [&](double there, double back) {
    const double own = rate * m.least;
    return there + (space_.pipeline_replicas && m.most > 1 && back > 0 ? back * back / (back + own) : back);
  };
  const auto a = at(i.first);
  double least = impossible;
  if (space_.whole) least = there_and_back(waits.there[a], waits.back[a]);
  if (space_.splits) least = std::min(least, waits.there[a]);
  if (space_.chunks > 1) least = std::min(least, there_and_back(waits.chunked_there[a], waits.chunked_back[a]));
  return least;
}

/// Gradients are summed while a full microbatch goes back through the layers below the stage's last. Where gradients of weights are made
/// later, those of as many more microbatches as stages stand before, all of which are under way within the time.
double StageBounds::hidden(const Pass& pass, const Interval& i, double seconds) const {
  if (!space_.splits || i.first == 0) return std::max(0.0, pass.hides);
  const double most = std::min(seconds / pass.rate, static_cast<double>(device_pool_.request.global_batch)) / pass.least;
  return std::max(0.0, pass.hides + std::min<double>(i.first, most) * pass.hides_later);
}

/// `most_of_fewer`: of fewer groups, whose sums take no longer.
int StageBounds::many(const ReplicaOption& option, const Interval& i, double seconds, std::size_t number_of_groups, int most_of_fewer) {
  const Remainder& after = remainder(option, i, number_of_groups);
  MostSequences most{device_pool_.request.global_batch};
  for (const Pass& pass : std::views::reverse(passes(option, i))) {  // large ones are fastest
    if (!most.may_be_more(seconds - pass.least_wait - after.after_passes, pass.rate)) break;
    const double left = seconds - pass.wait - after.after_passes;
    if (!most.may_be_more(left, pass.rate)) continue;  // whatever hides sums
    const double hides = costs_.is_ours ? hidden(pass, i, seconds) : 0;
    most.allow(std::min(left, seconds - pass.wait_of_sums - after.after_all + hides), pass.rate, pass.least);
    if (most.sequences >= most_of_fewer) break;
  }
  return most.sequences;
}

/// `many` as where two hosts sum.
StageBounds::Share StageBounds::share(const ReplicaOption& option, const Interval& i, double seconds, const ReplicaCount& count) {
  const int batch = device_pool_.request.global_batch;
  const double last = remainder(option, i, two_groups).update, own_last = space_.sharded ? 0 : last;
  const bool fits_one_host = count.most > 1 && option.tensor + std::max(2, count.least) - 1 <= device_pool_.types[at(option.type)].per_node;
  MostSequences alone{batch}, one_host{batch};
  for (const Pass& pass : std::views::reverse(passes(option, i))) {
    const bool more_alone = count.least == 1 && alone.may_be_more(seconds - pass.least_wait - last, pass.rate);
    if (!more_alone && !(fits_one_host && one_host.may_be_more(seconds - pass.least_wait - own_last, pass.rate))) break;
    if (count.least == 1) alone.allow(seconds - pass.wait - last, pass.rate, pass.least);
    if (fits_one_host) one_host.allow(seconds - pass.wait - own_last, pass.rate, pass.least);
  }
  return {alone.sequences, one_host.sequences, count.most > 1 ? many(option, i, seconds, two_groups, batch) : 0};
}

/// Of every option.
void StageBounds::add_shares(const Interval& i, double seconds, const ReplicaCount& count, std::vector<Share>& out) {
  const std::size_t begin = out.size();
  for (const ReplicaOption& option : costs_.options) out.push_back(share(option, i, seconds, count));
  const std::span<Share> all = std::span{out}.subspan(begin);
  if (!costs_.is_ours || count.most == 1) return;
  const std::size_t groups = sums_.number_of(groups_needed(all, count));
  for (std::size_t o = 0; groups > two_groups && o < all.size(); ++o)
    if (all[o].many > 0) all[o].many = many(costs_.options[o], i, seconds, groups, all[o].many);
}

/// Hosts on which a stage stands at least, in the zone where it has most of them: among so many one level of its sums is made.
int StageBounds::groups_needed(std::span<const Share> shares, const ReplicaCount& count) const {
  double hosts = impossible;
  int widest = 1;
  for (std::size_t o = 0; o < shares.size(); ++o) {
    const ReplicaOption& option = costs_.options[o];
    const int most = shares[o].many, per_node = device_pool_.types[at(option.type)].per_node;
    widest = std::max(widest, per_node);
    if (most > 0) hosts = std::min(hosts, static_cast<double>(device_pool_.request.global_batch) / most * option.tensor / per_node);
  }
  if (hosts == impossible) return 2;
  hosts = std::max(std::ceil(hosts - nearly), std::ceil(static_cast<double>(count.least) / widest));
  return std::clamp(static_cast<int>(std::ceil(hosts / sums_.zones() - nearly)), 2, std::max(2, sums_.hosts()));
}

StageDemand StageBounds::demand(double seconds, const ReplicaCount& count, double by_batch) {
  if (seconds != seconds_ || count != count_) {
    seconds_ = seconds, count_ = count;
    shares_.clear();
    for (int first = 0; first < costs_.layers; ++first)
      for (int last = first + 1; last <= costs_.layers; ++last) add_shares({first, last}, seconds, count, shares_);
  }
  StageDemand out{costs_.layers, static_cast<int>(device_pool_.types.size())};
  std::span<const Share> left{shares_};
  for (int first = 0; first < costs_.layers; ++first)
    for (int last = first + 1; last <= costs_.layers; ++last) {
      add_demand(left.first(costs_.options.size()), count, by_batch, out.of(first, last));
      left = left.subspan(costs_.options.size());
    }
  return out;
}

/// Devices of each type for a stage whose replicas take these shares; options of one type follow one another.
void StageBounds::add_demand(std::span<const Share> shares, const ReplicaCount& count, double by_batch, double* least) const {
  const double batch = device_pool_.request.global_batch;
  const bool one_type = device_pool_.types.size() == 1;
  for (std::size_t o = 0; o < shares.size();) {
    const int type = costs_.options[o].type;
    double here = impossible, on_one_host = impossible;
    for (; o < shares.size() && costs_.options[o].type == type; ++o) {
      const int tensor = costs_.options[o].tensor;
      const auto devices = [&](int sequences) { return tensor / (by_batch * sequences / batch + (1 - by_batch) / count.least); };
      if (shares[o].alone >= batch) here = std::min<double>(here, tensor);
      if (shares[o].one_host > 0) on_one_host = std::min(on_one_host, devices(shares[o].one_host));
      if (shares[o].many > 0) here = std::min(here, one_type ? std::ceil(devices(shares[o].many) - nearly) : devices(shares[o].many));
    }
    if (const double devices = std::ceil(on_one_host - nearly); devices <= device_pool_.types[at(type)].per_node)
      here = std::min(here, devices);
    least[type] = here;
  }
}

void StageBounds::list_replicas(double seconds, const ReplicaCount& count, std::vector<BoundProof::Replica>& out) {
  std::vector<Share> all;
  for (int first = 0; first < costs_.layers; ++first)
    for (int last = first + 1; last <= costs_.layers; ++last) {
      all.clear();
      add_shares({first, last}, seconds, count, all);
      for (std::size_t o = 0; o < all.size(); ++o) {
        const ReplicaOption& option = costs_.options[o];
        const Share& most = all[o];
        const int host = device_pool_.types[at(option.type)].per_node;
        if (most.alone > 0 || most.one_host > 0 || most.many > 0)
          out.push_back({first, last, option.type, option.tensor, most.alone, most.one_host, most.many, host});
      }
    }
}

double StageBounds::expense_of(const ReplicaOption& option, const Interval& i, double seconds) {
  const double price = device_pool_.types[at(option.type)].price * option.tensor, batch = device_pool_.request.global_batch;
  const Share most = share(option, i, seconds, {1, device_pool_.request.global_batch});
  const double last = update(option, i);
  double least = impossible;
  for (const Pass& pass : passes(option, i)) {
    if (most.alone >= batch) least = std::min(least, price * (batch * pass.rate + pass.wait + last));
    const double sequences = std::max(most.many, most.one_host);
    if (sequences > 0) least = std::min(least, price * batch * (pass.rate + (pass.wait + (space_.sharded ? 0 : last)) / sequences));
  }
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
