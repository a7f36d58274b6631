#include <algorithm>

#include "flotilla/base/error.hpp"
#include "flotilla/base/log.hpp"
#include "flotilla/comm/device_group.hpp"
#include "group_text.hpp"

namespace flotilla::comm {
namespace {

/// An operation of at most `capacity` bytes on the host, done on the device.
class MirroredOperation final : public Operation {
 public:
  /// What is uploaded, what is enqueued on the device and what is downloaded, of an operation of `size` bytes.
  struct Work {
    std::function<Bytes(Bytes size)> up_to = [](Bytes) { return Bytes{}; };   ///< where the upload begins on the device
    std::function<Bytes(Bytes size)> down = [](Bytes size) { return size; };  ///< how many bytes come back
    std::function<void(gpu::DevicePointer data, gpu::DevicePointer staging, Bytes size, const gpu::Stream&)> enqueue;
  };

  MirroredOperation(DeviceGroup& group, const gpu::Device& device, const gpu::Stream& stream, std::string what, const std::byte* from,
                    std::byte* to, Bytes capacity, Bytes on_device, Bytes staging, Work work)
      : group_{group},
        what_{std::move(what)},
        from_{from},
        to_{to},
        capacity_{capacity},
        work_{std::move(work)},
        stream_{stream},
        done_{device.make_event()},
        data_{device.make_arena(max(on_device, Bytes{1}))},
        staging_{device.make_arena(max(staging, Bytes{1}))} {}

  MirroredOperation(const MirroredOperation&) = delete;
  MirroredOperation& operator=(const MirroredOperation&) = delete;
  /// Even of an operation that was given up, what comes back may still be on its way to the host's memory.
  ~MirroredOperation() override {
    if (!in_flight_) return;
    try {
      stream_.wait(Seconds{10});
    } catch (const Error& error) {
      log::error(error.what());  // the device hangs: the process will not live long
    }
  }

  void start(Bytes size) override {
    FLOTILLA_ASSERT(size <= capacity_, size.count, " bytes: ", describe());
    const auto up = static_cast<std::size_t>(size.count), down = static_cast<std::size_t>(work_.down(size).count);
    if (up > 0) stream_.copy_to_device(data_.data() + work_.up_to(size).count, {from_, up});
    work_.enqueue(data_.data(), staging_.data(), size, stream_);
    if (down > 0) stream_.copy_to_host({to_, down}, data_.data());
    stream_.record(done_);
    in_flight_ = true;
  }

  bool progress() override {
    in_flight_ = in_flight_ && !group_.communicator().done(done_);
    return !in_flight_;
  }

  std::string describe() const override { return what_; }

 private:
  static Bytes max(Bytes a, Bytes b) { return a < b ? b : a; }

  DeviceGroup& group_;
  std::string what_;
  const std::byte* from_;
  std::byte* to_;
  Bytes capacity_;
  Work work_;
  gpu::Stream stream_;
  gpu::Event done_;
  gpu::Arena data_, staging_;
  bool in_flight_ = false;
};

class HostView final : public Group {
 public:
  HostView(const World& world, DeviceGroup& group, const gpu::Device& device)
      : Group{group.value(), group.index()}, world_{world}, group_{group}, device_{device}, stream_{device.make_stream()} {}

  std::string describe() const override { return comm::describe(world_, value()); }

  std::unique_ptr<Operation> make_all_reduce(std::byte* data, ElementType type, Bytes capacity, std::byte*, Bytes staging) override {
    return in_place("all-reduce", data, capacity, staging,
                    [this, type](auto d, auto s, Bytes size, const gpu::Stream& stream) { group_.all_reduce(d, type, size, s, stream); });
  }

  std::unique_ptr<Operation> make_reduce_scatter(std::byte* data, ElementType type, Bytes unit, Bytes capacity, std::byte*,
                                                 Bytes staging) override {
    return in_place("reduce-scatter", data, capacity, staging, [this, type, unit](auto d, auto s, Bytes size, const gpu::Stream& stream) {
      group_.reduce_scatter(d, type, unit, size, s, stream);
    });
  }

  std::unique_ptr<Operation> make_reduce_scatter_shards(std::byte* data, ElementType type, Bytes capacity, std::byte*,
                                                        Bytes staging) override {
    return in_place("reduce-scatter", data, capacity, staging, [this, type](auto d, auto s, Bytes size, const gpu::Stream& stream) {
      group_.reduce_scatter_shards(d, type, size, s, stream);
    });
  }

  std::unique_ptr<Operation> make_all_gather_shards(std::byte* data, Bytes element, Bytes capacity) override {
    return in_place("gather of shares", data, capacity, {}, [this, element](auto d, auto, Bytes size, const gpu::Stream& stream) {
      group_.all_gather_shards(d, element, size, stream);
    });
  }

  std::unique_ptr<Operation> make_gather_pieces(std::byte* data, Bytes unit, Bytes capacity) override {
    return in_place("gather", data, capacity, {},
                    [this, unit](auto d, auto, Bytes size, const gpu::Stream& stream) { group_.gather_pieces(d, unit, size, stream); });
  }

  std::unique_ptr<Operation> make_all_gather(const std::byte* mine, std::byte* all, Bytes capacity) override {
    MirroredOperation::Work work;
    work.up_to = [this](Bytes size) { return index() * size; };
    work.down = [this](Bytes size) { return this->size() * size; };
    work.enqueue = [this](auto d, auto, Bytes size, const gpu::Stream& stream) { group_.all_gather(d, size, stream); };
    return make("all-gather", mine, all, capacity, this->size() * capacity, {}, std::move(work));
  }

 private:
  template <class Enqueue>
  std::unique_ptr<Operation> in_place(const char* what, std::byte* data, Bytes capacity, Bytes staging, Enqueue enqueue) {
    MirroredOperation::Work work;
    work.enqueue = std::move(enqueue);
    return make(what, data, data, capacity, capacity, staging, std::move(work));
  }

  std::unique_ptr<Operation> make(const char* what, const std::byte* from, std::byte* to, Bytes capacity, Bytes on_device, Bytes staging,
                                  MirroredOperation::Work work) {
    return std::make_unique<MirroredOperation>(group_, device_, stream_, text(what, " by NCCL over the ", describe()), from, to, capacity,
                                               on_device, staging, std::move(work));
  }

  const World& world_;
  DeviceGroup& group_;
  const gpu::Device& device_;
  gpu::Stream stream_;
};

}  // namespace

std::unique_ptr<Group> make_host_view(const World& world, DeviceGroup& group, const gpu::Device& device) {
  return std::make_unique<HostView>(world, group, device);
}

}  // namespace flotilla::comm
