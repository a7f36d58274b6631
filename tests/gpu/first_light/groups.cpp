#include "groups.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "device.hpp"
#include "flotilla/nccl/communicator.hpp"
#include "flotilla/nccl/library.hpp"

namespace flotilla::first_light {
namespace {

constexpr int runs = 20;        // sums in place grow with each and stay finite
constexpr int left_behind = 3;  // seconds
constexpr Seconds to_give_up{10};

/// A collective over buffers of `count` floats, and the factor of nccl-tests from size / time to what the links carry.
struct Collective {
  const char* name;
  double bus_factor;
  std::function<void(nccl::NcclCommunicator&, gpu::DevicePointer, gpu::DevicePointer, std::int64_t, const gpu::Stream&)> enqueue;
  std::function<float(int devices, int index)> first_value;  ///< of the result, where member i gives i + 1 everywhere
};

void to_the_next(nccl::NcclCommunicator& c, gpu::DevicePointer from, gpu::DevicePointer to, std::int64_t count, const gpu::Stream& stream) {
  const Bytes size{count * 4};
  const nccl::ExchangeMessage both[] = {{nccl::ExchangeMessage::Direction::send, (c.index() + 1) % c.size(), from, size},
                                        {nccl::ExchangeMessage::Direction::receive, (c.index() + c.size() - 1) % c.size(), to, size}};
  c.exchange(both, stream);
}

std::vector<Collective> collectives(int devices) {
  const double n = devices;
  const auto sum = [](int members, int) { return static_cast<float>(members * (members + 1)) / 2; };
  return {
      {"all_reduce", 2 * (n - 1) / n,
       [](auto& c, auto, auto to, auto count, auto& stream) { c.all_reduce(to, ElementType::fp32, count, stream); }, sum},
      {"reduce_scatter", (n - 1) / n,
       [](auto& c, auto from, auto to, auto count, auto& stream) {
         c.reduce_scatter(from, to, ElementType::fp32, count / c.size(), stream);
       },
       sum},
      {"all_gather", (n - 1) / n,
       [](auto& c, auto from, auto to, auto count, auto& stream) { c.all_gather(from, to, {count / c.size() * 4}, stream); },
       [](int, int) { return 1.0f; }},
      {"send_receive", 1, to_the_next, [](int members, int index) { return static_cast<float>((index + members - 1) % members + 1); }},
  };
}

/// One member, in a process of its own.
class Member {
 public:
  Member(const nccl::UniqueId& id, int devices, int index)
      : devices_{devices}, index_{index}, communicator_{nccl::NcclCommunicator::join(device_, id, devices, index, "all GPUs", limit)} {
    communicator_.await_ready();
  }

  /// False after a wrong answer.
  bool measure(const Collective& collective, Bytes size) {
    const std::int64_t count = size.count / 4;
    const auto memory = device_.make_buffer(size * 2);
    const auto from = memory.data(), to = from + size.count;
    const std::vector<float> mine(static_cast<std::size_t>(count), static_cast<float>(index_ + 1));
    stream_.copy_to_device(from, std::as_bytes(std::span{mine}));
    stream_.copy_to_device(to, std::as_bytes(std::span{mine}));
    collective.enqueue(communicator_, from, to, count, stream_);
    float first = 0;
    stream_.copy_to_host(std::as_writable_bytes(std::span{&first, 1}), to);
    await();
    stream_.record(start_);
    for (int run = 0; run < runs; ++run) collective.enqueue(communicator_, from, to, count, stream_);
    const double seconds = await().value / runs;
    const bool right = first == collective.first_value(devices_, index_);
    if (index_ == 0) report(collective, size, seconds);
    if (!right)
      std::fprintf(stderr, "WRONG %s of %lld bytes on GPU %d: %g\n", collective.name, static_cast<long long>(size.count), index_, first);
    return right;
  }

  /// The last member does not take part in a sum; the others must get away.
  bool gives_up(Bytes size) {
    if (index_ + 1 == devices_) return ::sleep(left_behind), true;
    const auto memory = device_.make_buffer(size);
    communicator_.all_reduce(memory.data(), ElementType::fp32, size.count / 4, stream_);
    ::sleep(1);
    const auto start = std::chrono::steady_clock::now();
    const bool left = nccl::abort_all({&communicator_, 1}, to_give_up);
    const double took = std::chrono::duration<double>{std::chrono::steady_clock::now() - start}.count();
    if (index_ == 0)
      std::printf("{\"group\": \"abort\", \"devices\": %d, \"done\": %s, \"seconds\": %.3e}\n", devices_, left ? "true" : "false", took);
    return left;
  }

 private:
  Seconds await() {
    stream_.record(end_);
    communicator_.await(end_, limit);
    return timed_ ? gpu::Event::between(start_, end_) : (timed_ = true, Seconds{});
  }
  void report(const Collective& collective, Bytes size, double seconds) const {
    const double algorithm = static_cast<double>(size.count) / seconds;
    std::printf(
        "{\"group\": \"%s\", \"devices\": %d, \"bytes\": %lld, \"seconds\": %.3e, \"algorithm_bandwidth\": %.3e, \"bus_bandwidth\": "
        "%.3e}\n",
        collective.name, devices_, static_cast<long long>(size.count), seconds, algorithm, algorithm * collective.bus_factor);
  }

  const int devices_, index_;
  gpu::DeviceContext device_ = gpu::DeviceContext::open(index_);
  gpu::Stream stream_ = device_.make_stream();
  gpu::Event start_ = device_.make_event(true), end_ = device_.make_event(true);
  bool timed_ = false;  ///< start_ was recorded before
  nccl::NcclCommunicator communicator_;
};

int live(const nccl::UniqueId& id, int devices, int index, bool tiny) {
  const std::int64_t unit = std::int64_t{devices} * 64;
  std::vector<Bytes> sizes;
  for (const std::int64_t kibibytes : tiny ? std::vector<std::int64_t>{16, 256} : std::vector<std::int64_t>{64, 1024, 16384, 262144})
    sizes.push_back({kibibytes * 1024 / unit * unit});
  bool right = true;
  try {
    Member member{id, devices, index};
    for (const auto& collective : collectives(devices))
      for (const Bytes size : sizes) right = member.measure(collective, size) && right;
    if (devices > 1) right = member.gives_up(sizes.back()) && right;
  } catch (const Error& error) {
    std::fprintf(stderr, "GPU %d: %s\n", index, error.what());
    right = false;
  }
  std::fflush(stdout);
  std::_Exit(right ? 0 : 1);
}

/// In a process of its own: a driver does not survive a fork.
int visible_devices() {
  const pid_t child = fork();
  if (child == 0) std::_Exit(static_cast<int>(std::min<std::size_t>(gpu::presence().devices.size(), 64)));
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 0;
}

}  // namespace

int measure_groups(bool tiny) {
  const int devices = visible_devices();
  const auto nccl = nccl::presence();
  if (!nccl.any()) return std::printf("{\"group\": \"none\", \"why\": \"%s\"}\n", nccl.why_none.c_str()), 0;
  const auto id = nccl::make_unique_id();
  std::vector<pid_t> members;
  std::fflush(stdout);
  for (int index = 0; index < devices; ++index) {
    members.push_back(fork());
    if (members.back() == 0) live(id, devices, index, tiny);
  }
  bool right = devices > 0;
  for (const pid_t member : members) {
    int status = 0;
    waitpid(member, &status, 0);
    right = right && WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }
  return right ? 0 : 1;
}

}  // namespace flotilla::first_light
