#include "network.hpp"

#include <algorithm>
#include <bit>

#include "flotilla/model/tensors.hpp"

namespace flotilla::search::pool {
namespace {

constexpr std::size_t sizes = 24;  // logarithms of microbatches

}  // namespace

Network::Network(const Stock& stock, const program::Runtime& runtime)
    : stock_{stock},
      cost_{runtime.layers ? simulate::ProfileCost{stock.profile, *runtime.layers} : simulate::ProfileCost{stock.profile}},
      group_{program::Group::Kind::data, {}},
      elements_(3, 0) {
  if (runtime.layers) group_.algorithm = program::Group::Algorithm::library, group_.most = runtime.layers->reduction_rate;
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
  messages_.assign(stock.places.size() * stock.places.size() * sizes, -1);
}

double Network::message(int from, int to, int microbatch) {
  const auto logarithm = static_cast<std::size_t>(std::bit_width(static_cast<unsigned>(microbatch)) - 1);
  double& known = messages_[(at(from) * stock_.places.size() + at(to)) * sizes + logarithm];
  if (known >= 0) return known;
  const Place &a = stock_.places[at(from)], &b = stock_.places[at(to)];
  // Neighbours of one place stand in two nodes where it has two: stages are dealt node by node.
  const int beside = std::min(stock_.types[at(a.type)].per_node, a.count - 1);
  const Rank other = from == to ? Rank{a.first.value + beside} : b.first;
  if (other == a.first) return known = 0;
  const PoolRequest& r = stock_.request;
  const Bytes size = std::int64_t{microbatch} * r.length * r.model.hidden * element_size(r.precision);
  return known = cost_.message(a.first, other, size).time.value;
}

void Network::add_members(const Sketch& sketch, int stage, std::vector<int>& taken, std::vector<Rank>& ranks) const {
  for (const Column& column : sketch.columns) {
    const Slot& slot = column.slots[at(stage)];
    const Place& place = stock_.places[at(slot.place)];
    int& used = taken[at(slot.place)];
    for (int i = 0; i < column.count && used < place.count; ++i, used += slot.tensor) ranks.emplace_back(place.first.value + used);
  }
}

double Network::sum(std::int64_t elements, int shares, const std::vector<Rank>& ranks) const {
  if (ranks.size() < 2 || elements == 0) return 0;
  constexpr Bytes fp32{4};
  program::Group group = group_;
  group.members = ranks;
  return cost_.collective(program::Op::all_reduce, group, elements / shares * fp32, fp32, shares).time.value;
}

const Network::Sums& Network::sums(const Sketch& sketch, int stage) {
  std::vector<int> key;
  int share = 1 << 20;  // the smallest degree's members sum as many shards at once, over the same cards
  for (const Column& column : sketch.columns) {
    const Slot& slot = column.slots[at(stage)];
    key.insert(key.end(), {slot.place, column.count, slot.tensor});
    share = std::min(share, slot.tensor);
  }
  const auto [found, fresh] = sums_.try_emplace(std::move(key));
  if (!fresh) return found->second;
  std::vector<int> taken(stock_.places.size(), 0);
  std::vector<Rank> ranks;
  add_members(sketch, stage, taken, ranks);
  found->second = {sum(elements_[0] + word_, share, ranks), sum(elements_[1], share, ranks), sum(elements_[2], share, ranks)};
  return found->second;
}

double Network::word_sum(const Sketch& sketch) {
  if (sketch.stages() == 1 || group_.algorithm == program::Group::Algorithm::library) return 0;
  std::vector<int> key;
  int share = 1 << 20;
  for (const int stage : {0, sketch.stages() - 1})
    for (const Column& column : sketch.columns) {
      const Slot& slot = column.slots[at(stage)];
      key.insert(key.end(), {slot.place, column.count, slot.tensor});
      share = std::min(share, slot.tensor);
    }
  const auto [found, fresh] = word_sums_.try_emplace(std::move(key), 0);
  if (!fresh) return found->second;
  std::vector<int> taken(stock_.places.size(), 0);
  std::vector<Rank> ranks;
  for (const int stage : {0, sketch.stages() - 1}) add_members(sketch, stage, taken, ranks);
  return found->second = sum(word_, share, ranks);
}

}  // namespace flotilla::search::pool
