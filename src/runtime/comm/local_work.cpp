#include "local_work.hpp"

#include <algorithm>
#include <vector>

#include "ordered_sum.hpp"

namespace flotilla::comm {
namespace {

class HostWork final : public LocalWork {
 public:
  explicit HostWork(int members) { parts_.reserve(static_cast<std::size_t>(members)); }

  void start_sum(ElementType type, std::byte* sum, const std::byte* others, int members, int mine, std::int64_t count) override {
    type_ = type;
    sum_ = sum;
    left_ = count;
    parts_.clear();
    for (int member = 0; member < members; ++member) {
      parts_.push_back(member == mine ? sum : others);
      if (member != mine) others += count * width();
    }
  }
  void start_copy(std::byte* to, const std::byte* from, Bytes size) override { std::copy_n(from, size.count, to); }

  bool progress() override {
    if (left_ == 0) return true;
    const std::int64_t count = std::min(slice.count / width(), left_);
    ordered_sum(type_, parts_, sum_, count);
    for (const std::byte*& part : parts_) part += count * width();
    sum_ += count * width();
    left_ -= count;
    return left_ == 0;
  }

 private:
  std::int64_t width() const { return element_size(type_).count; }

  ElementType type_ = ElementType::fp32;
  std::vector<const std::byte*> parts_;  // of what is left, by member
  std::byte* sum_ = nullptr;
  std::int64_t left_ = 0;  // elements
};

class DeviceWork final : public LocalWork {
 public:
  DeviceWork(const gpu::DeviceContext& device, gpu::Stream stream, OrderedSum ordered_sum)
      : stream_{std::move(stream)}, done_{device.make_event()}, ordered_sum_{std::move(ordered_sum)} {}

  void start_sum(ElementType type, std::byte* sum, const std::byte* others, int members, int mine, std::int64_t count) override {
    ordered_sum_(type, {sum}, at(others), members, mine, count, stream_);
    end_task();
  }
  void start_copy(std::byte* to, const std::byte* from, Bytes size) override {
    stream_.copy_on_device({to}, at(from), size);
    end_task();
  }
  bool progress() override {
    in_flight_ = in_flight_ && !done_.done();
    return !in_flight_;
  }

 private:
  /// What a stream reads has the type of what it writes.
  static gpu::DevicePointer at(const std::byte* data) { return {const_cast<std::byte*>(data)}; }
  void end_task() {
    stream_.record(done_);
    in_flight_ = true;
  }

  gpu::Stream stream_;
  gpu::Event done_;
  const OrderedSum ordered_sum_;
  bool in_flight_ = false;
};

}  // namespace

MakeLocalWork work_on_host(int members) {
  return [members] { return std::make_unique<HostWork>(members); };
}

MakeLocalWork work_on_device(const gpu::DeviceContext& device, const OrderedSum& ordered_sum) {
  return [device, stream = device.make_stream(true), ordered_sum] { return std::make_unique<DeviceWork>(device, stream, ordered_sum); };
}

}  // namespace flotilla::comm
