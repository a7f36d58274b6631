#include "binding.hpp"

#include <algorithm>

#include "flotilla/base/error.hpp"

namespace flotilla::train {

using program::Op;
using program::Role;

Binding::Binding(const program::Program& program, Rank rank, const Arena& arena, const comm::World& world, const comm::Groups& groups,
                 int channel_base)
    : program_{program},
      binding_{program.ranks.at(rank.index())},
      class_{program.classes.at(static_cast<std::size_t>(binding_.rank_class))},
      rank_{rank},
      arena_{arena},
      world_{world},
      groups_{groups},
      channel_base_{channel_base},
      of_site_(class_.sites.size()) {
  for (std::size_t p = 0; p < class_.parts.size(); ++p)
    if (class_.parts[p].name == "word") word_part_ = static_cast<int>(p);
  const auto list = program::expand(program, rank);
  instructions_.resize(list.size());
  for (std::size_t i = 0; i < list.size(); ++i) bind(instructions_[i], list[i]);
  for (const auto& instruction : instructions_)
    for (int wait : instruction.waits) {
      auto& awaited = instructions_[static_cast<std::size_t>(wait)];
      if (on_comm_thread(*awaited.site) != on_comm_thread(*instruction.site)) awaited.awaited_by_other_thread = true;
    }
}

std::byte* Binding::buffer(int index, int microbatch) const {
  return arena_.at(program::offset_of(class_.buffers[static_cast<std::size_t>(index)], microbatch));
}

const program::Access* Binding::find(const program::Site& site, Role role) const {
  const auto found = std::find_if(site.accesses.begin(), site.accesses.end(), [&](const auto& a) { return a.role == role; });
  return found == site.accesses.end() ? nullptr : &*found;
}

comm::Operation* Binding::keep(std::unique_ptr<comm::Operation> operation) {
  operations_.push_back(std::move(operation));
  return operations_.back().get();
}

void Binding::bind(BoundInstruction& bound, const program::Instruction& instruction) {
  const auto& site = class_.sites[static_cast<std::size_t>(instruction.site)];
  bound.site = &site;
  bound.microbatch = instruction.microbatch;
  bound.sequences = site.per_microbatch ? class_.sequences(instruction.microbatch) : 0;
  bound.waits = instruction.waits;
  bound.size = site.size(bound.sequences);
  auto& task = bound.task;
  task.operation = site.operation;
  task.layer = site.layer;
  task.sequences = bound.sequences;
  task.training = program_.purpose == program::Purpose::training;
  const auto& firsts = program_.first_sequences.at(static_cast<std::size_t>(binding_.deal));
  if (site.per_microbatch) task.first_sequence = firsts.at(static_cast<std::size_t>(bound.microbatch));
  task.loss_scale = 1.0f / (static_cast<float>(program_.plan.global_batch) * static_cast<float>(program_.plan.length));
  if (site.part >= 0) task.part = &class_.parts[static_cast<std::size_t>(site.part)];
  if (word_part_ >= 0) task.word_part = &class_.parts[static_cast<std::size_t>(word_part_)];
  for (const auto& access : site.accesses) task.operands[static_cast<std::size_t>(access.role)] = buffer(access.buffer, bound.microbatch);
  if (site.op == Op::send || site.op == Op::receive) bind_message(bound);
  if (site.group >= 0) bind_collective(bound);
}

// One operation for each instance of the buffer: the instances are reused, and so are their operations. A short microbatch has its own,
// since the rank's piece of it begins elsewhere.
void Binding::bind_message(BoundInstruction& bound) {
  const auto& access = *find(*bound.site, Role::message);
  const auto& about = class_.buffers[static_cast<std::size_t>(access.buffer)];
  auto& instances = of_site_[static_cast<std::size_t>(bound.site - class_.sites.data())];
  instances.resize(static_cast<std::size_t>(2 * about.copies));
  const int first = bound.sequences == class_.shape.sequences ? 0 : about.copies;
  auto& slot = instances[static_cast<std::size_t>(first + bound.microbatch % about.copies)];
  if (slot == nullptr) {
    const Rank peer = binding_.peers[static_cast<std::size_t>(bound.site->peer)];
    const Bytes begin = bound.site->begin(binding_.tensor_index, bound.sequences);
    std::byte* data = buffer(access.buffer, bound.microbatch) + begin.count;
    const Bytes most = about.size - begin;
    const int channel = channel_base_ + bound.site->channel;
    slot = keep(bound.site->op == Op::send ? comm::make_send(world_, peer, channel, data, most)
                                           : comm::make_receive(world_, peer, channel, data, most));
  }
  bound.operation = slot;
}

void Binding::bind_collective(BoundInstruction& bound) {
  const auto& site = *bound.site;
  auto& instances = of_site_[static_cast<std::size_t>(&site - class_.sites.data())];
  if (const auto* pieces = find(site, Role::message); pieces != nullptr) return bind_gather(bound, *pieces);
  if (instances.empty()) instances.push_back(make_collective(site));
  bound.operation = instances.front();
}

comm::Group& Binding::group_of(const program::Site& site) const {
  return *groups_[static_cast<std::size_t>(binding_.groups[static_cast<std::size_t>(site.group)])];
}

/// The pieces of a microbatch's tokens, in each instance of the buffer.
void Binding::bind_gather(BoundInstruction& bound, const program::Access& access) {
  const auto& about = class_.buffers[static_cast<std::size_t>(access.buffer)];
  auto& instances = of_site_[static_cast<std::size_t>(bound.site - class_.sites.data())];
  instances.resize(static_cast<std::size_t>(about.copies));
  auto& slot = instances[static_cast<std::size_t>(bound.microbatch % about.copies)];
  const Bytes token = bound.site->token.count > 0 ? bound.site->token : Bytes{about.size.count / class_.shape.tokens()};
  if (slot == nullptr) slot = keep(group_of(*bound.site).make_gather_pieces(buffer(access.buffer, bound.microbatch), token, about.size));
  bound.operation = slot;
  bound.size = std::int64_t{bound.sequences} * class_.shape.length * token;
}

comm::Operation* Binding::make_collective(const program::Site& site) {
  auto& group = group_of(site);
  const auto* staging = find(site, Role::staging);
  std::byte* staging_data = staging == nullptr ? nullptr : buffer(staging->buffer);
  const Bytes staging_size = staging == nullptr ? Bytes{} : class_.buffers[static_cast<std::size_t>(staging->buffer)].size;
  if (site.op == Op::all_reduce) {
    const auto& reduced = *find(site, Role::reduced);
    const auto type = site.part >= 0 ? comm::ElementType::fp32 : comm::element_type(program_.plan.precision);
    const Bytes capacity = site.per_microbatch ? class_.buffers[static_cast<std::size_t>(reduced.buffer)].size : site.bytes;
    return keep(group.make_all_reduce(buffer(reduced.buffer), type, capacity, staging_data, staging_size));
  }
  if (site.op == Op::reduce_scatter) {
    const auto& reduced = *find(site, Role::reduced);
    const Bytes capacity = class_.shape.tokens() * site.token;
    return keep(group.make_reduce_scatter(buffer(reduced.buffer), comm::element_type(program_.plan.precision), site.token, capacity,
                                          staging_data, staging_size));
  }
  if (site.op == Op::all_gather) {
    const auto& mine = *find(site, Role::stats);
    const auto& all = *find(site, Role::gathered_stats);
    return keep(group.make_all_gather(buffer(mine.buffer), buffer(all.buffer), class_.buffers[static_cast<std::size_t>(mine.buffer)].size));
  }
  FLOTILLA_ASSERT(site.op == Op::reduce_scalars, site.name);
  const auto& totals = *find(site, Role::totals);
  return keep(group.make_all_reduce(buffer(totals.buffer), comm::ElementType::fp64, site.bytes, staging_data, staging_size));
}

}  // namespace flotilla::train
