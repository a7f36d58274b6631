// Two streams of the gpu room on the stand-in driver: bytes go up on one, a kernel adds them on the other, the sum comes back on the first.
//
//   standin_streams_tsan correct | forgotten_event | wrong_stream | reuse_before_event | host_pointer
//
// Exit code 0 when the sum is right and nothing was found; what is planted is for TSan and for the driver to find.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "../support/waiting.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/gpu/kernel.hpp"

namespace {

using namespace flotilla;

constexpr std::size_t count = 128;  // few threads: TSan forgets accesses when hundreds of fibers take turns in its 255 slots
constexpr Seconds limit = flotilla::tests::hang_bound();

std::vector<char> kernels() {
  std::ifstream in{std::getenv("FLOTILLA_STANDIN_KERNELS"), std::ios::binary};
  return {std::istreambuf_iterator<char>{in}, {}};
}

bool run(const std::string& mode) {
  const auto device = gpu::DeviceContext::open(0);
  const auto image = kernels();
  const gpu::Module module{device, std::as_bytes(std::span{image})};
  const auto add = module.kernel("add_f32");
  auto copies = device.make_stream(), compute = device.make_stream(true);
  auto up = device.make_event(), done = device.make_event(), down = device.make_event();
  const auto arena = device.make_buffer(Bytes{3 * count * sizeof(float)});
  const auto buffer = device.make_pinned(Bytes{count * sizeof(float)});
  auto* const host = reinterpret_cast<float*>(buffer.bytes().data());
  for (std::size_t i = 0; i < count; ++i) host[i] = static_cast<float>(i);
  const gpu::DevicePointer a = arena.data(), b = a + std::int64_t{count * sizeof(float)}, sum = b + std::int64_t{count * sizeof(float)};
  copies.copy_to_device(a, buffer.bytes());
  copies.copy_to_device(b, buffer.bytes());
  copies.record(up);
  if (mode == "reuse_before_event") {
    // The copy has long run: only its event would order this write after it. Written at once, it could be ordered before a copy that
    // starts late, by a lock of the driver, and TSan would rightly say nothing.
    std::this_thread::sleep_for(std::chrono::milliseconds{500});
    host[0] = 7;
  }
  if (mode != "forgotten_event") compute.wait_for(up);
  const float* from = mode == "host_pointer" ? host : reinterpret_cast<const float*>(a.address);
  gpu::Stream& stream = mode == "wrong_stream" ? copies : compute;  // `done` will be of the stream that has nothing to do
  add.launch(stream, {.blocks_x = 1, .threads = count / 4}, reinterpret_cast<float*>(sum.address), from,
             reinterpret_cast<const float*>(b.address), static_cast<std::int64_t>(count));
  compute.record(done);
  auto back = device.make_stream();
  back.wait_for(done);
  if (mode != "wrong_stream") up.wait(limit);
  back.copy_to_host(buffer.bytes(), sum);
  back.record(down);
  down.wait(limit);
  copies.wait(limit);
  for (std::size_t i = 0; i < count; ++i)
    if (host[i] != 2 * static_cast<float>(i)) return false;
  return true;
}

}  // namespace

int main(int words, char** word) {
  try {
    const bool right = run(words > 1 ? word[1] : "correct");
    std::printf("%s\n", right ? "the sum is right" : "the sum is WRONG");
    return right ? 0 : 1;
  } catch (const std::exception& error) {
    std::printf("%s\n", error.what());
    return 2;
  }
}
