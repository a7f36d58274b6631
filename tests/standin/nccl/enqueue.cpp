#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <utility>

#include "communicator.hpp"

namespace flotilla::standin::nccl {
namespace {

/// What a group holds until its end: a collective's work, or a message that goes with the others of its communicator and stream.
struct Waiting {
  Comm* comm;
  void* stream;
  std::function<void()> work;
  Message message;
};
thread_local int depth = 0;
thread_local std::vector<Waiting> waiting;
thread_local std::vector<Comm*> aborting;

std::mutex turn_mutex;
std::condition_variable turn_changed;
std::uint64_t next_turn = 0, turn_now = 0;

struct Operation {
  Comm* comm;
  std::function<void()> work;
  bool serial;
  std::uint64_t turn;
};

void perform(void* argument) {
  const std::unique_ptr<Operation> operation{static_cast<Operation*>(argument)};
  const auto mine = [&] { return turn_now == operation->turn || operation->comm->aborted; };
  if (operation->serial) {
    std::unique_lock lock{turn_mutex};
    while (!mine()) turn_changed.wait_for(lock, std::chrono::milliseconds{5});
  }
  if (!operation->comm->aborted) operation->work();
  if (operation->serial) {
    const std::lock_guard lock{turn_mutex};
    ++turn_now;
    turn_changed.notify_all();
  }
  --operation->comm->pending;
}

Result enqueue(Comm& comm, void* stream, std::function<void()> work) {
  using Enqueue = bool (*)(void*, void (*)(void*), void*);
  static const auto on_stream =
      reinterpret_cast<Enqueue>(dlsym(dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD), "flotilla_standin_enqueue"));
  static const bool serial = is_set("FLOTILLA_STANDIN_NCCL_SERIAL");
  std::uint64_t turn = 0;
  if (serial) {
    const std::lock_guard lock{turn_mutex};
    turn = next_turn++;
  }
  ++comm.pending;
  return on_stream(stream, perform, new Operation{&comm, std::move(work), serial, turn}) ? api::success : api::unhandled_cuda_error;
}

/// The group's messages of one communicator on one stream are one operation.
std::vector<Message> messages_of(const Waiting& first, std::vector<Waiting>& all) {
  std::vector<Message> messages;
  for (Waiting& w : all)
    if (w.comm == first.comm && w.stream == first.stream && !w.work) messages.push_back(w.message);
  return messages;
}

bool same_exchange(const Waiting& a, const Waiting& b) { return !a.work && !b.work && a.comm == b.comm && a.stream == b.stream; }

Result enqueue_all(std::vector<Waiting> all) {
  for (auto w = all.begin(); w != all.end(); ++w) {
    if (std::any_of(all.begin(), w, [&](const Waiting& before) { return same_exchange(before, *w); })) continue;
    Comm& comm = *w->comm;
    const Result result = w->work ? enqueue(comm, w->stream, w->work)
                                  : enqueue(comm, w->stream, [&comm, messages = messages_of(*w, all)] { run(comm, messages); });
    if (result != api::success) return result;
  }
  return api::success;
}

/// Lazily: a moment later, by another thread, while the first of the communicators is in progress.
Result flush() {
  std::vector<Waiting> all = std::exchange(waiting, {});
  if (all.empty() || !is_set("FLOTILLA_STANDIN_NCCL_LAZY")) return enqueue_all(std::move(all));
  Comm& first = *all.front().comm;
  return in_background(first, [all = std::move(all)] {
    std::this_thread::sleep_for(std::chrono::milliseconds{1});
    return enqueue_all(all);
  });
}

Result add(Waiting w) {
  Comm& comm = *w.comm;
  if (comm.inside.fetch_add(1) != 0) say(comm, "two threads at once in one communicator");
  const int state = comm.state;
  if (state == api::in_progress) say(comm, "used before it is ready");
  if (state == api::success) waiting.push_back(std::move(w));
  --comm.inside;
  if (state != api::success) return state == api::in_progress ? api::invalid_argument : state;
  return depth > 0 ? api::success : flush();
}

}  // namespace

Result add(Comm* comm, void* stream, std::function<void()> work) { return add(Waiting{comm, stream, std::move(work), {}}); }
Result add(Comm* comm, void* stream, Message message) { return add(Waiting{comm, stream, {}, message}); }

}  // namespace flotilla::standin::nccl

namespace flotilla::nccl::api {

using namespace standin::nccl;

Result ncclGroupStart() {
  ++depth;
  return success;
}

Result ncclGroupEnd() {
  if (--depth > 0) return success;
  abort(std::exchange(aborting, {}));
  return flush();
}

Result ncclCommAbort(standin::nccl::Comm* comm) {
  if (depth > 0)
    aborting.push_back(comm);
  else
    abort({comm});
  return success;
}

Result ncclAllReduce(const void* from, void* to, std::size_t count, int type, int, standin::nccl::Comm* comm, void* stream) {
  return add(comm, stream, [=] { run(*comm, {Kind::all_reduce, from, to, count, type}); });
}
Result ncclReduceScatter(const void* from, void* to, std::size_t count, int type, int, standin::nccl::Comm* comm, void* stream) {
  return add(comm, stream, [=] { run(*comm, {Kind::reduce_scatter, from, to, count, type}); });
}
Result ncclAllGather(const void* from, void* to, std::size_t count, int type, standin::nccl::Comm* comm, void* stream) {
  return add(comm, stream, [=] { run(*comm, {Kind::all_gather, from, to, count, type}); });
}
Result ncclSend(const void* from, std::size_t size, int, int peer, standin::nccl::Comm* comm, void* stream) {
  return add(comm, stream, Message{true, static_cast<char*>(host_view(from)), size, peer});
}
Result ncclRecv(void* to, std::size_t size, int, int peer, standin::nccl::Comm* comm, void* stream) {
  return add(comm, stream, Message{false, static_cast<char*>(host_view(to)), size, peer});
}

}  // namespace flotilla::nccl::api
