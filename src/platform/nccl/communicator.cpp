#include "flotilla/nccl/communicator.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "flotilla/base/clock.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/base/foreign_text.hpp"
#include "library.hpp"

namespace flotilla::nccl {
namespace {

/// Held during each call of NCCL: a communicator must not be aborted while a thread is inside NCCL. Calls are short, as none blocks.
std::mutex& inside() {
  static std::mutex mutex;
  return mutex;
}

ErrorKind kind_of(api::Result result) {
  switch (result) {
    case api::invalid_argument:
    case api::invalid_usage: return ErrorKind::internal;
    case api::unhandled_cuda_error: return ErrorKind::unavailable;
    default: return ErrorKind::communication;
  }
}

int to_nccl(ElementType type) {
  switch (type) {
    case ElementType::fp32: return api::float32;
    case ElementType::bf16: return api::bfloat16;
    case ElementType::fp16: return api::float16;
    case ElementType::fp64: return api::float64;
  }
  return api::float32;
}

/// Calls `done` with growing pauses until it holds; false after `limit`.
template <class Done>
bool poll(Done&& done, Seconds limit) {
  using namespace std::chrono_literals;
  const Seconds start = now();
  for (std::chrono::microseconds pause = 1us; !done(); pause = std::min<std::chrono::microseconds>(2 * pause, 200us)) {
    if (now() - start >= limit) return false;
    std::this_thread::sleep_for(pause);
  }
  return true;
}

std::size_t size_of(Bytes bytes) { return static_cast<std::size_t>(bytes.count); }
std::size_t size_of(std::int64_t count) { return static_cast<std::size_t>(count); }

}  // namespace

struct NcclCommunicator::State {
  enum class Phase { joining, ready, ended };

  gpu::DeviceContext device;
  std::string name;
  int size, index;
  Seconds limit;
  api::Comm comm = nullptr;
  Phase phase = Phase::joining;  // guarded by inside()

  State(gpu::DeviceContext on, std::string called, int members, int at, Seconds patience)
      : device{std::move(on)}, name{std::move(called)}, size{members}, index{at}, limit{patience} {}
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  /// Whoever still holds a communicator here has met an error and left by it.
  ~State() {
    if (comm && phase != Phase::ended) abort({comm}, device, limit);
  }

  [[noreturn]] void fail(const char* call, ErrorKind kind, std::string_view why) const {
    throw Error{kind, text("NCCL: ", call, " of member ", index, " of ", size, " of the ", name, ": ", why)};
  }

  [[noreturn]] void fail(const char* call, api::Result result) const {
    const char* last = table().ncclGetLastError(comm);
    const bool more = last != nullptr && *last != '\0';
    fail(call, kind_of(result),
         text(table().ncclGetErrorString(result), more ? " (" : "", more ? printable(last) : "", more ? ")" : "",
              "; NCCL_DEBUG=INFO makes NCCL say why"));
  }

  /// One call of NCCL's, in a phase that allows it.
  template <class Call>
  api::Result within(const char* what, Phase needed, Call&& call) {
    const std::lock_guard lock{inside()};
    if (phase == Phase::ended) fail(what, ErrorKind::communication, "the communicator was given up");
    FLOTILLA_ASSERT(phase == needed, what, " of the ", name, " before await_ready() or after it");
    device.make_current();
    return call(table());
  }

  [[noreturn]] void overdue(const char* what, Seconds after) const {
    fail(what, ErrorKind::communication, text("not done after ", after.value, " s: a member is missing or hangs"));
  }

  /// Whether the last call is through. Throws when the communicator is in error.
  bool through(const char* what, Phase in) {
    api::Result now_is = api::in_progress;
    const api::Result asked = within(what, in, [&](const api::NcclFunctions& t) { return t.ncclCommGetAsyncError(comm, &now_is); });
    if (asked != api::success) fail(what, asked);
    if (now_is != api::success && now_is != api::in_progress) fail(what, now_is);
    return now_is == api::success;
  }

