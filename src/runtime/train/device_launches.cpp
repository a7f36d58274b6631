#include "device_launches.hpp"

#include <algorithm>
#include <map>

#include "flotilla/base/error.hpp"

namespace flotilla::train {

using program::CollectiveKind;
using program::Role;

namespace {

/// The order of this rank, proved over all ranks.
std::vector<int> proved_order(const Binding& binding, const Connections& connections, const Options& options) {
  if (std::ranges::none_of(binding.issued_instructions(), [](const auto& issued) { return issued.launched; })) return {};
  const auto launched = connections.launched(binding.program());
  auto order = program::number_launches(binding.program(), launched);
  if (options.change_launches) options.change_launches(order);
  const auto violations =
      options.prove_launches ? program::validate_launches(binding.program(), launched, order) : std::vector<program::Violation>{};
  FLOTILLA_REQUIRE(violations.empty(), ErrorKind::internal, "the order of launches is not valid: ", violations.front().what);
  return order[binding.rank().value];
}

}  // namespace

DeviceLaunches::DeviceLaunches(const Binding& binding, const Connections& connections, const Options& options)
    : binding_{binding}, order_{proved_order(binding, connections, options)}, launches_(binding.issued_instructions().size()) {
  std::map<const comm::DeviceGroup*, int> last;
  for (const int place : order_) {
    const auto& issued = binding.issued_instructions()[static_cast<std::size_t>(place)];
    auto& group = connections.device_group(binding.program(), *issued.instruction);
    const auto* sent = issued.instruction->as<program::MessageEnd>();
    const auto before = last.try_emplace(&group, -1).first;
    launches_[static_cast<std::size_t>(place)] = {
        &group, sent != nullptr ? message(issued, *sent, group) : collective(issued, *issued.instruction->as<program::Collective>(), group),
        before->second};
    before->second = place;
  }
}

gpu::DevicePointer DeviceLaunches::operand(const BoundInstruction& issued, Role role) const {
  const auto* access = issued.instruction->access(role);
  return {access == nullptr ? nullptr : binding_.buffer(access->buffer, issued.microbatch)};
}

DeviceLaunches::Enqueue DeviceLaunches::message(const BoundInstruction& issued, const program::MessageEnd& message,
                                                comm::DeviceGroup& pair) const {
  const auto data = operand(issued, Role::message) + message.begin(binding_.rank_binding().tensor_index, issued.sequences).count;
  const int other = 1 - pair.index();
  if (message.sends()) return [&pair, other, data, size = issued.size](const gpu::Stream& stream) { pair.send(other, data, size, stream); };
  return [&pair, other, data, size = issued.size](const gpu::Stream& stream) { pair.receive(other, data, size, stream); };
}

DeviceLaunches::Enqueue DeviceLaunches::collective(const BoundInstruction& issued, const program::Collective& collective,
                                                   comm::DeviceGroup& group) const {
  const auto data = operand(issued, Role::reduced), staging = operand(issued, Role::staging);
  const Bytes size = issued.size, token = collective.token;
  const auto activations = element_type(binding_.program().plan.precision);
  switch (collective.kind) {
    case CollectiveKind::all_reduce: {
      const auto type = issued.instruction->per_microbatch ? activations : ElementType::fp32;  // else of gradients
      return [=, &group](const gpu::Stream& stream) { group.all_reduce(data, type, size, staging, stream); };
    }
    case CollectiveKind::reduce_scatter:
      return [=, &group](const gpu::Stream& stream) { group.reduce_scatter(data, activations, token, size, staging, stream); };
    case CollectiveKind::reduce_scatter_shards:
      return [=, &group](const gpu::Stream& stream) { group.reduce_scatter_shards(data, ElementType::fp32, size, staging, stream); };
    case CollectiveKind::all_gather_shards:
      return [=, &group, element = element_size(binding_.program().plan.precision)](const gpu::Stream& stream) {
        group.all_gather_shards(data, element, size, stream);
      };
    case CollectiveKind::all_gather: return gather(issued, collective, group);
    case CollectiveKind::reduce_scalars: break;
  }
  FLOTILLA_ASSERT(false, issued.instruction->name, " is not for devices: fp64 is summed on hosts");
  return {};
}

/// Pieces of a microbatch's tokens in place, or everybody's statistics.
DeviceLaunches::Enqueue DeviceLaunches::gather(const BoundInstruction& issued, const program::Collective& collective,
                                               comm::DeviceGroup& group) const {
  const Bytes size = issued.size;
  if (issued.instruction->access(Role::message) != nullptr)
    return [&group, data = operand(issued, Role::message), token = binding_.token_bytes(*issued.instruction, collective),
            size](const gpu::Stream& stream) { group.gather_pieces(data, token, size, stream); };
  return [&group, from = operand(issued, Role::stats), all = operand(issued, Role::gathered_stats), size](gpu::Stream stream) {
    stream.copy_on_device(all + group.index() * size.count, from, size);
    group.all_gather(all, size, stream);
  };
}

}  // namespace flotilla::train
