#include "flotilla/simulate/profile_cost.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <map>

#include "flotilla/base/error.hpp"
#include "flotilla/base/overloaded.hpp"
#include "flotilla/base/philox.hpp"
#include "flotilla/program/collectives.hpp"
#include "group_correction.hpp"
#include "layer_estimate.hpp"
#include "network/library_collective.hpp"
#include "network/paths.hpp"
#include "network/subgroup_shape.hpp"
#include "operation_cost.hpp"
#include "type_costs.hpp"

namespace flotilla::simulate {
namespace {

using program::CollectiveKind;
constexpr std::int64_t fp32_bytes = 4;

/// Bytes that AdamW moves for an element: reads weight, gradient and two moments, writes weight and moments, all fp32, and the copy.
std::int64_t adamw_bytes(Precision precision) {
  return 7 * fp32_bytes + (precision == Precision::fp32 ? 0 : element_size(precision).count);
}

std::uint64_t join(std::uint64_t seed, std::uint64_t value) { return Philox::mix(seed ^ Philox::mix(value)); }

}  // namespace

struct ProfileCost::State {
  State(const cluster::Profile&, std::shared_ptr<TypeCosts>);
  ~State();
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  const cluster::Profile& profile;
  std::shared_ptr<TypeCosts> types;
  Paths paths;
  program::LayerRuntime described;  // who executes whole layers
  SubgroupShapeCache subgroup_shapes{{[this](Rank rank) { return paths.host(rank); }, [this](Rank rank) { return paths.uplink(rank); },
                                      [this](const std::vector<Rank>& ranks) { return paths.group_topology(ranks).hash; }}};

  bool library_sums = true;  // links that join devices are NCCL's, which has an all-reduce of its own

  struct BetweenGpus;
  std::vector<std::unique_ptr<BetweenGpus>> between_gpus;  // a device transport each, of which something was measured

  /// The transports that join these devices, but for the hosts' memory.
  template <class Visit>
  void each_joining(const std::vector<Rank>& members, Visit visit);

  Cost streamed(const std::string& type, Bytes traffic) const { return stream_cost(profile, type, traffic); }

  /// Adding `count` numbers of `element` bytes to as many others.
  Cost add(const std::string& type, double count, Bytes element) {
    const auto measured = types->per_element(type, "add", element.count == 2 ? Precision::bf16 : Precision::fp32);
    if (measured) return {measured->time * count, measured->relative_error, false};
    return streamed(type, {static_cast<std::int64_t>(count * 3) * element.count});
  }

  /// Messages that a member of a group sends along a path when it has one for each of the others, and how many leave its host at once.
  struct CardLoad {
    int messages = 1, flows = 1;
  };
  /// Of a member on the fullest host, whose cards it shares with most, and of one on the emptiest, which sends most to others.
  std::array<CardLoad, 2> loads_of(const Paths::GroupTopology& group_topology, std::size_t members, const Route& route,
                                   const Flows& flows) const {
    const auto load = [&](int here) {
      if (route.inside_host) return CardLoad{std::max(1, here - 1), flows.cards};
      return CardLoad{std::max(1, static_cast<int>(members) - here), flows.cards * here};
    };
    return {load(group_topology.most_of_a_host), load(group_topology.least_of_a_host)};
  }

  /// The longest of `time(flows)` for the first message and what each further one adds to it without the latency.
  template <class Time>
  Seconds longest(const std::array<CardLoad, 2>& loads, Seconds latency, Time time) const {
    Seconds most;
    for (const CardLoad& load : loads) {
      const Seconds one = time(load.flows), further = std::max(Seconds{0}, one - latency);
      most = std::max(most, one + static_cast<double>(load.messages - 1) * further);
    }
    return most;
  }

