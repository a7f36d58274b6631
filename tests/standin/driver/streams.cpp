#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "standin.hpp"

namespace flotilla::standin {
namespace {

std::mutex registry_mutex;
std::map<const void*, std::shared_ptr<StreamImpl>> registry;
/// Destroyed, perhaps with work that is still to be done.
std::vector<std::weak_ptr<StreamImpl>> retired;
/// What streams were given since the process began. It orders nothing.
std::atomic<std::int64_t> enqueued{0};

}  // namespace

bool reached(const std::atomic<std::uint64_t>& count, std::uint64_t goal) {
  return count.load(std::memory_order_relaxed) >= goal && count.load(std::memory_order_acquire) >= goal;
}

namespace {

void wait_for(const std::atomic<std::uint64_t>& count, std::uint64_t goal) {
  using namespace std::chrono_literals;
  for (auto pause = 5us; !reached(count, goal) && stuck() == api::success; pause = std::min(2 * pause, 200us))
    std::this_thread::sleep_for(pause);
}

}  // namespace

StreamImpl::StreamImpl(int of) : device{of}, last_{new Node}, first_{last_}, wake_{eventfd(0, EFD_SEMAPHORE)} {}

StreamImpl::~StreamImpl() {
  close(wake_);
  delete first_;
}

std::shared_ptr<StreamImpl> make_stream(int device) {
  auto stream = std::make_shared<StreamImpl>(device);
  std::thread{&StreamImpl::run, stream}.detach();
  const std::lock_guard lock{registry_mutex};
  registry[stream.get()] = stream;
  return stream;
}

std::shared_ptr<StreamImpl> find_stream(api::Stream handle) {
  const std::lock_guard lock{registry_mutex};
  const auto found = registry.find(handle);
  return found == registry.end() ? nullptr : found->second;
}

void StreamImpl::retire(std::shared_ptr<StreamImpl> stream) {
  {
    const std::lock_guard lock{registry_mutex};
    registry.erase(stream.get());
    retired.push_back(stream);
  }
  const std::lock_guard lock{stream->host_mutex_};
  stream->push({});
}

void StreamImpl::run(std::shared_ptr<StreamImpl> self) {
  for (Node* node = self->first_;;) {
    std::uint64_t one = 0;
    if (read(self->wake_, &one, sizeof one) != sizeof one) continue;
    Node* next = node->next.load(std::memory_order_acquire);
    delete node;
    self->first_ = node = next;
    if (!node->work) return;
    delay();
    if (stuck() == api::success) node->work();
    node->work = nullptr;
    self->done_.fetch_add(1, std::memory_order_release);
  }
}

void StreamImpl::push(Work work) {
  auto* node = new Node{std::move(work)};
  last_->next.store(node, std::memory_order_release);
  last_ = node;
  const std::uint64_t one = 1;
  while (write(wake_, &one, sizeof one) != sizeof one) {
  }
}

void StreamImpl::add(Work work) {
  enqueued.fetch_add(1, std::memory_order_relaxed);
  const std::lock_guard lock{host_mutex_};
  if (capture_) return capture_->push_back(std::move(work));
  ++pushed_;
  push(std::move(work));
}

bool StreamImpl::idle() {
  const std::lock_guard lock{host_mutex_};
  return reached(done_, pushed_);
}

void StreamImpl::drain() {
  std::uint64_t goal = 0;
  {
    const std::lock_guard lock{host_mutex_};
    goal = pushed_;
  }
  using namespace std::chrono_literals;
  while (!reached(done_, goal)) std::this_thread::sleep_for(20us);  // after an error, too, what runs has to end
}

bool StreamImpl::begin_capture() {
  const std::lock_guard lock{host_mutex_};
  if (capture_) return false;
  capture_.emplace();
  return true;
}

std::optional<std::vector<Work>> StreamImpl::end_capture() {
  const std::lock_guard lock{host_mutex_};
  return std::exchange(capture_, std::nullopt);
}

bool StreamImpl::capturing() {
  const std::lock_guard lock{host_mutex_};
  return capture_.has_value();
}

void drain_all() {
  std::vector<std::shared_ptr<StreamImpl>> all;
  {
    const std::lock_guard lock{registry_mutex};
    for (const auto& [handle, stream] : registry) all.push_back(stream);
    for (const auto& each : retired)
      if (auto stream = each.lock()) all.push_back(std::move(stream));
  }
  for (const auto& stream : all) stream->drain();
}

/// Tests count kernels, products, copies and events by this.
extern "C" __attribute__((visibility("default"))) std::int64_t flotilla_standin_enqueued() {
  return enqueued.load(std::memory_order_relaxed);
}

/// Stand-ins of libraries enqueue their work by this.
extern "C" __attribute__((visibility("default"))) bool flotilla_standin_enqueue(void* stream, void (*function)(void*), void* argument) {
  const auto found = find_stream(static_cast<api::Stream>(stream));
  if (found) found->add([=] { function(argument); });
  return found != nullptr;
}

namespace {

struct GraphImpl {
  std::vector<Work> nodes;
};

Result copy(void* to, const void* from, std::size_t size, bool to_device, bool from_device, api::Stream handle) {
  const auto stream = find_stream(handle);
  if (!stream) return api::invalid_value;
  if (const Result failed = fault(Kind::copy)) return failed;
  if (to_device != is_device(to) || from_device != is_device(from)) return api::invalid_value;
  if ((to_device && !allocated(to, size)) || (from_device && !allocated(from, size))) return api::invalid_value;
  stream->add([=] { std::memcpy(host_view(to), host_view(from), size); });
  return api::success;
}

void* place(api::Address address) { return reinterpret_cast<void*>(address); }
EventImpl* impl(api::Event event) { return reinterpret_cast<EventImpl*>(event); }

}  // namespace
}  // namespace flotilla::standin

