#include "device_queues.hpp"

#include "flotilla/base/error.hpp"
#include "flotilla/base/overloaded.hpp"

namespace flotilla::train {

using program::CollectiveKind;
using program::Role;

namespace {

constexpr Seconds patience{10};  // at the end

}  // namespace

DeviceQueues::DeviceQueues(const gpu::DeviceContext& device, gpu::Stream& compute, Binding& binding, const HostBuffers& host,
                           DeviceLaunches launches, bool timed)
    : compute_{compute},
      binding_{binding},
      host_{host},
      launches_{std::move(launches)},
      begin_{device.make_event(timed)},
      entries_(binding.issued_instructions().size()),
      inputs_(entries_.size(), -1),
      timed_{timed} {
  for (int i = 0; i < static_cast<int>(entries_.size()); ++i) {
    auto& entry = entries_[static_cast<std::size_t>(i)];
    const bool communicates = on_comm_thread(*bound(i).instruction);
    if (communicates) make_stream_of(i, device);
    if (communicates || bound(i).awaited_by_other_thread) entry.event = device.make_event();
    if (timed && (!communicates || bound(i).launched)) {
      entry.start = device.make_event(true);
      entry.end = device.make_event(true);
    }
    if (!bound(i).launched && !bound(i).on_device) prepare(i, entry);
    if (inputs_[static_cast<std::size_t>(i)] == i) entry.taken = device.make_event();
  }
}

void DeviceQueues::make_stream_of(int issued, const gpu::DeviceContext& device) {
  const auto place = place_of_stream(issued);
  if (streams_[place].valid()) return;
  streams_[place] = device.make_stream(true);
  ends_[place] = device.make_event();
}

DeviceQueues::~DeviceQueues() {
  try {
    for (const auto& stream : streams_)
      if (stream.valid()) stream.wait(patience);
    compute_.wait(patience);
  } catch (const Error&) {  // a device in error does nothing any more
  }
}

DeviceQueues::Copy DeviceQueues::copy_of(const BoundInstruction& issued, Role role, Bytes begin, Bytes size) const {
  const int buffer = issued.instruction->access(role)->buffer;
  return {host_.at(buffer, issued.microbatch) + begin.count, {binding_.buffer(buffer, issued.microbatch) + begin.count}, size};
}

void DeviceQueues::prepare(int index, Entry& entry) {
  const auto& issued = bound(index);
  const std::int64_t length = binding_.program().plan.length;
  std::visit(
      Overloaded{[&](const program::MessageEnd& message) { prepare_message(issued, message, entry); },
                 [&](const program::Collective& collective) { prepare_collective(issued, collective, entry); },
                 [&](const program::TokenLoad&) { prepare_input(index, Role::tokens, length + 1, entry); },
                 [&](const program::DocumentLoad&) { prepare_input(index, Role::document_starts, length, entry); }, [](const auto&) {}},
      issued.instruction->work);
}

/// `values` int32 of each sequence. Runs that share a place on the host share the event that it was read.
void DeviceQueues::prepare_input(int index, Role role, std::int64_t values, Entry& entry) {
  entry.input = copy_of(bound(index), role, {}, bound(index).sequences * Bytes{values * 4});
  int first = 0;
  while (entries_[static_cast<std::size_t>(first)].input.host != entry.input.host) ++first;
  inputs_[static_cast<std::size_t>(index)] = first;
}

void DeviceQueues::prepare_message(const BoundInstruction& issued, const program::MessageEnd& message, Entry& entry) {
  const Bytes begin = message.begin(binding_.rank_binding().tensor_index, issued.sequences);
  (message.sends() ? entry.fetch : entry.store).push_back(copy_of(issued, Role::message, begin, issued.size));
}

/// Sums and gathers work in place. What a member does not get goes back as it came.
void DeviceQueues::prepare_collective(const BoundInstruction& issued, const program::Collective& collective, Entry& entry) {
  if (collective.kind == CollectiveKind::reduce_scalars) {  // the host makes the totals of them and is who reads these
    entry.fetch.push_back(copy_of(issued, Role::scalars, {}, issued.size));
    return;
  }
  const int members = binding_.group_of(collective).size();
  const bool gathers_stats = collective.kind == CollectiveKind::all_gather && issued.instruction->access(Role::message) == nullptr;
  if (gathers_stats) {
    entry.fetch.push_back(copy_of(issued, Role::stats, {}, issued.size));
    entry.store.push_back(copy_of(issued, Role::gathered_stats, {}, members * issued.size));
    return;
  }
  if (members == 1) return;
  const auto whole = copy_of(issued, issued.instruction->access(Role::message) != nullptr ? Role::message : Role::reduced, {}, issued.size);
  entry.fetch.push_back(whole);
  entry.store.push_back(whole);
}

void DeviceQueues::end_pass() {
  for (std::size_t q = 0; q < streams_.size(); ++q) {
    if (!streams_[q].valid()) continue;
    streams_[q].record(ends_[q]);
    compute_.wait_for(ends_[q]);
  }
}

void DeviceQueues::begin_pass() {
  compute_.record(begin_);
  for (auto& stream : streams_)
    if (stream.valid()) stream.wait_for(begin_);
}

std::size_t DeviceQueues::place_of_stream(int issued) const {
  const auto& instruction = *bound(issued).instruction;
  if (!on_comm_thread(instruction)) return streams_.size();
  return static_cast<std::size_t>(instruction.queue) + (bound(issued).launched ? program::queue_count : 0);
}

void DeviceQueues::wait_for_others(gpu::Stream& stream, int issued) {
  for (const int wait : bound(issued).waits)
    if (place_of_stream(wait) != place_of_stream(issued)) stream.wait_for(entries_[static_cast<std::size_t>(wait)].event);
}

void DeviceQueues::before(int issued) {
  wait_for_others(compute_, issued);
  if (timed_) compute_.record(entries_[static_cast<std::size_t>(issued)].start);
}

void DeviceQueues::after(int issued) {
  auto& entry = entries_[static_cast<std::size_t>(issued)];
  if (timed_) compute_.record(entry.end);
  if (bound(issued).awaited_by_other_thread) compute_.record(entry.event);
}

void DeviceQueues::fetch(int issued) {
  auto& stream = stream_of(issued);
  auto& entry = entries_[static_cast<std::size_t>(issued)];
  wait_for_others(stream, issued);
  for (const auto& copy : entry.fetch) stream.copy_to_host({copy.host, static_cast<std::size_t>(copy.size.count)}, copy.device);
  stream.record(entry.event);
}

bool DeviceQueues::fetched(int issued) const { return entries_[static_cast<std::size_t>(issued)].event.done(); }

void DeviceQueues::store(int issued) {
  auto& entry = entries_[static_cast<std::size_t>(issued)];
  if (entry.store.empty()) return;
  auto& stream = stream_of(issued);
  for (const auto& copy : entry.store) stream.copy_to_device(copy.device, {copy.host, static_cast<std::size_t>(copy.size.count)});
  stream.record(entry.event);
}

void DeviceQueues::launch(int issued) {
  auto& stream = stream_of(issued);
  auto& entry = entries_[static_cast<std::size_t>(issued)];
  wait_for_others(stream, issued);
  const int before = launches_.before(issued);
  if (before >= 0 && place_of_stream(before) != place_of_stream(issued)) stream.wait_for(entries_[static_cast<std::size_t>(before)].event);
  if (timed_) stream.record(entry.start);
  launches_.enqueue(issued, stream);
  if (timed_) stream.record(entry.end);
  stream.record(entry.event);
}

bool DeviceQueues::launch_done(int issued) const { return launches_.done(issued, entries_[static_cast<std::size_t>(issued)].event); }

std::byte* DeviceQueues::input(int issued) const {
  return entries_[static_cast<std::size_t>(inputs_[static_cast<std::size_t>(issued)])].input.host;
}

bool DeviceQueues::input_taken(int issued) const {
  return entries_[static_cast<std::size_t>(inputs_[static_cast<std::size_t>(issued)])].taken.done();
}

void DeviceQueues::upload_input(int issued) {
  const auto& copy = entries_[static_cast<std::size_t>(issued)].input;
  compute_.copy_to_device(copy.device, {copy.host, static_cast<std::size_t>(copy.size.count)});
  compute_.record(entries_[static_cast<std::size_t>(inputs_[static_cast<std::size_t>(issued)])].taken);
}

DeviceQueues::Span DeviceQueues::span(int issued) const {
  const auto& entry = entries_[static_cast<std::size_t>(issued)];
  return {gpu::Event::between(begin_, entry.start), gpu::Event::between(begin_, entry.end)};
}

}  // namespace flotilla::train