  /// What `size` from everybody to everybody takes through the fullest uplink, each way: from every member behind it to every other one.
  /// `alone`: what the bytes of one message take on its link, which was measured over the uplink.
  Seconds through_uplinks(const Paths::GroupTopology& group_topology, Bytes size, std::size_t members, const Flows& flows,
                          Seconds alone) const {
    Seconds longest;
    const double all = static_cast<double>(members), scale = all / group_topology.members;  // of members that stand for many
    for (const auto& behind : group_topology.behind) {
      const double here = scale * behind.members, messages = flows.out * here * (all - here);
      longest = std::max(longest, messages * std::min(size / behind.uplink, alone));
    }
    return longest;
  }

  /// Everybody sends `size` to each of the other members at once: a member's messages share its own link, its host's cards with those of
  /// the members beside it, and its zone's uplink with those of all who stand behind it. The slowest pair decides.
  Cost exchange(const Paths::GroupTopology& group_topology, Bytes size, std::size_t members, const Flows& flows) const {
    Cost slowest;
    for (int path : group_topology.paths) {
      const auto& route = paths.route(path);
      const auto loads = loads_of(group_topology, members, route, flows);
      const Seconds latency = route.time({0}, 1);
      Seconds all = longest(loads, latency, [&](int at_once) { return route.time(size, over_cards(at_once)); });
      const Seconds alone = route.time(size, 1) - latency;
      if (route.passes_uplinks()) all = std::max(all, latency + through_uplinks(group_topology, size, members, flows, alone));
      if (all >= slowest.time) slowest = {all, route.relative_scatter(), false};
    }
    return slowest;
  }
  /// What passes uplinks is counted for all members together.
  static Flows over_cards(int at_once) { return {at_once, 0, 0}; }

  /// Half an all-reduce as it was measured between two, each further member adding what the bytes take. The slowest pair decides. Absent
  /// where some pair's was not measured.
  std::optional<Cost> half_sum(const Paths::GroupTopology& group_topology, Bytes piece, std::size_t members, const Flows& flows) const {
    Cost slowest;
    for (int path : group_topology.paths) {
      const auto& route = paths.route(path);
      if (!route.measures_sums()) return std::nullopt;
      const auto loads = loads_of(group_topology, members, route, flows);
      const Seconds latency = route.sum_time({0}, 1);
      Seconds all = longest(loads, latency, [&](int at_once) { return route.sum_time(piece, at_once); });
      const Seconds alone = route.sum_time(piece, 1) - latency;
      if (route.passes_uplinks()) all = std::max(all, latency + through_uplinks(group_topology, piece, members, flows, alone));
      if (all >= slowest.time) slowest = {all, route.relative_scatter(), false};
    }
    return slowest;
  }

  /// The "direct" sum (program/collectives.hpp): pieces to their owners, sums of G contributions, sums to everybody.
  Cost all_reduce(const std::vector<Rank>& some, std::size_t members, Bytes bytes, Bytes element, const Flows& flows) {
    return sum(some, members, bytes, element, flows, true);
  }
  /// Its first half, up to the sums.
  Cost reduce_scatter(const program::Group& group, Bytes bytes, Bytes element, const Flows& flows) {
    return sum(group.members, group.members.size(), bytes, element, flows, false);
  }

  /// Everybody's contribution to everybody, both ways at once as in a sum: where that was measured, half of it, since a message one way
  /// does not show what two that meet take from each other.
  Cost all_gather(const program::Group& group, Bytes bytes, const Flows& flows) {
    const auto& group_topology = paths.group_topology(group.members);
    const auto half = half_sum(group_topology, bytes, group.members.size(), flows);
    return half ? *half : exchange(group_topology, bytes, group.members.size(), flows);
  }

