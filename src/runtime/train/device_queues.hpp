#pragma once
#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "binding.hpp"
#include "device_launches.hpp"
#include "flotilla/base/units.hpp"
#include "flotilla/gpu/device.hpp"
#include "host_buffers.hpp"

namespace flotilla::train {

/// A binding's queues on a GPU. Every queue of messages and collectives has a stream for those that go through the host and one for those
/// that go from GPU to GPU, computations have the backend's. Progress' mark on an
/// instruction means that its work and its event are enqueued; what waits for an instruction of another queue waits for the event on its
/// own stream, so that the host runs ahead. Only what the host itself has in hand waits for the device: a message between its fetch and its
/// store, which go through pinned memory; or, on device memory, between what it waits for and its end, without either.
///
/// begin_pass() and end_pass() are called with both threads at rest, the rest by the thread that runs the instruction.
class DeviceQueues {
 public:
  /// `compute` is the backend's stream. `timed`: events tell when computations ran. What is handed over outlives this.
  DeviceQueues(const gpu::DeviceContext&, gpu::Stream& compute, Binding&, const HostBuffers&, DeviceLaunches, bool timed);
  DeviceQueues(const DeviceQueues&) = delete;
  DeviceQueues& operator=(const DeviceQueues&) = delete;
  /// Waits a while for what is under way: it uses the host's buffers.
  ~DeviceQueues();

  /// All queues begin after what the compute stream has been given.
  void begin_pass();
  /// The compute stream goes on after all queues.
  void end_pass();

  /// Around the enqueuing of a computation.
  void before(int issued);
  void after(int issued);
  /// A message or collective: what it reads comes to the host, but for operations on device memory, once what it waits for is done ...
  void fetch(int issued);
  bool fetched(int issued) const;
  /// ... and, when it has moved, what it wrote goes to the device.
  void store(int issued);

  /// What goes from GPU to GPU: the order in which it is launched ...
  const DeviceLaunches& launches() const { return launches_; }
  /// ... each behind what it waits for ...
  void launch(int issued);
  /// ... and whether it is through. Throws as DeviceLaunches::done().
  bool launch_done(int issued) const;

  /// The host's place of a computation's operand that the host writes, once the device has taken the last values from there.
  std::byte* input(int issued) const;
  bool input_taken(int issued) const;
  /// It has been written.
  void upload_input(int issued);

  /// When a computation or a launch of the last pass ran, in seconds from begin_pass(). Waits for the device.
  struct Span {
    Seconds start, end;
  };
  Span span(int issued) const;
  void wait(Seconds limit) const { compute_.wait(limit); }

 private:
  struct Copy {
    std::byte* host = nullptr;
    gpu::DevicePointer device;
    Bytes size;
  };
  struct Entry {
    gpu::Event event;         ///< of what waits in other queues
    gpu::Event start, end;    ///< timed
    gpu::Event taken;         ///< of an input: the device has it
    std::vector<Copy> fetch;  ///< before a message or collective
    std::vector<Copy> store;  ///< after it
    Copy input;
  };
  void prepare(int issued, Entry&);
  void prepare_input(int issued, program::Role, std::int64_t values, Entry&);
  void prepare_message(const BoundInstruction&, const program::MessageEnd&, Entry&);
  void prepare_collective(const BoundInstruction&, const program::Collective&, Entry&);
  Copy copy_of(const BoundInstruction&, program::Role, Bytes begin, Bytes size) const;
  /// Among the streams; computations: one beyond them.
  std::size_t place_of_stream(int issued) const;
  gpu::Stream& stream_of(int issued) { return streams_[place_of_stream(issued)]; }
  void make_stream_of(int issued, const gpu::DeviceContext&);
  void wait_for_others(gpu::Stream&, int issued);
  const BoundInstruction& bound(int issued) const { return binding_.issued_instructions()[static_cast<std::size_t>(issued)]; }

  gpu::Stream& compute_;
  Binding& binding_;
  const HostBuffers& host_;
  const DeviceLaunches launches_;
  std::array<gpu::Stream, 2 * program::queue_count> streams_;  ///< by queue: through the host, then from GPU to GPU
  std::array<gpu::Event, 2 * program::queue_count> ends_;
  gpu::Event begin_;
  std::vector<Entry> entries_;
  std::vector<int> inputs_;  ///< of an input: the first instruction that uses the same place
  bool timed_;
};

}  // namespace flotilla::train
