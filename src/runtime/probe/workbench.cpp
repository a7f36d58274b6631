#include "workbench.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "flotilla/base/error.hpp"

namespace flotilla::probe {
namespace {

constexpr Seconds longest_wait{600};  // for a device's work: its operations may be as long as a step of training

std::optional<gpu::DeviceContext> open(const compute::ComputeDevice& device) {
  if (device.kind == cluster::DeviceKind::cpu) return {};
  return gpu::DeviceContext::open(device.ordinal);
}

}  // namespace

Pages::Pages(Bytes size) : size_{static_cast<std::size_t>(std::max<std::int64_t>(1, size.count))} {
  void* pages = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  FLOTILLA_REQUIRE(pages != MAP_FAILED, ErrorKind::unavailable, "the probe cannot get ", size, " of memory: ", std::strerror(errno));
  data_ = static_cast<std::byte*>(pages);
  madvise(pages, size_, MADV_HUGEPAGE);
}

Pages::~Pages() { munmap(data_, size_); }

DeviceMemory::DeviceMemory(const gpu::DeviceContext* gpu, Bytes size) {
  if (gpu != nullptr)
    on_gpu_ = gpu->make_buffer(Bytes{std::max<std::int64_t>(1, size.count)});
  else
    pages_.emplace(size);
}

std::byte* DeviceMemory::data() const { return pages_ ? pages_->data() : on_gpu_.data().address; }

std::byte* TakenInTurns::take(const gpu::DeviceContext& gpu, Bytes size) {
  if (memory_.size() < size) {
    memory_ = {};  // before the larger one is taken: both may not fit
    memory_ = gpu.make_buffer(size);
  }
  return memory_.data().address;
}

Workbench::Workbench(const compute::Setup& setup) : gpu_{open(setup.device)}, backend_{compute::make_backend(setup)} {}

void Workbench::put(std::byte* to, std::span<const std::byte> values) {
  if (values.empty()) return;
  if (!gpu_) {
    std::memcpy(to, values.data(), values.size());
    return;
  }
  backend_->stream()->copy_to_device({to}, values);
  backend_->stream()->wait(longest_wait);
}

void Workbench::repeat(std::byte* at, std::int64_t filled, std::int64_t total) {
  for (std::int64_t next = 0; filled < total; filled += next) {
    next = std::min(filled, total - filled);
    backend_->copy(at + filled, at, {.width = next});
  }
}

void Workbench::wait() const {
  if (gpu_) backend_->stream()->wait(longest_wait);
}

std::span<const std::byte> Workbench::get(const std::byte* from, std::size_t size) {
  if (!gpu_) return {from, size};
  copied_.resize(size);
  backend_->stream()->copy_to_host(copied_, {const_cast<std::byte*>(from)});
  backend_->stream()->wait(longest_wait);
  return copied_;
}

std::optional<Bytes> Workbench::free_memory() const { return gpu_ ? std::optional{gpu_->free_memory()} : std::nullopt; }

void Workbench::start(Clock clock) {
  clock_ = clock;
  if (!gpu_) {
    started_ = clock_();
    return;
  }
  if (recorded_ > 0) return;
  if (events_.empty()) events_.push_back(gpu_->make_event(true));
  backend_->stream()->record(events_[recorded_++]);
}

void Workbench::stop() {
  if (!gpu_) {
    times_.push_back(clock_() - started_);
    return;
  }
  if (events_.size() == recorded_) events_.push_back(gpu_->make_event(true));
  backend_->stream()->record(events_[recorded_++]);
}

std::vector<Seconds> Workbench::times() {
  if (recorded_ > 0) events_[recorded_ - 1].wait(longest_wait);
  for (std::size_t i = 1; i < recorded_; ++i) times_.push_back(gpu::Event::between(events_[i - 1], events_[i]));
  recorded_ = 0;
  return std::exchange(times_, {});
}

}  // namespace flotilla::probe