  Cost sum(const std::vector<Rank>& some, std::size_t members, Bytes bytes, Bytes element, const Flows& flows, bool to_everybody) {
    const auto owners = static_cast<std::int64_t>(members);
    const std::int64_t piece = (bytes.count / element.count + owners - 1) / owners;
    const auto& group_topology = paths.group_topology(some);
    if (const auto half = half_sum(group_topology, piece * element, members, flows))
      return to_everybody ? combine(*half, *half, {}) : *half;
    const Cost exchanged = exchange(group_topology, piece * element, members, flows);
    Cost sum;
    for (const auto& type : group_topology.types) {
      const Cost here = add(type, static_cast<double>(piece * (owners - 1)), element);
      if (here.time >= sum.time) sum = here;
    }
    return combine(exchanged, to_everybody ? exchanged : Cost{}, sum);
  }

  /// One way of a level of a sum hierarchically: the holders of each piece in one subgroup's inner ones exchange it; those who stand on one
  /// host do so over the same cards. The slowest subgroup decides.
  Cost level_of(const std::vector<SubgroupShape>& subgroups, bool gives_back, bool adds, Bytes bytes, Bytes element, const Flows& flows) {
    Cost slowest;
    for (const SubgroupShape& subgroup : subgroups)
      for (const SubgroupShape::Inner& inner : subgroup.inner) {
        const auto divided = std::int64_t{inner.members} * subgroup.subgroups();
        const std::int64_t piece = (bytes.count / element.count + divided - 1) / divided;
        const auto others = static_cast<std::size_t>(subgroup.subgroups());
        const Cost here =
            sum_of(subgroup.firsts, piece, element, others, {flows.cards * inner.beside, flows.out * inner.behind}, gives_back, adds);
        if (here.time >= slowest.time) slowest = here;
      }
    return slowest;
  }

  /// Pieces to their owners (where something is added), sums of all contributions, sums back.
  Cost sum_of(const std::vector<Rank>& members, std::int64_t piece, Bytes element, std::size_t subgroups, const Flows& flows,
              bool gives_back, bool adds) {
    const auto& group_topology = paths.group_topology(members);
    if (const auto half = adds ? half_sum(group_topology, piece * element, subgroups, flows) : std::nullopt)
      return combine(*half, gives_back ? *half : Cost{}, {});
    const Cost exchanged = exchange(group_topology, piece * element, subgroups, flows);
    Cost sum;
    for (const auto& type : group_topology.types) {
      const Cost here = adds ? add(type, static_cast<double>(piece) * static_cast<double>(subgroups - 1), element) : Cost{};
      if (here.time >= sum.time) sum = here;
    }
    return combine(exchanged, adds && gives_back ? exchanged : Cost{}, sum);
  }

  Cost in_subgroups(CollectiveKind kind, const program::Group& group, Bytes bytes, Bytes element, const Flows& flows) {
    const bool gives_back = kind == CollectiveKind::all_reduce, adds = kind != CollectiveKind::all_gather_shards;
    Cost all;
    for (const auto& subgroups : subgroup_shapes.of(group))
      all = combine(all, level_of(subgroups, gives_back, adds, bytes, element, flows), {});
    return all;
  }

  std::uint64_t path(const program::Group& group);

  /// Our collectives between the members' hosts.
  Cost over_network(CollectiveKind kind, const program::Group& group, Bytes bytes, Bytes element, const Flows& flows);

  Cost library(CollectiveKind kind, const program::Group& group, Bytes bytes, const Flows& flows) {
    double scatter = 0;
    for (int path : paths.inside(group.members)) scatter = std::max(scatter, paths.route(path).relative_scatter());
    if (kind == CollectiveKind::all_reduce) return {library_all_reduce(paths, group, bytes, flows), scatter, false};
    if (kind == CollectiveKind::reduce_scatter_shards || kind == CollectiveKind::all_gather_shards)
      return {library_half(paths, group, bytes, flows), scatter, false};
    return {library_exchange(paths, group, bytes, flows), scatter, false};
  }