namespace flotilla::gpu::driver {

using namespace standin;

Result cuMemcpyHtoDAsync_v2(Address to, const void* from, std::size_t size, Stream stream) {
  return copy(place(to), from, size, true, false, stream);
}
Result cuMemcpyDtoHAsync_v2(void* to, Address from, std::size_t size, Stream stream) {
  static const int wrong = std::atoi(setting("FLOTILLA_STANDIN_WRONG", "-1").c_str());
  const Result result = copy(to, place(from), size, false, true, stream);
  if (result == success && wrong == device_of(place(from))) find_stream(stream)->add([to] { *static_cast<unsigned char*>(to) ^= 1; });
  return result;
}
Result cuMemcpyDtoDAsync_v2(Address to, Address from, std::size_t size, Stream stream) {
  return copy(place(to), place(from), size, true, true, stream);
}

Result cuMemcpy2DAsync_v2(const RowsCopy* c, Stream handle) {
  const auto stream = find_stream(handle);
  if (!stream || c->from_type != memory_type_device || c->to_type != memory_type_device) return invalid_value;
  if (c->width > c->from_pitch || c->width > c->to_pitch) return invalid_value;
  const auto reach = [&](std::size_t pitch) { return (c->rows - 1) * pitch + c->width; };
  if (!allocated(place(c->to), reach(c->to_pitch)) || !allocated(place(c->from), reach(c->from_pitch))) return invalid_value;
  if (const Result failed = fault(Kind::copy)) return failed;
  stream->add([copy = *c] {
    for (std::size_t row = 0; row < copy.rows; ++row)
      std::memcpy(host_view(place(copy.to + row * copy.to_pitch)), host_view(place(copy.from + row * copy.from_pitch)), copy.width);
  });
  return success;
}

Result cuMemsetD8Async(Address at, unsigned char value, std::size_t size, Stream handle) {
  const auto stream = find_stream(handle);
  if (!stream || !allocated(place(at), size)) return invalid_value;
  if (const Result failed = fault(Kind::copy)) return failed;
  stream->add([=] { std::memset(host_view(place(at)), value, size); });
  return success;
}

Result cuStreamCreateWithPriority(Stream* handle, unsigned flags, int) {
  if (current_device() < 0) return invalid_context;
  if (flags != stream_non_blocking) return not_supported;
  *handle = reinterpret_cast<Stream>(make_stream(current_device()).get());
  return success;
}

/// Returns at once, as documented; what was enqueued is still done.
Result cuStreamDestroy_v2(Stream handle) {
  auto stream = find_stream(handle);
  if (!stream) return invalid_value;
  StreamImpl::retire(std::move(stream));
  return success;
}

Result cuStreamQuery(Stream handle) {
  const auto stream = find_stream(handle);
  if (!stream) return invalid_value;
  if (const Result failed = fault(Kind::query)) return failed;
  if (stream->capturing()) return capture_invalidated;
  return stream->idle() ? success : not_ready;
}

Result cuLaunchHostFunc(Stream handle, HostFunction function, void* argument) {
  const auto stream = find_stream(handle);
  if (!stream) return invalid_value;
  stream->add([=] { function(argument); });
  return success;
}

Result cuEventCreate(Event* event, unsigned) {
  if (current_device() < 0) return invalid_context;
  auto* made = new EventImpl;
  made->forgotten = happens(Kind::forget);
  *event = reinterpret_cast<Event>(made);
  return success;
}

/// The object stays for ever: streams may still come to it, also while the process ends and destroys its statics.
Result cuEventDestroy_v2(Event event) {
  static std::mutex mutex;
  static auto& gone = *new std::vector<std::unique_ptr<EventImpl>>;
  const std::lock_guard lock{mutex};
  gone.emplace_back(impl(event));
  return success;
}

Result cuEventRecord(Event event, Stream handle) {
  const auto stream = find_stream(handle);
  if (!stream) return invalid_value;
  EventImpl* e = impl(event);
  const std::uint64_t nth = e->recorded.fetch_add(1, std::memory_order_relaxed) + 1;
  stream->add([=] {
    e->at = std::chrono::steady_clock::now();
    e->done.store(nth, std::memory_order_release);
  });
  return success;
}

Result cuStreamWaitEvent(Stream handle, Event event, unsigned) {
  const auto stream = find_stream(handle);
  if (!stream) return invalid_value;
  EventImpl* e = impl(event);
  const std::uint64_t nth = e->recorded.load(std::memory_order_relaxed);
  if (e->forgotten) return success;
  stream->add([=] { wait_for(e->done, nth); });
  return success;
}

Result cuEventQuery(Event event) {
  if (const Result failed = fault(Kind::query)) return failed;
  EventImpl* e = impl(event);
  return reached(e->done, e->recorded.load(std::memory_order_relaxed)) ? success : not_ready;
}

Result cuEventElapsedTime(float* milliseconds, Event start, Event end) {
  *milliseconds = std::chrono::duration<float, std::milli>(impl(end)->at - impl(start)->at).count();
  return success;
}

Result cuStreamBeginCapture_v2(Stream handle, int) {
  const auto stream = find_stream(handle);
  return stream && stream->begin_capture() ? success : invalid_value;
}

Result cuStreamEndCapture(Stream handle, Graph* graph) {
  const auto stream = find_stream(handle);
  auto nodes = stream ? stream->end_capture() : std::nullopt;
  if (!nodes) return invalid_value;
  *graph = reinterpret_cast<Graph>(new GraphImpl{std::move(*nodes)});
  return success;
}

Result cuGraphInstantiateWithFlags(GraphExec* executable, Graph graph, unsigned long long) {
  *executable = reinterpret_cast<GraphExec>(new GraphImpl{*reinterpret_cast<GraphImpl*>(graph)});
  return success;
}

Result cuGraphLaunch(GraphExec executable, Stream handle) {
  const auto stream = find_stream(handle);
  if (!stream) return invalid_value;
  for (const Work& node : reinterpret_cast<GraphImpl*>(executable)->nodes) stream->add(node);
  return success;
}

Result cuGraphDestroy(Graph graph) {
  delete reinterpret_cast<GraphImpl*>(graph);
  return success;
}

Result cuGraphExecDestroy(GraphExec executable) {
  delete reinterpret_cast<GraphImpl*>(executable);
  return success;
}

}  // namespace flotilla::gpu::driver
