#include "flotilla/simulate/profile_cost.hpp"

#include <algorithm>

#include "between_gpus.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/base/overloaded.hpp"
#include "layer_estimate.hpp"
#include "operation_cost.hpp"
#include "pass_cost.hpp"
#include "type_costs.hpp"

namespace flotilla::simulate {
namespace {

using program::CollectiveKind;
constexpr std::int64_t fp32_bytes = 4;
constexpr double host_copy_error = 0.1;  // of copies from and to pinned memory, between hosts of one kind

/// Bytes that AdamW moves for an element: reads weight, gradient and two moments, writes weight and moments, all fp32, and the copy.
std::int64_t adamw_bytes(Precision precision) {
  return 7 * fp32_bytes + (precision == Precision::fp32 ? 0 : element_size(precision).count);
}

/// A group is proved by the sums that it makes.
bool library_proves(const program::Group& group) { return group.algorithm == program::Group::Algorithm::library_all_reduce; }

}  // namespace

struct ProfileCost::State {
  State(const cluster::Profile& p, std::shared_ptr<TypeCosts> types) : profile{p}, network{p, std::move(types)} {
    for (const auto transport : cluster::device_transports)
      if (std::ranges::count(p.device_links, transport, &cluster::DeviceLink::transport) > 0)
        between_gpus.push_back(std::make_unique<BetweenGpus>(p, transport));
  }

  const cluster::Profile& profile;
  NetworkCost network;                                     // between hosts
  program::LayerRuntime described;                         // who executes whole layers
  std::vector<std::unique_ptr<BetweenGpus>> between_gpus;  // a device transport each, of which something was measured

  TypeCosts& types() const { return *network.types; }
  Cost streamed(const std::string& type, Bytes traffic) const { return stream_cost(profile, type, traffic); }

  /// The transports that join these devices, but for the hosts' memory.
  template <class Visit>
  void each_joining(const std::vector<Rank>& members, bool by_library, Visit visit) {
    for (const auto& over : between_gpus)
      if (over->joins(members, by_library)) visit(*over);
  }

  template <class Visit>
  void each_joining(Rank from, Rank to, Visit visit) {
    if (!between_gpus.empty()) each_joining({from, to}, false, visit);
  }

  /// A whole layer's pass, with what it computes again.
  Cost layer(const program::Program& program, const program::RankClass& c, const program::LayerPass& of_layer, bool backward,
             int sequences) {
    const LayerCosts::LayerKey what{program.plan.model.name, c.device_type, of_layer.layer, c.shape.tensor_parallel,
                                    program.plan.precision};
    model::LayerShape shape = c.shape;
    shape.sequences = sequences;
    const LayerWork work{program.plan.model, c.device_type, of_layer.layer, shape, program.plan.sequence_parallel};
    const Execution execution = execution_of(described, program.plan.precision);
    const auto recompute = of_layer.recompute ? recompute_of(program.plan, of_layer.layer) : plan::Recompute::none;
    const auto measured =
        types().layers().pass(what, backward ? LayerCosts::Pass::backward : LayerCosts::Pass::forward, sequences, of_layer.host);
    const Cost pass = measured ? *measured : estimated_pass(profile, types().fits(), execution, work, backward);
    const auto forward = recompute == plan::Recompute::full
                             ? types().layers().pass(what, LayerCosts::Pass::forward, sequences, of_layer.host)
                             : std::nullopt;
    const Cost all = combine(pass, forward ? *forward : estimated_recompute(profile, types().fits(), execution, work, recompute), {});
    return of_layer.copied.count > 0 ? with_host_copies(all, c.device_type, of_layer, backward, sequences) : all;
  }

  /// What copies to and from the host's memory take beside the passes that hide them.
  Cost with_host_copies(const Cost& pass, const std::string& device_type, const program::LayerPass& of_layer, bool backward,
                        int sequences) const {
    const Bytes size = sequences * of_layer.copied;
    const auto* type = cluster::find_type(profile, device_type);
    const cluster::CopyRate measured = type == nullptr ? cluster::CopyRate{} : backward ? type->to_device : type->to_host;
    const Seconds copy = measured.known() ? measured.time(size) : size / described.host_copies;
    const Seconds shown = std::max(Seconds{}, copy - static_cast<double>(of_layer.beside) * pass.time);
    return combine(pass, {shown, host_copy_error, !measured.known()}, {});
  }