  /// A whole layer's pass, with what it computes again.
  Cost layer(const program::Program& program, const program::RankClass& c, const program::LayerPass& of_layer, bool backward,
             int sequences) {
    const LayerCosts::LayerKey what{program.plan.model.name, c.device_type, of_layer.layer, c.shape.tensor_parallel,
                                    program.plan.precision};
    model::LayerShape shape = c.shape;
    shape.sequences = sequences;
    const LayerWork work{program.plan.model, c.device_type, of_layer.layer, shape, program.plan.sequence_parallel};
    const auto& kernels = described.kernels(program.plan.precision);
    const Execution execution{kernels.score_passes_forward, kernels.score_passes_backward, kernels.host, kernels.fused,
                              kernels.attention_share, kernels.product_share, kernels.traffic, described.narrow, kernels.early_stop,
                              described.overlaps_tensor, described.context};
    const auto recompute = of_layer.recompute ? recompute_of(program.plan, of_layer.layer) : plan::Recompute::none;
    const auto measured =
        types->layers().pass(what, backward ? LayerCosts::Pass::backward : LayerCosts::Pass::forward, sequences, of_layer.host);
    const Cost pass = measured ? *measured : estimated_pass(profile, types->fits(), execution, work, backward);
    const auto forward =
        recompute == plan::Recompute::full ? types->layers().pass(what, LayerCosts::Pass::forward, sequences, of_layer.host) : std::nullopt;
    return combine(pass, forward ? *forward : estimated_recompute(profile, types->fits(), execution, work, recompute), {});
  }

  Cost update(const program::Program& program, const program::RankClass& c, std::int64_t parameters, const ProfileCost& cost) {
    const LayerCosts::LayerKey what{program.plan.model.name, c.device_type, 0, c.shape.tensor_parallel, program.plan.precision};
    if (const auto measured = types->layers().update(what, program.plan.model.layers(), parameters)) return *measured;
    if (program.plan.precision != Precision::fp32 && described.update_half.count > 0)
      return streamed(c.device_type, parameters * described.update_half);
    return cost.adamw(c.device_type, parameters, program.plan.precision);
  }

  /// A member on a GPU whose messages go through its host brings what it gives there and takes back what comes. The slowest member decides.
  Cost copies(const std::vector<Rank>& members, Bytes given, Bytes taken) {
    Cost slowest;
    for (const auto& name : paths.group_topology(members).types)
      if (const auto* type = cluster::find_type(profile, name))
        slowest.time = std::max(slowest.time, type->to_host.time(given) + type->to_device.time(taken));
    return slowest;
  }

  static Cost with_copies(const Cost& network, const Cost& copies) {
    return copies.time.value > 0 ? combine(network, copies, {}) : network;
  }

  /// Whether links end at devices' memories: GPUs whose copies nobody measured, because links were.
  bool links_join_devices(const std::vector<Rank>& members) {
    return std::ranges::all_of(paths.group_topology(members).types, [&](const std::string& name) {
      const auto* type = cluster::find_type(profile, name);
      return type != nullptr && type->kind == cluster::DeviceKind::gpu && !type->to_host.known();
    });
  }

  Cost message(Rank from, Rank to, Bytes size, const Flows& flows) {
    const auto& route = paths.route(paths.between(from, to));
    return {route.time(size, flows) + route.copies(size), route.relative_scatter(), false};
  }

  Cost collective(CollectiveKind kind, const program::Group& group, Bytes bytes, Bytes element, const Flows& flows) {
    const bool by_description = group.algorithm == program::Group::Algorithm::library;
    if (by_description || (library_sums && program::by_library(group, kind) && links_join_devices(group.members)))
      return library(kind, group, bytes, flows);
    const auto all = kind == CollectiveKind::all_gather ? static_cast<std::int64_t>(group.members.size()) * bytes : bytes;
    const Bytes taken = kind == CollectiveKind::reduce_scalars ? Bytes{} : all;
    return with_copies(over_network(kind, group, bytes, element, flows), copies(group.members, bytes, taken));
  }

