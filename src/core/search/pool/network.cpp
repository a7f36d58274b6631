#include "network.hpp"

#include <algorithm>
#include <bit>

#include "flotilla/base/philox.hpp"
#include "flotilla/model/tensors.hpp"

namespace flotilla::search::pool {
namespace {

constexpr std::uint64_t most_pieces = 32, most_flows = 1 << 16;  // of keys: logarithms of pieces; flows
constexpr int telling_nodes = 3;                                 // one that begins inside, one that is full, one more
constexpr int exact_counts = 64;                                 // of equal replicas: above, three leading bits are enough for an estimate

int rounded(int count) {
  int step = 1;
  while (count / step > exact_counts) step *= 2;
  return step == 1 ? count : count / (step * exact_counts / 8) * (step * exact_counts / 8);
}

}  // namespace

Network::Network(const Stock& stock, const Bench& bench)
    : stock_{stock},
      cost_{bench.runtime().layers ? simulate::ProfileCost{stock.profile, *bench.runtime().layers, bench.types()}
                                   : simulate::ProfileCost{stock.profile, bench.types()}},
      group_{program::Group::Kind::data, {}},
      placement_{program::placement_of(stock.profile.devices)},
      elements_(3, 0),
      has_uplinks_{!stock.profile.uplinks.empty()} {
  if (const auto& layers = bench.runtime().layers)
    group_.algorithm = program::Group::Algorithm::library, group_.most = layers->reduction_rate;
  const auto& model = stock.request.model;
  for (const auto& tensor : model::tensors(model)) {
    if (tensor.tied_layer >= 0)
      word_ += tensor.elements();
    else if (model.is_embedding(tensor.layer))
      elements_[0] += tensor.elements();
    else if (tensor.layer == 1)
      elements_[1] += tensor.elements();
    else if (model.is_head(tensor.layer))
      elements_[2] += tensor.elements();
  }
  for (const Place& from : stock.places)
    for (const Place& to : stock.places) {
      const auto price = std::ranges::find_if(stock.profile.egress_prices,
                                              [&](const auto& e) { return e.from_zone == from.zone && e.to_zone == to.zone; });
      prices_.push_back(from.zone == to.zone || price == stock.profile.egress_prices.end() ? 0 : price->usd_per_byte);
    }
}

double Network::message(const Way& way, int microbatch) {
  std::uint64_t key = at(way.from) * stock_.places.size() + at(way.to);
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
  const Place &a = stock_.places[at(way.from)], &b = stock_.places[at(way.to)];
  // Stages are dealt node by node: neighbours of one place that do not share a node stand in two.
  const int beside = way.one_node ? std::min(1, a.count - 1) : std::min(stock_.types[at(a.type)].per_node, a.count - 1);
  const Rank other = way.from == way.to ? Rank{a.first.value + beside} : b.first;
  if (other == a.first) return 0;
  const PlanRequest& r = stock_.request;
  const Bytes size{std::int64_t{microbatch} * r.length * r.model.hidden * element_size(r.precision).count / way.pieces};
  return found->second = cost_.message(a.first, other, size, {way.flows, across * way.pieces, across * way.pieces}).time.value;
}

void Network::add(const Column& column, const Slot& slot, int start, Members& members) const {
  const Place& place = stock_.places[at(slot.place)];
  const int all = std::min(rounded(column.count), (place.count - start + slot.tensor - 1) / slot.tensor);
  const int of_a_node = std::max(1, stock_.types[at(place.type)].per_node / slot.tensor);
  const int some = group_.algorithm == program::Group::Algorithm::library ? all : std::min(all, telling_nodes * of_a_node);
  for (int i = 0; i < some; ++i) members.some.emplace_back(place.first.value + start + i * slot.tensor);
  members.all += at(std::max(0, all));
}

program::Group Network::group_of(std::vector<Rank> members) const {
  program::Group group = group_;
  group.members = std::move(members);
  if (group.algorithm == program::Group::Algorithm::direct) group.teams = program::teams_of({group.members}, placement_);
  return group;
}

double Network::sum(std::int64_t elements, int shares, const program::Group& some, std::size_t all) const {
  if (all < 2 || elements == 0) return 0;
  constexpr Bytes fp32{4};
  const Bytes bytes = elements / shares * fp32;
  const simulate::Flows at_once{shares, shares, shares};
  if (some.algorithm == program::Group::Algorithm::direct && some.teams.empty())
    return cost_.sum_over_many(some.members, all, bytes, fp32, at_once).time.value;
  return cost_.collective(program::Op::all_reduce, some, bytes, fp32, at_once).time.value;
}

const Network::Sums& Network::sums(const Sketch& sketch, int stage, const std::vector<int>& starts) {
  const std::size_t columns = sketch.columns.size();
  int share = 1 << 20;  // the smallest degree's members sum as many shards at once, over the same cards
  const bool alone = sketch.stages() == 1 || group_.algorithm == program::Group::Algorithm::library;
  const auto start = [&](std::size_t c) {  // all nodes of a place are alike
    return starts[at(stage) * columns + c] % stock_.types[at(stock_.places[at(sketch.columns[c].slots[at(stage)].place)].type)].per_node;
  };
  key_.assign(1, sketch.stages() == 1 ? 1 : 0);  // else ours sum the word table with the other end's: word_sum(); described ones hold two
  for (std::size_t c = 0; c < columns; ++c) {
    const Slot& slot = sketch.columns[c].slots[at(stage)];
    key_.insert(key_.end(), {slot.place, rounded(sketch.columns[c].count), slot.tensor, start(c)});
    share = std::min(share, slot.tensor);
  }
  const auto [found, fresh] = sums_.try_emplace(key_);
  if (!fresh) return found->second;
  Members ranks;
  std::vector<int> after(stock_.places.size(), -1);  // where the next column of a place begins
  for (std::size_t c = 0; c < columns; ++c) {
    const Slot& slot = sketch.columns[c].slots[at(stage)];
    int& here = after[at(slot.place)];
    if (here < 0) here = start(c);
    add(sketch.columns[c], slot, here, ranks);
    here += rounded(sketch.columns[c].count) * slot.tensor;
  }
  const bool copied = group_.algorithm == program::Group::Algorithm::library && sketch.stages() > 1;
  const auto group = group_of(std::move(ranks.some));
  found->second = {sum(elements_[0] + (alone ? word_ : 0), share, group, ranks.all), sum(elements_[1], share, group, ranks.all),
                   sum(elements_[2] + (copied ? word_ : 0), share, group, ranks.all)};
  return found->second;
}

double Network::staging(int first, int last, int replicas, int tensor) const {
  if (group_.algorithm == program::Group::Algorithm::library) return 0;
  const int layers = stock_.request.model.layers();
  const auto kept = [&](std::int64_t elements, int members) {
    constexpr double fp32_bytes = 4;
    return static_cast<double>(elements) / tensor * fp32_bytes * (members - 1) / members;
  };
  double most = 0;
  if (first == 0) most = std::max(most, kept(elements_[0], replicas));
  if (first < layers - 1 && last > 1) most = std::max(most, kept(elements_[1], replicas));
  if (last == layers) most = std::max(most, kept(elements_[2], replicas));
  if (first == 0 || last == layers) most = std::max(most, kept(word_, first == 0 && last == layers ? replicas : 2 * replicas));
  return most;
}

double Network::word_sum(const Sketch& sketch, const std::vector<int>& starts) {
  if (sketch.stages() == 1 || group_.algorithm == program::Group::Algorithm::library) return 0;
  const std::size_t columns = sketch.columns.size();
  key_.clear();
  int share = 1 << 20;
  for (const int stage : {0, sketch.stages() - 1})
    for (std::size_t c = 0; c < columns; ++c) {
      const Slot& slot = sketch.columns[c].slots[at(stage)];
      key_.insert(key_.end(), {slot.place, rounded(sketch.columns[c].count), slot.tensor, starts[at(stage) * columns + c]});
      share = std::min(share, slot.tensor);
    }
  const auto [found, fresh] = word_sums_.try_emplace(key_, 0);
  if (!fresh) return found->second;
  Members ranks;
  for (const int stage : {0, sketch.stages() - 1})
    for (std::size_t c = 0; c < columns; ++c)
      add(sketch.columns[c], sketch.columns[c].slots[at(stage)], starts[at(stage) * columns + c], ranks);
  const auto group = group_of(std::move(ranks.some));
  return found->second = sum(word_, share, group, ranks.all);
}

double Network::tensor_sum(int place, int tensor, int microbatch) const {
  const PlanRequest& r = stock_.request;
  program::Group group = group_;
  group.kind = program::Group::Kind::tensor;
  group.most = {};
  for (int i = 0; i < tensor; ++i) group.members.emplace_back(stock_.places[at(place)].first.value + i);
  const Bytes element = element_size(r.precision);
  return cost_.collective(program::Op::all_reduce, group, std::int64_t{microbatch} * r.length * r.model.hidden * element, element)
      .time.value;
}

/// As simulate::traffic_between_zones counts it. Ours sums inside each of Z zones first, then each gives each other one the Z-th part,
/// twice; a library's ring goes through the zones one after the other.
double Network::egress_of_sums(const Sketch& sketch, int stage) const {
  std::vector<int> zones;  // a place in each
  double members = 0;
  for (const Column& column : sketch.columns) {
    const int place = column.slots[at(stage)].place;
    members += column.count;
    const auto zone_of = [&](int p) { return stock_.places[at(p)].zone_number; };
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
  const int first = sketch.cuts[at(stage)], last = sketch.cuts[at(stage + 1)], layers = stock_.request.model.layers();
  const double blocks = std::min(last, layers - 1) - std::max(first, 1);
  const double elements = (first == 0 ? static_cast<double>(elements_[0]) : 0) + blocks * static_cast<double>(elements_[1]) +
                          (last == layers ? static_cast<double>(elements_[2]) : 0) +
                          (first == 0 || last == layers ? static_cast<double>(word_) : 0);
  constexpr double fp32_bytes = 4;
  return usd * elements * fp32_bytes;
}

double Network::egress(const Sketch& sketch) const {
  if (std::ranges::all_of(prices_, [](double price) { return price == 0; })) return 0;
  const PlanRequest& r = stock_.request;
  const double message = static_cast<double>(r.length) * r.model.hidden * static_cast<double>(element_size(r.precision).count);
  double usd = 0;
  for (int s = 0; s < sketch.stages(); ++s) {
    usd += egress_of_sums(sketch, s);
    if (s + 1 == sketch.stages()) continue;
    for (const Column& column : sketch.columns) {
      const int here = column.slots[at(s)].place, next = column.slots[at(s + 1)].place;
      usd += column.sequences * message * (egress_price(here, next) + egress_price(next, here));
    }
  }
  return usd;
}

}  // namespace flotilla::search::pool
