#include <utility>

#include "device_views.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/base/log.hpp"
#include "group_text.hpp"

namespace flotilla::comm {
namespace {

/// What is enqueued as a whole; done when its stream has come past it.
class EnqueuedOperation final : public PersistentOperation {
 public:
  using Enqueue = std::function<void(Bytes size, const gpu::Stream&)>;

  EnqueuedOperation(DeviceGroup& group, const gpu::DeviceContext& device, gpu::Stream stream, std::string what, Bytes capacity,
                    Enqueue enqueue)
      : group_{group},
        what_{std::move(what)},
        capacity_{capacity},
        enqueue_{std::move(enqueue)},
        stream_{std::move(stream)},
        done_{device.make_event()} {}
  EnqueuedOperation(const EnqueuedOperation&) = delete;
  EnqueuedOperation& operator=(const EnqueuedOperation&) = delete;
  /// Even of an operation that was given up, the device may still use the buffers.
  ~EnqueuedOperation() override {
    if (!in_flight_) return;
    try {
      stream_.wait(Seconds{10});
    } catch (const Error& error) {
      log::error(error.what());  // the device hangs: the process will not live long
    }
  }

  void start(Bytes size) override {
    FLOTILLA_ASSERT(size <= capacity_, size.count, " bytes: ", describe());
    enqueue_(size, stream_);
    stream_.record(done_);
    in_flight_ = true;
  }
  bool progress() override {
    in_flight_ = in_flight_ && !group_.communicator().done(done_);
    return !in_flight_;
  }
  std::string describe() const override { return what_; }

 private:
  DeviceGroup& group_;
  const std::string what_;
  const Bytes capacity_;
  const Enqueue enqueue_;
  gpu::Stream stream_;
  gpu::Event done_;
  bool in_flight_ = false;
};

class EnqueuedGroup final : public ProcessGroup {
 public:
  EnqueuedGroup(const World& world, DeviceGroup& group, const gpu::DeviceContext& device)
      : ProcessGroup{group.value(), group.index()}, world_{world}, group_{group}, device_{device}, stream_{device.make_stream()} {}

  std::string describe() const override { return comm::describe(world_, value()); }

  std::unique_ptr<PersistentOperation> make_all_reduce(std::byte* data, ElementType type, Bytes capacity, std::byte* staging,
                                                       Bytes) override {
    return make("all-reduce", capacity,
                [=, this](Bytes size, const gpu::Stream& stream) { group_.all_reduce({data}, type, size, {staging}, stream); });
  }
  std::unique_ptr<PersistentOperation> make_reduce_scatter(std::byte* data, ElementType type, Bytes unit, Bytes capacity,
                                                           std::byte* staging, Bytes) override {
    return make("reduce-scatter", capacity,
                [=, this](Bytes size, const gpu::Stream& stream) { group_.reduce_scatter({data}, type, unit, size, {staging}, stream); });
  }
  std::unique_ptr<PersistentOperation> make_reduce_scatter_shards(std::byte* data, ElementType type, Bytes capacity, std::byte* staging,
                                                                  Bytes) override {
    return make("reduce-scatter", capacity,
                [=, this](Bytes size, const gpu::Stream& stream) { group_.reduce_scatter_shards({data}, type, size, {staging}, stream); });
  }
  std::unique_ptr<PersistentOperation> make_all_gather_shards(std::byte* data, Bytes element, Bytes capacity) override {
    return make("gather of shares", capacity,
                [=, this](Bytes size, const gpu::Stream& stream) { group_.all_gather_shards({data}, element, size, stream); });
  }
  std::unique_ptr<PersistentOperation> make_gather_pieces(std::byte* data, Bytes unit, Bytes capacity) override {
    return make("gather", capacity, [=, this](Bytes size, const gpu::Stream& stream) { group_.gather_pieces({data}, unit, size, stream); });
  }
  std::unique_ptr<PersistentOperation> make_all_gather(const std::byte* mine, std::byte* all, Bytes capacity) override {
    auto* const from = const_cast<std::byte*>(mine);  // a device's place, which is only read
    return make("all-gather", capacity, [=, this](Bytes size, gpu::Stream stream) {
      stream.copy_on_device({all + index() * size.count}, {from}, size);
      group_.all_gather({all}, size, stream);
    });
  }

 private:
  std::unique_ptr<PersistentOperation> make(const char* what, Bytes capacity, EnqueuedOperation::Enqueue enqueue) {
    return std::make_unique<EnqueuedOperation>(group_, device_, stream_, text(what, " by NCCL over the ", describe()), capacity,
                                               std::move(enqueue));
  }

  const World& world_;
  DeviceGroup& group_;
  const gpu::DeviceContext& device_;
  gpu::Stream stream_;
};

}  // namespace

std::unique_ptr<ProcessGroup> make_enqueued_group(const World& world, DeviceGroup& group, const gpu::DeviceContext& device) {
  return std::make_unique<EnqueuedGroup>(world, group, device);
}

}  // namespace flotilla::comm