  Cost sum_over_many(const std::vector<Rank>& some, std::size_t members, Bytes bytes, Bytes element, const Flows& flows) {
    return with_copies(all_reduce(some, members, bytes, element, flows), copies(some, bytes, bytes));
  }

  static Cost combine(const Cost& a, const Cost& b, const Cost& c) {
    const Seconds time = a.time + b.time + c.time;
    if (!(time.value > 0)) return {};
    const Seconds error = a.time * a.relative_error + b.time * b.relative_error + c.time * c.relative_error;
    const bool estimated = (c.estimated && c.time > a.time + b.time) || (a.estimated && b.estimated) || (a.estimated && b.time.value == 0);
    return {time, error / time, estimated};
  }
};

/// The same from device to device: a profile of its own, which devices it joins, and what whole groups of them make of it.
struct ProfileCost::State::BetweenGpus {
  BetweenGpus(const cluster::Profile& all, cluster::Transport over)
      : transport{over},
        measured{all},
        profile{cluster::over(all, over)},
        costs{profile, nullptr},
        correction{all, over, [this](const program::Group& group, Bytes bytes) {
                     return costs.collective(CollectiveKind::all_reduce, group, bytes, {fp32_bytes}, {}).time;
                   }} {
    costs.library_sums = over == cluster::Transport::nccl;
  }

  Cost collective(CollectiveKind kind, const program::Group& group, Bytes bytes, Bytes element, const Flows& flows) {
    if (costs.library_sums && program::by_library(group, kind))
      return costs.collective(kind, group, bytes, element, flows);  // measured were ours
    const auto count = group.members.size();
    const Bytes all = kind == CollectiveKind::all_gather ? static_cast<std::int64_t>(count) * bytes : bytes;
    return corrected(costs.collective(kind, group, bytes, element, flows), group.members, count, all);
  }
  Cost sum_over_many(const std::vector<Rank>& some, std::size_t members, Bytes bytes, Bytes element, const Flows& flows) {
    return corrected(costs.sum_over_many(some, members, bytes, element, flows), some, members, bytes);
  }
  std::uint64_t path(const program::Group& group) {
    return marked(join(costs.path(group), static_cast<std::uint64_t>(correction.index_of(group.members, group.members.size()) + 1)));
  }
  std::uint64_t path(Rank from, Rank to) { return marked(static_cast<std::uint64_t>(costs.paths.between(from, to) + 1)); }

  bool joins(const std::vector<Rank>& members) {
    const auto [found, fresh] = known.try_emplace(members, false);
    if (fresh) found->second = cluster::joins(measured, transport, members);
    return found->second;
  }

  const cluster::Transport transport;
  const cluster::Profile& measured;
  const cluster::Profile profile;
  State costs;
  GroupCorrection correction;
  std::map<std::vector<Rank>, bool> known;