  /// Every call may answer "in progress": waits until it is through.
  void settle(const char* what, Phase in, api::Result answer) {
    if (answer != api::success && answer != api::in_progress) fail(what, answer);
    if (!poll([&] { return through(what, in); }, limit)) overdue(what, limit);
  }

  template <class Call>
  void enqueue(const char* what, Call&& call) {
    settle(what, Phase::ready, within(what, Phase::ready, call));
  }

  /// Of this process; guarded by inside().
  static std::vector<std::weak_ptr<State>>& living() {
    static std::vector<std::weak_ptr<State>> all;
    return all;
  }
  static void remember(const std::shared_ptr<State>& state) {
    const std::lock_guard lock{inside()};
    std::erase_if(living(), [](const auto& each) { return each.expired(); });
    living().push_back(state);
  }

  /// On a thread of its own, which may hang for ever: an abort waits for the device.
  static bool abort(std::vector<api::Comm> comms, gpu::DeviceContext device, Seconds limit) {
    struct Progress {
      std::mutex mutex;
      std::condition_variable ended;
      bool done = false;
    };
    const auto progress = std::make_shared<Progress>();
    const auto work = [=] {
      {
        const std::lock_guard lock{inside()};
        device.make_current();
        table().ncclGroupStart();
        for (const api::Comm comm : comms) table().ncclCommAbort(comm);
        table().ncclGroupEnd();
      }
      const std::lock_guard lock{progress->mutex};
      progress->done = true;
      progress->ended.notify_all();
    };
    try {
      std::thread{work}.detach();
    } catch (const std::system_error&) {
      return false;  // no thread to be had
    }
    std::unique_lock lock{progress->mutex};
    return progress->ended.wait_for(lock, std::chrono::duration<double>{limit.value}, [&] { return progress->done; });
  }
};

UniqueId make_unique_id() {
  UniqueId id;
  const std::lock_guard lock{inside()};
  const api::Result result = table().ncclGetUniqueId(&id);
  FLOTILLA_REQUIRE(result == api::success, ErrorKind::unavailable, "NCCL: ncclGetUniqueId: ", table().ncclGetErrorString(result),
                   "; NCCL_DEBUG=INFO makes NCCL say why");
  return id;
}

NcclCommunicator::NcclCommunicator(std::shared_ptr<State> state) : state_{std::move(state)} {}

NcclCommunicator NcclCommunicator::join(const gpu::DeviceContext& device, const UniqueId& id, int members, int index, std::string name,
                                        Seconds limit) {
  auto state = std::make_shared<State>(device, std::move(name), members, index, limit);
  State::remember(state);
  const api::Result result = state->within("ncclCommInitRankConfig", State::Phase::joining, [&](const api::NcclFunctions& t) {
    api::NcclConfig config;
    return t.ncclCommInitRankConfig(&state->comm, members, id, index, &config);
  });
  if (result != api::success && result != api::in_progress) state->fail("ncclCommInitRankConfig", result);
  return NcclCommunicator{std::move(state)};
}

bool NcclCommunicator::ready() {
  State& s = *state_;
  {
    const std::lock_guard lock{inside()};
    if (s.phase == State::Phase::ready) return true;
  }
  if (!s.through("ncclCommInitRankConfig", State::Phase::joining)) return false;
  const std::lock_guard lock{inside()};
  s.phase = State::Phase::ready;
  return true;
}

void NcclCommunicator::await_ready() {
  const State& s = *state_;
  if (!poll([&] { return ready(); }, s.limit)) s.overdue("ncclCommInitRankConfig", s.limit);
}

int NcclCommunicator::size() const noexcept { return state_->size; }
int NcclCommunicator::index() const noexcept { return state_->index; }
const std::string& NcclCommunicator::name() const noexcept { return state_->name; }

void NcclCommunicator::all_gather(gpu::DevicePointer mine, gpu::DevicePointer all, Bytes size, const gpu::Stream& stream) {
  state_->enqueue("ncclAllGather", [&](const api::NcclFunctions& t) {
    return t.ncclAllGather(mine.address, all.address, size_of(size), api::uint8, state_->comm, stream.native());
  });
}

void NcclCommunicator::all_reduce(gpu::DevicePointer data, ElementType type, std::int64_t count, const gpu::Stream& stream) {
  state_->enqueue("ncclAllReduce", [&](const api::NcclFunctions& t) {
    return t.ncclAllReduce(data.address, data.address, size_of(count), to_nccl(type), api::sum, state_->comm, stream.native());
  });
}

void NcclCommunicator::reduce_scatter(gpu::DevicePointer all, gpu::DevicePointer mine, ElementType type, std::int64_t count,
                                      const gpu::Stream& stream) {
  state_->enqueue("ncclReduceScatter", [&](const api::NcclFunctions& t) {
    return t.ncclReduceScatter(all.address, mine.address, size_of(count), to_nccl(type), api::sum, state_->comm, stream.native());
  });
}

void NcclCommunicator::exchange(std::span<const ExchangeMessage> transfers, const gpu::Stream& stream) {
  state_->enqueue("ncclSend and ncclRecv", [&](const api::NcclFunctions& t) {
    api::Result worst = t.ncclGroupStart();
    const auto note = [&](api::Result result) {
      if (worst == api::success || worst == api::in_progress) worst = result;
    };
    for (const ExchangeMessage& transfer : transfers) {
      const auto size = size_of(transfer.size);
      note(transfer.direction == ExchangeMessage::Direction::send
               ? t.ncclSend(transfer.at.address, size, api::uint8, transfer.peer, state_->comm, stream.native())
               : t.ncclRecv(transfer.at.address, size, api::uint8, transfer.peer, state_->comm, stream.native()));
    }
    note(t.ncclGroupEnd());
    return worst;
  });
}

std::string NcclCommunicator::failure() const {
  api::Result now_is = api::success;
  const api::Result asked = state_->within("ncclCommGetAsyncError", State::Phase::ready,
                                           [&](const api::NcclFunctions& t) { return t.ncclCommGetAsyncError(state_->comm, &now_is); });
  const api::Result told = asked == api::success ? now_is : asked;
  return told == api::success || told == api::in_progress ? "" : table().ncclGetErrorString(told);
}

bool NcclCommunicator::done(const gpu::Event& event) const {
  if (event.done()) return true;
  if (const std::string why = failure(); !why.empty()) state_->fail("an operation", ErrorKind::communication, why);
  return false;
}

void NcclCommunicator::await(const gpu::Event& event, Seconds limit) const {
  if (!poll([&] { return done(event); }, limit)) state_->overdue("an operation", limit);
}

void NcclCommunicator::leave() {
  State& s = *state_;
  s.settle("ncclCommFinalize", State::Phase::ready,
           s.within("ncclCommFinalize", State::Phase::ready, [&](const api::NcclFunctions& t) { return t.ncclCommFinalize(s.comm); }));
  const api::Result result = s.within("ncclCommDestroy", State::Phase::ready, [&](const api::NcclFunctions& t) {
    s.phase = State::Phase::ended;
    return t.ncclCommDestroy(s.comm);
  });
  if (result != api::success) s.fail("ncclCommDestroy", kind_of(result), table().ncclGetErrorString(result));
}

bool abort_all(std::span<const NcclCommunicator> communicators, Seconds limit) noexcept {
  std::vector<api::Comm> comms;
  {
    const std::lock_guard lock{inside()};
    for (const NcclCommunicator& c : communicators)
      if (c.state_->comm && c.state_->phase != NcclCommunicator::State::Phase::ended) {
        comms.push_back(c.state_->comm);
        c.state_->phase = NcclCommunicator::State::Phase::ended;
      }
  }
  return comms.empty() || NcclCommunicator::State::abort(comms, communicators.front().state_->device, limit);
}

bool abort_every(Seconds limit) noexcept {
  std::vector<NcclCommunicator> all;
  {
    const std::lock_guard lock{inside()};
    for (const auto& each : NcclCommunicator::State::living())
      if (auto state = each.lock()) all.push_back(NcclCommunicator{std::move(state)});
  }
  return abort_all(all, limit);
}

}  // namespace flotilla::nccl