  Cost update(const program::Program& program, const program::RankClass& c, std::int64_t parameters, const ProfileCost& cost) {
    const LayerCosts::LayerKey what{program.plan.model.name, c.device_type, 0, c.shape.tensor_parallel, program.plan.precision};
    if (const auto measured = types().layers().update(what, program.plan.model.layers(), parameters)) return *measured;
    if (program.plan.precision != Precision::fp32 && described.update_half.count > 0)
      return streamed(c.device_type, parameters * described.update_half);
    return cost.adamw(c.device_type, parameters, program.plan.precision);
  }
};

ProfileCost::ProfileCost(const cluster::Profile& profile, std::shared_ptr<TypeCosts> types)
    : state_{std::make_unique<State>(profile, std::move(types))} {}
ProfileCost::ProfileCost(const cluster::Profile& profile, const program::LayerRuntime& runtime, std::shared_ptr<TypeCosts> types)
    : ProfileCost{profile, std::move(types)} {
  state_->described = runtime;
}
ProfileCost::~ProfileCost() = default;

Cost ProfileCost::operation(const model::Config& model, const std::string& device_type, model::Operation operation,
                            const model::LayerShape& shape) const {
  return state_->types().operation(model, device_type, operation, shape);
}

Cost ProfileCost::adamw(const std::string& device_type, std::int64_t elements, Precision precision) const {
  if (elements <= 0) return {};
  const auto measured = state_->types().per_element(device_type, "adamw", precision);
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
  const auto norm = [&](std::int64_t count) {
    const auto measured = state_->types().per_element(c.device_type, "squared_norm", program.plan.precision);
    return measured ? Cost{measured->time * static_cast<double>(count), measured->relative_error, false} : gradients(count);
  };
  return std::visit(
      Overloaded{
          [&](const program::LayerOperation& work) {
            model::LayerShape shape = c.shape;
            shape.sequences = sequences;
            return pass_cost(*this, program.plan.model, c.device_type, work, shape);
          },
          [&](const program::TokenLoad&) { return streamed({2 * fp32_bytes * sequences * (std::int64_t{c.shape.length} + 1)}); },
          [&](const program::DocumentLoad&) { return streamed({2 * fp32_bytes * sequences * c.shape.length}); },
          [&](const program::ZeroFill& work) { return gradients(elements(work.part, -1)); },
          [&](const program::SquaredNorm& work) { return norm(elements(work.part, work.shard)); },
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
  all.of(cluster::Transport::host) = state_->network.message(from, to, size, flows);
  state_->each_joining(from, to, [&](auto& over) { all.of(over.transport()) = over.message(from, to, size, flows); });
  return all;
}

TransportCosts ProfileCost::by_transport(CollectiveKind kind, const program::Group& group, Bytes bytes, Bytes element,
                                         const Flows& flows) const {
  TransportCosts all;
  all.of(cluster::Transport::host) = state_->network.collective(kind, group, bytes, element, flows);
  if (kind == CollectiveKind::reduce_scalars) return all;  // fp64 is summed on hosts
  state_->each_joining(group.members, library_proves(group),
                       [&](auto& over) { all.of(over.transport()) = over.collective(kind, group, bytes, element, flows); });
  return all;
}

Cost ProfileCost::message(Rank from, Rank to, Bytes size, const Flows& flows) const {
  return by_transport(from, to, size, flows).chosen(wanted_transport());
}

Cost ProfileCost::collective(CollectiveKind kind, const program::Group& group, Bytes bytes, Bytes element, const Flows& flows) const {
  if (group.members.size() < 2) return {};
  return by_transport(kind, group, bytes, element, flows).chosen(wanted_transport());
}

Cost ProfileCost::sum_over_many(const std::vector<Rank>& some, std::size_t members, Bytes bytes, Bytes element, const Flows& flows) const {
  if (members < 2) return {};
  TransportCosts all;
  all.of(cluster::Transport::host) = state_->network.sum_over_many(some, members, bytes, element, flows);
  state_->each_joining(some, false,
                       [&](auto& over) { all.of(over.transport()) = over.sum_over_many(some, members, bytes, element, flows); });
  return all.chosen(wanted_transport());
}

std::optional<cluster::Transport> ProfileCost::wanted_transport() const { return state_->profile.wanted_transport; }
cluster::Interference ProfileCost::interference(const std::string& device_type) const {
  const auto* type = cluster::find_type(state_->profile, device_type);
  return type == nullptr ? cluster::Interference{} : type->interference;
}

double ProfileCost::collective_share(const program::Group& group) const {
  const double share = state_->described.collective_share;
  if (!(share > 0)) return 0;
  const auto here = host(group.members.front());
  return std::ranges::all_of(group.members, [&](Rank member) { return host(member) == here; }) ? share : 0;
}
std::uint64_t ProfileCost::host(Rank rank) const { return static_cast<std::uint64_t>(state_->network.paths.host(rank)); }
int ProfileCost::lanes(Rank from, Rank to) const { return state_->network.paths.route(state_->network.paths.between(from, to)).lanes(); }
int ProfileCost::uplink(Rank rank) const { return state_->network.paths.uplink(rank); }

std::uint64_t ProfileCost::path(Rank from, Rank to) const {
  auto path = static_cast<std::uint64_t>(state_->network.paths.between(from, to));
  state_->each_joining(from, to, [&](auto& over) { path = joined(path, over.path(from, to)); });
  return path;
}

std::uint64_t ProfileCost::path(const program::Group& group) const {
  auto path = state_->network.path(group);
  state_->each_joining(group.members, library_proves(group), [&](auto& over) { path = joined(path, over.path(group)); });
  return path;
}

}  // namespace flotilla::simulate