 private:
  std::uint64_t marked(std::uint64_t path) const { return join(path, static_cast<std::uint64_t>(transport)); }
  Cost corrected(Cost by_pairs, const std::vector<Rank>& members, std::size_t count, Bytes bytes) {
    by_pairs.time = correction.factor(members, count, bytes) * by_pairs.time;
    return by_pairs;
  }
};

ProfileCost::State::State(const cluster::Profile& p, std::shared_ptr<TypeCosts> of_types)
    : profile{p},
      types{of_types ? std::move(of_types) : type_costs_of(p)},
      paths{p, types->fits()} {
  for (const auto transport : cluster::device_transports)
    if (std::ranges::count(p.device_links, transport, &cluster::DeviceLink::transport) > 0)
      between_gpus.push_back(std::make_unique<BetweenGpus>(p, transport));
}
ProfileCost::State::~State() = default;

template <class Visit>
void ProfileCost::State::each_joining(const std::vector<Rank>& members, Visit visit) {
  for (const auto& over : between_gpus)
    if (over->joins(members)) visit(*over);
}

ProfileCost::ProfileCost(const cluster::Profile& profile, std::shared_ptr<TypeCosts> types)
    : state_{std::make_unique<State>(profile, std::move(types))} {}
ProfileCost::ProfileCost(const cluster::Profile& profile, const program::LayerRuntime& runtime, std::shared_ptr<TypeCosts> types)
    : ProfileCost{profile, std::move(types)} {
  state_->described = runtime;
}
ProfileCost::~ProfileCost() = default;

Cost ProfileCost::operation(const model::Config& model, const std::string& device_type, model::Operation operation,
                            const model::LayerShape& shape) const {
  return state_->types->operation(model, device_type, operation, shape);
}

Cost ProfileCost::adamw(const std::string& device_type, std::int64_t elements, Precision precision) const {
  if (elements <= 0) return {};
  const auto measured = state_->types->per_element(device_type, "adamw", precision);
  if (measured) return {measured->time * static_cast<double>(elements), measured->relative_error, false};
  return state_->streamed(device_type, {elements * adamw_bytes(precision)});
}

Cost ProfileCost::compute(const program::Program& program, const program::RankClass& c, const program::Instruction& instruction,
                          int sequences) const {
  const auto elements = [&](int index, int shard) -> std::int64_t {
    if (index < 0) return 0;
    const auto& part = c.parts.at(static_cast<std::size_t>(index));
    return shard < 0 ? part.trained_elements() : part.shards.at(static_cast<std::size_t>(shard)).most;
  };
  const auto streamed = [&](Bytes bytes) { return state_->streamed(c.device_type, bytes); };
  const auto gradients = [&](std::int64_t count) { return streamed({std::max<std::int64_t>(1, count) * fp32_bytes}); };
  return std::visit(
      Overloaded{
          [&](const program::LayerOperation& work) {
            model::LayerShape shape = c.shape;
            shape.sequences = sequences;
            const auto done = work.weights_frozen ? model::input_half_of(work.operation).value_or(work.operation) : work.operation;
            return operation(program.plan.model, c.device_type, done, shape);
          },
          [&](const program::TokenLoad&) { return streamed({2 * fp32_bytes * sequences * (std::int64_t{c.shape.length} + 1)}); },
          [&](const program::ZeroFill& work) { return gradients(elements(work.part, -1)); },
          [&](const program::SquaredNorm& work) { return gradients(elements(work.part, work.shard)); },
          [&](const program::RegionCopy& work) { return streamed(2 * work.bytes); },
          [&](const program::ShardExtraction& work) { return streamed(2 * work.bytes); },
          [&](const program::OptimizerUpdate& work) { return state_->update(program, c, elements(work.part, work.shard), *this); },
          [&](const program::LayerPass& work) { return state_->layer(program, c, work, instruction.backward, sequences); },
          [&](const program::HostWork& work) { return Cost{work.time}; },
          [&](const auto&) -> Cost {
            throw Error{ErrorKind::internal,
                        text("\"", instruction.name, "\" of the program is no computation, but is on a compute queue")};
          },
      },
      instruction.work);
}

TransportCosts ProfileCost::by_transport(Rank from, Rank to, Bytes size, const Flows& flows) const {
  TransportCosts all;
  all.of(cluster::Transport::host) = state_->message(from, to, size, flows);
  state_->each_joining({from, to}, [&](auto& over) { all.of(over.transport) = over.costs.message(from, to, size, flows); });
  return all;
}

TransportCosts ProfileCost::by_transport(CollectiveKind kind, const program::Group& group, Bytes bytes, Bytes element,
                                         const Flows& flows) const {
  TransportCosts all;
  all.of(cluster::Transport::host) = state_->collective(kind, group, bytes, element, flows);
  if (kind == CollectiveKind::reduce_scalars) return all;  // fp64 is summed on hosts
  state_->each_joining(group.members,
                       [&](auto& over) { all.of(over.transport) = over.collective(kind, group, bytes, element, flows); });
  return all;
}

Cost ProfileCost::message(Rank from, Rank to, Bytes size, const Flows& flows) const {
  return by_transport(from, to, size, flows).chosen(wanted_transport());
}

Cost ProfileCost::collective(CollectiveKind kind, const program::Group& group, Bytes bytes, Bytes element, const Flows& flows) const {
  if (group.members.size() < 2) return {};
  return by_transport(kind, group, bytes, element, flows).chosen(wanted_transport());
}

Cost ProfileCost::State::over_network(CollectiveKind kind, const program::Group& group, Bytes bytes, Bytes element, const Flows& flows) {
  const bool halves = kind == CollectiveKind::reduce_scatter_shards || kind == CollectiveKind::all_gather_shards;
  if (halves || (kind == CollectiveKind::all_reduce && !group.subgroups.empty())) return in_subgroups(kind, group, bytes, element, flows);
  if (kind == CollectiveKind::all_reduce) return all_reduce(group.members, group.members.size(), bytes, element, flows);
  if (kind == CollectiveKind::reduce_scatter) return reduce_scatter(group, bytes, element, flows);
  if (kind == CollectiveKind::all_gather) return all_gather(group, bytes, flows);
  return exchange(paths.group_topology(group.members), bytes, group.members.size(), flows);
}

Cost ProfileCost::sum_over_many(const std::vector<Rank>& some, std::size_t members, Bytes bytes, Bytes element, const Flows& flows) const {
  if (members < 2) return {};
  TransportCosts all;
  all.of(cluster::Transport::host) = state_->sum_over_many(some, members, bytes, element, flows);
  state_->each_joining(some, [&](auto& over) { all.of(over.transport) = over.sum_over_many(some, members, bytes, element, flows); });
  return all.chosen(wanted_transport());
}

std::optional<cluster::Transport> ProfileCost::wanted_transport() const { return state_->profile.wanted_transport; }
std::uint64_t ProfileCost::host(Rank rank) const { return static_cast<std::uint64_t>(state_->paths.host(rank)); }
int ProfileCost::lanes(Rank from, Rank to) const { return state_->paths.route(state_->paths.between(from, to)).lanes(); }
int ProfileCost::uplink(Rank rank) const { return state_->paths.uplink(rank); }

std::uint64_t ProfileCost::path(Rank from, Rank to) const {
  auto path = static_cast<std::uint64_t>(state_->paths.between(from, to));
  state_->each_joining({from, to}, [&](auto& over) { path = join(path, over.path(from, to)); });
  return path;
}

std::uint64_t ProfileCost::State::path(const program::Group& group) {
  std::uint64_t hash = paths.group_topology(group.members).hash;
  if (const auto ways = paths.node_ways(group.members))
    hash = join(hash, static_cast<std::uint64_t>(ways->shape.rings) << 8 | static_cast<std::uint64_t>(ways->shape.chains));
  if (group.subgroups.empty()) return hash;
  std::uint64_t level_number = 0;
  for (const auto& level : subgroup_shapes.of(group)) {
    std::uint64_t subgroups = ++level_number;
    for (const SubgroupShape& subgroup : level) {  // in any order, each once: which subgroup decides does not depend on it
      std::uint64_t one = static_cast<std::uint64_t>(subgroup.subgroups());
      for (const auto& inner : subgroup.inner)
        one = join(join(join(one, static_cast<std::uint64_t>(inner.members)), static_cast<std::uint64_t>(inner.beside)),
                   static_cast<std::uint64_t>(inner.behind));
      one = join(one, paths.group_topology(subgroup.firsts).hash);
      subgroups += Philox::mix(one);
    }
    hash = join(hash, subgroups);
  }
  return hash;
}

std::uint64_t ProfileCost::path(const program::Group& group) const {
  auto path = state_->path(group);
  state_->each_joining(group.members, [&](auto& over) { path = join(path, over.path(group)); });
  return path;
}

}  // namespace flotilla::simulate
