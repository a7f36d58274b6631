#include <algorithm>
#include <functional>

#include "device_views.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/base/log.hpp"

namespace flotilla::comm {
namespace {

constexpr Seconds copy_deadline{60};  // of a process's own data, on a machine that is busy elsewhere

/// An operation on data of the host, done on a device: up, there, and down again.
class MirroredOperation final : public PersistentOperation {
 public:
  /// Where it reads and writes on the host, at most `capacity` bytes up, and the device's memory.
  struct Places {
    const std::byte* from;
    std::byte* to;
    Bytes capacity;
    gpu::DeviceBuffer up, down, staging;  ///< `up` and `down` may be the same
    int copies_down = 1;                  ///< of the size that it is started with
  };

  MirroredOperation(const gpu::DeviceContext& device, gpu::Stream stream, Places places, std::unique_ptr<PersistentOperation> on_device)
      : places_{std::move(places)}, stream_{std::move(stream)}, copied_{device.make_event()}, on_device_{std::move(on_device)} {}

  MirroredOperation(const MirroredOperation&) = delete;
  MirroredOperation& operator=(const MirroredOperation&) = delete;
  /// Even of an operation that was given up, what comes back may still be on its way to the host's memory.
  ~MirroredOperation() override {
    if (phase_ == Phase::idle) return;
    try {
      stream_.wait(Seconds{10});
    } catch (const Error& error) {
      log::error(error.what());  // the device hangs: the process will not live long
    }
  }

  /// What is started here reaches the device in the order of the calls, the same on all members: where one exchange fills a device, another
  /// order would be a deadlock. So the copy is waited for, which depends on nobody else.
  void start(Bytes size) override {
    FLOTILLA_ASSERT(phase_ == Phase::idle && size <= places_.capacity, size.count, " bytes: ", describe());
    size_ = size;
    if (size.count > 0) stream_.copy_to_device(places_.up.data(), {places_.from, static_cast<std::size_t>(size.count)});
    stream_.wait(copy_deadline);
    on_device_->start(size);
    phase_ = Phase::there;
  }

  bool progress() override {
    if (phase_ == Phase::there && on_device_->progress()) {
      const auto bytes = static_cast<std::size_t>(places_.copies_down * size_.count);
      if (bytes > 0) stream_.copy_to_host({places_.to, bytes}, places_.down.data());
      stream_.record(copied_);
      phase_ = Phase::down;
    }
    if (phase_ == Phase::down && copied_.done()) phase_ = Phase::idle;
    return phase_ == Phase::idle;
  }

  std::string describe() const override { return on_device_->describe(); }

 private:
  enum class Phase { idle, there, down };

  const Places places_;
  gpu::Stream stream_;
  gpu::Event copied_;
  const std::unique_ptr<PersistentOperation> on_device_;  // after the memory that it uses
  Phase phase_ = Phase::idle;
  Bytes size_;
};

class HostView final : public ProcessGroup {
 public:
  HostView(ProcessGroup& group, const gpu::DeviceContext& device)
      : ProcessGroup{group.value(), group.index()}, group_{group}, device_{device}, stream_{device.make_stream()} {}
  HostView(std::unique_ptr<ProcessGroup> group, const gpu::DeviceContext& device) : HostView{*group, device} { owned_ = std::move(group); }

  std::string describe() const override { return group_.describe(); }

  std::unique_ptr<PersistentOperation> make_all_reduce(std::byte* data, ElementType type, Bytes capacity, std::byte*,
                                                       Bytes staging) override {
    return in_place(data, capacity, staging,
                    [&](std::byte* d, std::byte* s) { return group_.make_all_reduce(d, type, capacity, s, staging); });
  }
  std::unique_ptr<PersistentOperation> make_reduce_scatter(std::byte* data, ElementType type, Bytes unit, Bytes capacity, std::byte*,
                                                           Bytes staging) override {
    return in_place(data, capacity, staging,
                    [&](std::byte* d, std::byte* s) { return group_.make_reduce_scatter(d, type, unit, capacity, s, staging); });
  }
  std::unique_ptr<PersistentOperation> make_reduce_scatter_shards(std::byte* data, ElementType type, Bytes capacity, std::byte*,
                                                                  Bytes staging) override {
    return in_place(data, capacity, staging,
                    [&](std::byte* d, std::byte* s) { return group_.make_reduce_scatter_shards(d, type, capacity, s, staging); });
  }
  std::unique_ptr<PersistentOperation> make_all_gather_shards(std::byte* data, Bytes element, Bytes capacity) override {
    return in_place(data, capacity, {}, [&](std::byte* d, std::byte*) { return group_.make_all_gather_shards(d, element, capacity); });
  }
  std::unique_ptr<PersistentOperation> make_gather_pieces(std::byte* data, Bytes unit, Bytes capacity) override {
    return in_place(data, capacity, {}, [&](std::byte* d, std::byte*) { return group_.make_gather_pieces(d, unit, capacity); });
  }
  std::unique_ptr<PersistentOperation> make_all_gather(const std::byte* mine, std::byte* all, Bytes capacity) override {
    const auto one = arena(capacity), of_all = arena(size() * capacity);
    return std::make_unique<MirroredOperation>(device_, stream_, MirroredOperation::Places{mine, all, capacity, one, of_all, {}, size()},
                                               group_.make_all_gather(one.data().address, of_all.data().address, capacity));
  }

 private:
  using Make = std::function<std::unique_ptr<PersistentOperation>(std::byte* data, std::byte* staging)>;

  std::unique_ptr<PersistentOperation> in_place(std::byte* data, Bytes capacity, Bytes staging_size, const Make& make) {
    const auto memory = arena(capacity), staging = arena(staging_size);
    return std::make_unique<MirroredOperation>(device_, stream_,
                                               MirroredOperation::Places{data, data, capacity, memory, memory, staging, 1},
                                               make(memory.data().address, staging.data().address));
  }
  gpu::DeviceBuffer arena(Bytes size) const { return device_.make_buffer(std::max(size, Bytes{1})); }

  std::unique_ptr<ProcessGroup> owned_;
  ProcessGroup& group_;
  const gpu::DeviceContext& device_;
  gpu::Stream stream_;
};

}  // namespace

std::unique_ptr<ProcessGroup> make_host_view(ProcessGroup& group, const gpu::DeviceContext& device) {
  return std::make_unique<HostView>(group, device);
}

std::unique_ptr<ProcessGroup> make_host_view(const World& world, DeviceGroup& group, const gpu::DeviceContext& device) {
  return std::make_unique<HostView>(make_enqueued_group(world, group, device), device);
}

}  // namespace flotilla::comm
