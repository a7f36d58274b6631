#pragma once
#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "nccl_api.hpp"

/// A libnccl.so.2 for tests: the functions of nccl_api.hpp as NVIDIA documents them, between processes of one machine over files that they
/// map, their work on streams of the stand-in driver. It says aloud what NCCL leaves undefined: unlike calls of one place in the order, use
/// before ready, two threads in one communicator.
///
///   FLOTILLA_STANDIN_NCCL_VERSION      what it calls itself (default 22809)
///   FLOTILLA_STANDIN_NCCL_FAULTS       "KIND:RANK,KIND@N:RANK": init_hang, init_slow (0.3 s), init_die, init_stop, init_unplug, of the
///                                      process's N-th communicator or of all; of its N-th operation or, as N, "all": hang, slow (0.3 s),
///                                      die, stop (SIGSTOP), unplug (nothing reaches the process any more, and nothing of it others), async
///                                      (an asynchronous error), wrong (sum, or bits received)
///   FLOTILLA_STANDIN_RANK              which rank of the faults this process is (default: OMPI_COMM_WORLD_RANK, else the member's index)
///   FLOTILLA_STANDIN_NCCL_LAZY         every call answers "in progress", and its work is enqueued a moment later
///   FLOTILLA_STANDIN_NCCL_SERIAL       a process's operations run one at a time, in the order of their calls, as on a GPU that they fill
///   FLOTILLA_STANDIN_NCCL_MEMORY       bytes that a communicator takes of its device for each other member (default 64 KiB)
///   FLOTILLA_STANDIN_NCCL_FOLDER       where communicators share a file: what all nodes see, if there are several (default /dev/shm)
///   FLOTILLA_STANDIN_NCCL_ABORT_WAITS  an abort waits for the operations of all communicators of the process, as freeing memory does
namespace flotilla::standin::nccl {

namespace api = flotilla::nccl::api;
using api::Result;

inline constexpr int most_members = 16;
inline constexpr std::size_t chunk = 64 << 10;
inline constexpr std::size_t memory_of_a_connection = 64 << 10;

enum class Kind : int { all_reduce, reduce_scatter, all_gather, exchange };

/// What a member says of the operation that it is at.
struct alignas(64) Place {
  std::atomic<std::uint64_t> shown, used;  ///< phases begun and ended
  Kind kind;
  int type;
  std::size_t count;
};
/// Bytes on their way from one member to another.
struct alignas(64) Mailbox {
  std::atomic<std::uint64_t> sent, taken;
  std::size_t size;
  char data[chunk];
};
/// One mapping for each communicator, all zero in the beginning.
struct Shared {
  std::atomic<int> joined;
  Place places[most_members];
  char data[most_members][chunk];
  Mailbox mail[most_members][most_members];
};

struct Message {
  bool send;
  char* at;
  std::size_t left;
  int peer;
};

}  // namespace flotilla::standin::nccl

namespace flotilla::nccl::api {

struct CommObject {
  std::string name;
  int rank = 0, size = 0;
  standin::nccl::Shared* shared = nullptr;
  void* memory = nullptr;  ///< of its device
  std::atomic<int> state{success};
  std::atomic<bool> aborted{false};
  std::atomic<int> pending{0};  ///< operations enqueued and not ended
  std::atomic<int> inside{0};   ///< threads in a call
  std::thread background;       ///< joins, finalizes, or enqueues lazily
  std::uint64_t phase = 0;
  std::array<std::uint64_t, standin::nccl::most_members> sent{}, taken{};
};

}  // namespace flotilla::nccl::api

namespace flotilla::standin::nccl {

using Comm = api::CommObject;

void say(const Comm&, const std::string&);
/// Sleeps a moment; false when the communicator was aborted.
bool pause(const Comm&);
/// Whether this process has this fault, at its `operation`-th operation or, with 0, in init.
bool has_fault(const char* kind, const Comm&, std::uint64_t operation);
bool is_set(const char* variable);
/// Whether nothing passes between this process and others.
extern std::atomic<bool> unplugged;

// operations.cpp: run on a stream's thread until they are done or the communicator is aborted.
struct Collective {
  Kind kind;
  const void* from;
  void* to;
  std::size_t count;
  int type;
};
void run(Comm&, const Collective&);
void run(Comm&, std::vector<Message>);
void* host_view(const void*);

// enqueue.cpp
/// Within a group it waits for the group's end.
Result add(Comm*, void* stream, std::function<void()> work);
Result add(Comm*, void* stream, Message);
void begin_group();
/// The calls of the group are enqueued, its aborts done.
Result end_group();
bool in_group();

// lifecycle.cpp
/// Does `work` in the background: the communicator is in progress meanwhile, and in the state that `work` returns afterwards.
Result in_background(Comm&, std::function<Result()> work);
/// All at once: each knows that it is aborted before one is waited for.
void abort(const std::vector<Comm*>&);

}  // namespace flotilla::standin::nccl

/// Every function of the table is defined in these sources, with the types of the table.
namespace flotilla::nccl::api {
#define FLOTILLA_DECLARE(name, result, ...) extern "C" __attribute__((visibility("default"))) result name(__VA_ARGS__);
FLOTILLA_NCCL_FUNCTIONS(FLOTILLA_DECLARE)
#undef FLOTILLA_DECLARE
}  // namespace flotilla::nccl::api
