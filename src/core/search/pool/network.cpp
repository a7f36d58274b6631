#include "network.hpp"

#include <algorithm>
#include <bit>

#include "flotilla/base/philox.hpp"
#include "flotilla/model/tensors.hpp"

namespace flotilla::search::pool {
namespace {

constexpr std::uint64_t most_pieces = 32, most_flows = 1 << 16;  // of keys: logarithms of pieces; flows

int rounded(int count) {
  int step = 1;
  while (count / step > tuning::exact_counts) step *= 2;
  return step == 1 ? count : count / (step * tuning::exact_counts / 8) * (step * tuning::exact_counts / 8);
}

}  // namespace

Network::Network(const DevicePool& device_pool, const PlanEvaluator& evaluator)
    : device_pool_{device_pool},
      cost_{evaluator.runtime().layers ? simulate::ProfileCost{device_pool.profile, *evaluator.runtime().layers, evaluator.types()}
                                       : simulate::ProfileCost{device_pool.profile, evaluator.types()}},
      group_{program::Group::Kind::data, {}},
      placement_{program::placement_of(device_pool.profile.devices)},
      elements_(3, 0),
      has_uplinks_{!device_pool.profile.uplinks.empty()} {
  if (const auto& layers = evaluator.runtime().layers)
    group_.algorithm = program::Group::Algorithm::library, group_.most = layers->reduction_rate;
  if (const auto& layers = evaluator.runtime().layers; layers && device_pool.request.precision != Precision::fp32)
    gradient_ = layers->gradient_half;
  if (evaluator.runtime().library_all_reduce) group_.algorithm = program::Group::Algorithm::library_all_reduce;
  const auto& model = device_pool.request.model;
  for (const auto& tensor : model::tensors(model)) {
    if (tensor.tied_layer >= 0)
      token_embedding_ += tensor.elements();
    else if (model.is_embedding(tensor.layer))
      elements_[0] += tensor.elements();
    else if (tensor.layer == 1)
      elements_[1] += tensor.elements();
    else if (model.is_head(tensor.layer))
      elements_[2] += tensor.elements();
  }
  for (const Place& from : device_pool.places)
    for (const Place& to : device_pool.places) {
      const auto price = std::ranges::find_if(device_pool.profile.egress_prices,
                                              [&](const auto& e) { return e.from_zone == from.zone && e.to_zone == to.zone; });
      prices_.push_back(from.zone == to.zone || price == device_pool.profile.egress_prices.end() ? 0 : price->usd_per_byte);
    }
}

std::size_t Network::KeyHash::operator()(const std::vector<int>& key) const {
  std::uint64_t hash = key.size();
  for (const int value : key) hash = hash * 0x9E3779B97F4A7C15u + static_cast<std::uint64_t>(static_cast<std::uint32_t>(value));
  return Philox::mix(hash);
}

double Network::message(const Way& way, int microbatch) {
  std::uint64_t key = at(way.from) * device_pool_.places.size() + at(way.to);
  key = ((key * numbers_of_sizes + number_of_size(microbatch)) << 1 | (way.one_node ? 1 : 0)) * most_flows +
        static_cast<std::uint64_t>(way.flows);
  key = key * most_pieces + static_cast<std::uint64_t>(std::bit_width(static_cast<unsigned>(way.pieces)));
  const int across = has_uplinks_ ? std::min(rounded(way.replicas), static_cast<int>(most_flows) - 1) : 1;
  if (has_uplinks_) key = key * most_flows + static_cast<std::uint64_t>(across);
  auto& recent = recent_[Philox::mix(key) % recent_.size()];
  if (recent.first == key + 1) return recent.second;
  const double seconds = message_of(key, way, microbatch, across);
  recent = {key + 1, seconds};
  return seconds;
}

double Network::message_of(std::uint64_t key, const Way& way, int microbatch, int across) {
  const auto [found, fresh] = messages_.try_emplace(key, 0);
  if (!fresh) return found->second;
  const Place &a = device_pool_.places[at(way.from)], &b = device_pool_.places[at(way.to)];
  // Stages are dealt node by node: neighbours of one place that do not share a node stand in two.
  const int beside = way.one_node ? std::min(1, a.count - 1) : std::min(device_pool_.types[at(a.type)].per_node, a.count - 1);
  const Rank other = way.from == way.to ? Rank{a.first.value + beside} : b.first;
  if (other == a.first) return 0;
  const PlanRequest& r = device_pool_.request;
  const Bytes size{std::int64_t{microbatch} * r.length * r.model.hidden * element_size(r.precision).count / way.pieces};
  return found->second = cost_.message(a.first, other, size, {way.flows, across * way.pieces, across * way.pieces}).time.value;
}

void Network::add(const PipelineReplica& pipeline, const Slot& slot, int start, Members& members) const {
  const Place& place = device_pool_.places[at(slot.place)];
  const int all = std::min(rounded(pipeline.count), (place.count - start + slot.tensor - 1) / slot.tensor);
  const int of_a_node = std::max(1, device_pool_.types[at(place.type)].per_node / slot.tensor);
  const int some = group_.algorithm == program::Group::Algorithm::library ? all : std::min(all, tuning::telling_nodes * of_a_node);
  for (int i = 0; i < some; ++i) members.some.emplace_back(place.first.value + start + i * slot.tensor);
  members.all += at(std::max(0, all));
}

program::Group Network::group_of(std::vector<Rank> members) const {
  program::Group group = group_;
  group.members = std::move(members);
  if (group.algorithm == program::Group::Algorithm::direct) group.subgroups = program::subgroups_of({group.members}, placement_);
  return group;
}

double Network::sum(std::int64_t elements, int shares, const program::Group& some, std::size_t all) const {
  if (all < 2 || elements == 0) return 0;
  const Bytes bytes = elements / shares * gradient_;
  const simulate::Flows at_once{shares, shares, shares};
  if (some.algorithm == program::Group::Algorithm::direct && some.subgroups.empty())
    return cost_.sum_over_many(some.members, all, bytes, gradient_, at_once).time.value;
  return cost_.collective(program::CollectiveKind::all_reduce, some, bytes, gradient_, at_once).time.value;
}

const Network::Sums& Network::sums(const CandidatePlan& candidate, int stage, const std::vector<int>& starts) {
  const std::size_t pipelines = candidate.pipelines.size();
  int share = 1 << 20;  // the smallest degree's members sum as many shards at once, over the same cards
  const bool alone = candidate.stages() == 1 || group_.algorithm == program::Group::Algorithm::library;
  const auto start = [&](std::size_t c) {  // all nodes of a place are alike
    return starts[at(stage) * pipelines + c] %
           device_pool_.types[at(device_pool_.places[at(candidate.pipelines[c].slots[at(stage)].place)].type)].per_node;
  };
  key_.assign(1, candidate.stages() == 1
                     ? 1
                     : 0);  // else ours sum the token embedding with the other end's: token_embedding_sum(); described ones hold two
  for (std::size_t c = 0; c < pipelines; ++c) {
    const Slot& slot = candidate.pipelines[c].slots[at(stage)];
    key_.insert(key_.end(), {slot.place, rounded(candidate.pipelines[c].count), slot.tensor, start(c)});
    share = std::min(share, slot.tensor);
  }
  const auto [found, fresh] = sums_.try_emplace(key_);
  if (!fresh) return found->second;
  Members ranks;
  std::vector<int> after(device_pool_.places.size(), -1);  // where the next column of a place begins
  for (std::size_t c = 0; c < pipelines; ++c) {
    const Slot& slot = candidate.pipelines[c].slots[at(stage)];
    int& here = after[at(slot.place)];
    if (here < 0) here = start(c);
    add(candidate.pipelines[c], slot, here, ranks);
    here += rounded(candidate.pipelines[c].count) * slot.tensor;
  }
  const bool copied = group_.algorithm == program::Group::Algorithm::library && candidate.stages() > 1;
  const auto group = group_of(std::move(ranks.some));
  found->second = {sum(elements_[0] + (alone ? token_embedding_ : 0), share, group, ranks.all), sum(elements_[1], share, group, ranks.all),
                   sum(elements_[2] + (copied ? token_embedding_ : 0), share, group, ranks.all)};
  return found->second;
}

double Network::staging(int first, int last, int replicas, int tensor) const {
  if (group_.algorithm == program::Group::Algorithm::library) return 0;
  const int layers = device_pool_.request.model.layers();
  const auto kept = [&](std::int64_t elements, int members) {
    constexpr double fp32_bytes = 4;
    return static_cast<double>(elements) / tensor * fp32_bytes * (members - 1) / members;
  };
  double most = 0;
  if (first == 0) most = std::max(most, kept(elements_[0], replicas));
  if (first < layers - 1 && last > 1) most = std::max(most, kept(elements_[1], replicas));
  if (last == layers) most = std::max(most, kept(elements_[2], replicas));
  if (first == 0 || last == layers) most = std::max(most, kept(token_embedding_, first == 0 && last == layers ? replicas : 2 * replicas));
  return most;
}

double Network::token_embedding_sum(const CandidatePlan& candidate, const std::vector<int>& starts) {
  if (candidate.stages() == 1 || group_.algorithm == program::Group::Algorithm::library) return 0;
  const std::size_t pipelines = candidate.pipelines.size();
  key_.clear();
  int share = 1 << 20;
  for (const int stage : {0, candidate.stages() - 1})
    for (std::size_t c = 0; c < pipelines; ++c) {
      const Slot& slot = candidate.pipelines[c].slots[at(stage)];
      key_.insert(key_.end(), {slot.place, rounded(candidate.pipelines[c].count), slot.tensor, starts[at(stage) * pipelines + c]});
      share = std::min(share, slot.tensor);
    }
  const auto [found, fresh] = token_embedding_sums_.try_emplace(key_, 0);
  if (!fresh) return found->second;
  Members ranks;
  for (const int stage : {0, candidate.stages() - 1})
    for (std::size_t c = 0; c < pipelines; ++c)
      add(candidate.pipelines[c], candidate.pipelines[c].slots[at(stage)], starts[at(stage) * pipelines + c], ranks);
  const auto group = group_of(std::move(ranks.some));
  return found->second = sum(token_embedding_, share, group, ranks.all);
}

double Network::tensor_sum(int place, int tensor, int microbatch) const {
  const PlanRequest& r = device_pool_.request;
  program::Group group = group_;
  group.kind = program::Group::Kind::tensor;
  group.most = {};
  for (int i = 0; i < tensor; ++i) group.members.emplace_back(device_pool_.places[at(place)].first.value + i);
  const Bytes element = element_size(r.precision);
  return cost_
      .collective(program::CollectiveKind::all_reduce, group, std::int64_t{microbatch} * r.length * r.model.hidden * element, element)
      .time.value;
}

/// As simulate::traffic_between_zones counts it. Ours sums inside each of Z zones first, then each gives each other one the Z-th part,
/// twice; a library's ring goes through the zones one after the other.
double Network::egress_of_sums(const CandidatePlan& candidate, int stage) const {
  std::vector<int> zones;  // a place in each
  double members = 0;
  for (const PipelineReplica& pipeline : candidate.pipelines) {
    const int place = pipeline.slots[at(stage)].place;
    members += pipeline.count;
    const auto zone_of = [&](int p) { return device_pool_.places[at(p)].zone_number; };
    if (std::ranges::find(zones, zone_of(place), zone_of) == zones.end()) zones.push_back(place);
  }
  if (zones.size() < 2) return 0;
  const bool ring = group_.algorithm == program::Group::Algorithm::library;
  double usd = 0;
  for (std::size_t i = 0; i < zones.size(); ++i)
    if (ring)
      usd += egress_price(zones[i], zones[(i + 1) % zones.size()]) * 2 * (members - 1) / members;
    else
      for (const int to : zones) usd += egress_price(zones[i], to) * 2 / static_cast<double>(zones.size());
  if (usd == 0) return 0;
  const int first = candidate.cuts[at(stage)], last = candidate.cuts[at(stage + 1)], layers = device_pool_.request.model.layers();
  const double blocks = std::min(last, layers - 1) - std::max(first, 1);
  const double elements = (first == 0 ? static_cast<double>(elements_[0]) : 0) + blocks * static_cast<double>(elements_[1]) +
                          (last == layers ? static_cast<double>(elements_[2]) : 0) +
                          (first == 0 || last == layers ? static_cast<double>(token_embedding_) : 0);
  // Gradients travel both ways as they are summed; of a sharded optimizer the refreshed weights come back in the precision of the passes.
  const auto there = static_cast<double>(gradient_.count);
  const double back =
      candidate.shard_optimizer.value_or(false) ? static_cast<double>(element_size(device_pool_.request.precision).count) : there;
  return usd * elements * (there + back) / 2;
}

double Network::egress(const CandidatePlan& candidate) const {
  if (std::ranges::all_of(prices_, [](double price) { return price == 0; })) return 0;
  const PlanRequest& r = device_pool_.request;
  const double message = static_cast<double>(r.length) * r.model.hidden * static_cast<double>(element_size(r.precision).count);
  double usd = 0;
  for (int s = 0; s < candidate.stages(); ++s) {
    usd += egress_of_sums(candidate, s);
    if (s + 1 == candidate.stages()) continue;
    for (const PipelineReplica& pipeline : candidate.pipelines) {
      const int here = pipeline.slots[at(s)].place, next = pipeline.slots[at(s + 1)].place;
      usd += pipeline.sequences * message * (egress_price(here, next) + egress_price(next, here));
    }
  }
  return usd;
}

}  // namespace flotilla::search::pool
