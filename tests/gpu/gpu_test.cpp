// Each suite is for a machine of its own: CMakeLists.txt starts them with the environment that makes it.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <numeric>

#include "flotilla/base/clock.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/gpu/kernel.hpp"
#include "support/waiting.hpp"

namespace flotilla::gpu {
namespace {

constexpr Seconds limit = flotilla::tests::hang_bound();

std::string error_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::unavailable);
    return error.what();
  }
  return "";
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != text.npos; }

std::vector<char> image_of_kernels() {
  std::ifstream in{std::getenv("FLOTILLA_STANDIN_KERNELS"), std::ios::binary};
  return {std::istreambuf_iterator<char>{in}, {}};
}

/// A device with three arrays of floats and the kernel that adds two of them.
struct Machine {
  static constexpr std::int64_t count = 1000, bytes = count * 4;

  explicit Machine(int ordinal = 0)
      : device{DeviceContext::open(ordinal)},
        image{image_of_kernels()},
        module{device, std::as_bytes(std::span{image})},
        kernel{module.kernel("add_f32")},
        stream{device.make_stream()},
        arena{device.make_buffer(Bytes{3 * bytes})} {}

  float* array(int i) const { return reinterpret_cast<float*>((arena.data() + i * bytes).address); }
  void add() {
    kernel.launch(stream, {.blocks_x = 1, .threads = 256}, array(2), static_cast<const float*>(array(0)),
                  static_cast<const float*>(array(1)), count);
  }
  void upload(int i, const std::vector<float>& values) {
    stream.copy_to_device(arena.data() + i * bytes, std::as_bytes(std::span{values}));
  }
  std::vector<float> download(int i) {
    std::vector<float> values(count);
    stream.copy_to_host(std::as_writable_bytes(std::span{values}), arena.data() + i * bytes);
    stream.wait(limit);
    return values;
  }

  DeviceContext device;
  std::vector<char> image;
  Module module;
  Kernel kernel;
  Stream stream;
  DeviceBuffer arena;
};

TEST(NoDriver, IsNoGpuHereAndNoError) {
  const Presence p = presence();
  EXPECT_FALSE(p.any());
  EXPECT_TRUE(contains(p.why_none, "libcuda.so.1")) << p.why_none;
  EXPECT_TRUE(contains(driver_description(), "no GPU here")) << driver_description();
  EXPECT_TRUE(contains(error_of([] { DeviceContext::open(0); }), "no GPU here"));
  EXPECT_FALSE(figures("0000:01:00.0"));
}

TEST(NoGpu, IsNoError) {
  const std::string told = driver_description();
  EXPECT_TRUE(contains(told, "no GPU here: ")) << told;
  EXPECT_TRUE(contains(told, "LD_LIBRARY_PATH") || contains(told, "update") || contains(told, "CUDA_VISIBLE_DEVICES")) << told;
}

TEST(BrokenDriver, SaysCallAndAdvice) {
  const std::string told = error_of([] { presence(); });
  EXPECT_TRUE(contains(told, "cuInit")) << told;
  EXPECT_TRUE(contains(told, "999")) << told;
  EXPECT_TRUE(contains(told, "nvidia-smi")) << told;
}

TEST(OneDevice, TellsItsFacts) {
  const Presence p = presence();
  ASSERT_EQ(p.devices.size(), 1u);
  EXPECT_EQ(p.devices[0].name, "NVIDIA H100 80GB HBM3");
  EXPECT_EQ(p.devices[0].major, 9);
  EXPECT_EQ(p.devices[0].multiprocessors, 132);
  EXPECT_EQ(p.devices[0].shared_memory, Bytes{232448});
  EXPECT_EQ(driver_description(), "driver of CUDA 13.0 (580.65.06); 1 x NVIDIA H100 80GB HBM3");
  EXPECT_TRUE(contains(error_of([] { DeviceContext::open(1); }), "there is no GPU 1"));
}

TEST(Slice, IsNamedAsSuch) {
  const Presence p = presence();
  ASSERT_EQ(p.devices.size(), 2u);
  EXPECT_TRUE(p.devices[0].is_slice());
  EXPECT_EQ(p.devices[0].uuid.substr(0, 6), "MIG-01");
  EXPECT_FALSE(p.devices[1].is_slice());
  EXPECT_EQ(p.devices[1].uuid.substr(0, 6), "GPU-02");
  EXPECT_TRUE(contains(driver_description(), "1 x NVIDIA A100-SXM4-80GB MIG 1g.10gb"));
}

TEST(SameBus, SpellingsOfOnePlace) {
  EXPECT_TRUE(same_bus("0000:65:00.0", "00000000:65:00.0"));
  EXPECT_TRUE(same_bus("0000:A0:00.0", "0000:a0:00.0"));
  EXPECT_FALSE(same_bus("0000:65:00.0", "0001:65:00.0"));
  EXPECT_FALSE(same_bus("", ""));
}

TEST(OneDevice, FreshMemoryIsNotZero) {
  Machine m;
  for (const float v : m.download(0)) EXPECT_TRUE(std::isnan(v));
}

TEST(OneDevice, RunsKernelsBetweenCopies) {
  Machine m;
  std::vector<float> a(Machine::count), b(Machine::count, 0.5f);
  std::iota(a.begin(), a.end(), 0.0f);
  m.upload(0, a);
  m.upload(1, b);
  m.add();
  const std::vector<float> sum = m.download(2);
  for (std::size_t i = 0; i < sum.size(); ++i) EXPECT_EQ(sum[i], a[i] + 0.5f);
}

TEST(OneDevice, GivesBackWhatItTook) {
  const DeviceContext device = DeviceContext::open(0);
  const Bytes before = device.free_memory();
  {
    const DeviceBuffer arena = device.make_buffer(Bytes{1 << 20});
    EXPECT_EQ(before - device.free_memory(), Bytes{1 << 20});
  }
  EXPECT_EQ(device.free_memory(), before);
}

TEST(OneDevice, ChildrenKeepTheDeviceAlive) {
  Stream stream;
  DeviceBuffer arena;
  {
    const DeviceContext device = DeviceContext::open(0);
    stream = device.make_stream();
    arena = device.make_buffer(Bytes{64});
  }
  stream.fill(arena.data(), Bytes{64}, 1);
  std::vector<std::byte> bytes(64);
  stream.copy_to_host(bytes, arena.data());
  stream.wait(limit);
  EXPECT_EQ(bytes[63], std::byte{1});
}

TEST(OneDevice, EventsOrderStreamsAndTellTimes) {
  Machine m;
  Stream other = m.device.make_stream(true);
  Event filled = m.device.make_event(true), copied = m.device.make_event(true);
  std::vector<float> ones(Machine::count, 1.0f);
  m.upload(0, ones);
  m.upload(1, ones);
  m.add();
  m.stream.record(filled);
  other.wait_for(filled);
  std::vector<float> sum(Machine::count);
  other.copy_to_host(std::as_writable_bytes(std::span{sum}), m.arena.data() + 2 * Machine::bytes);
  other.record(copied);
  copied.wait(limit);
  EXPECT_EQ(sum.back(), 2.0f);
  EXPECT_GE(Event::between(filled, copied).value, 0.0);
}

TEST(OneDevice, GraphsRepeatWhatWasRecorded) {
  Machine m;
  std::vector<float> ones(Machine::count, 1.0f);
  m.upload(0, ones);
  m.upload(1, ones);
  m.stream.wait(limit);
  const Graph graph = Graph::record(m.stream, [&] {
    m.add();
    m.stream.copy_on_device(m.arena.data(), m.arena.data() + 2 * Machine::bytes, Bytes{Machine::bytes});
  });
  EXPECT_EQ(m.download(0).front(), 1.0f);  // recorded, not run
  for (int i = 0; i < 3; ++i) graph.launch(m.stream);
  EXPECT_EQ(m.download(0).front(), 4.0f);
}

TEST(OneDevice, HostFunctionsRunInOrder) {
  Machine m;
  int calls = 0;
  m.stream.call([](void* p) { ++*static_cast<int*>(p); }, &calls);
  m.stream.wait(limit);
  EXPECT_EQ(calls, 1);
}

TEST(OneDevice, AnUnknownKernelIsNamed) {
  Machine m;
  const std::string told = error_of([&] { m.module.kernel("subtract_f32"); });
  EXPECT_TRUE(contains(told, "subtract_f32")) << told;
  EXPECT_TRUE(contains(told, "architecture")) << told;
}

TEST(OneDevice, MoreSharedMemoryThanABlockHasIsRefused) {
  Machine m;
  const std::string told = error_of([&] { m.module.kernel("attention_forward_64_f32", Bytes{300000}); });
  EXPECT_TRUE(contains(told, "300000 bytes of shared memory")) << told;
}

TEST(OneDevice, ImpossibleLaunchesAreOurError) {
  Machine m;
  std::int64_t n = 0;
  void* arguments[] = {&n};
  EXPECT_THROW(m.kernel.launch_with(m.stream, {.blocks_x = 1, .threads = 2048}, arguments), Error);
  EXPECT_THROW(m.kernel.launch_with(m.stream, {.blocks_y = 70000, .threads = 32}, arguments), Error);
  m.kernel.launch_with(m.stream, {.blocks_x = 0, .threads = 32}, arguments);  // no work
  m.stream.wait(limit);
}

TEST(OneDevice, HasFigures) {
  const auto f = figures(presence().devices[0].pci_bus_id);
  ASSERT_TRUE(f);
  EXPECT_EQ(f->temperature_c, 40);
  EXPECT_EQ(f->power_w, 312.5);
  EXPECT_EQ(f->memory_total, Bytes{1 << 30});
  EXPECT_FALSE(figures("nonsense"));
}

TEST(OneDeviceDeathTest, TheHostCannotTouchDeviceMemory) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        Machine m;
        *const_cast<volatile float*>(m.array(0)) = 1;
      },
      "");
}

TEST(SeveralDevices, AreThoseThatTheProcessSees) {
  const Presence p = presence();
  ASSERT_EQ(p.devices.size(), 2u);
  EXPECT_EQ(p.devices[0].name, "Tesla T4");
  EXPECT_EQ(p.devices[1].name, "NVIDIA A100-SXM4-80GB");
  EXPECT_NE(p.devices[0].uuid, p.devices[1].uuid);
  EXPECT_TRUE(contains(driver_description(), "1 x NVIDIA A100-SXM4-80GB, 1 x Tesla T4")) << driver_description();
}

TEST(SeveralDevices, WorkBesideEachOther) {
  Machine first{0}, second{1};
  std::vector<float> ones(Machine::count, 1.0f), twos(Machine::count, 2.0f);
  for (Machine* m : {&first, &second}) {
    m->upload(0, m == &first ? ones : twos);
    m->upload(1, ones);
    m->add();
  }
  EXPECT_EQ(first.download(2).back(), 2.0f);
  EXPECT_EQ(second.download(2).back(), 3.0f);
}

TEST(OutOfMemory, SaysWhatIsFreeAndWhoToAsk) {
  const DeviceContext device = DeviceContext::open(0);
  const std::string told = error_of([&] { device.make_buffer(Bytes{2 << 20}); });  // the device has 1 MiB
  EXPECT_TRUE(contains(told, "2097152 bytes of the plan: 1048576 of")) << told;
  EXPECT_TRUE(contains(told, "nvidia-smi")) << told;
  const DeviceBuffer small = device.make_buffer(Bytes{1024});
  EXPECT_TRUE(contains(error_of([&] { device.make_buffer(Bytes{1024}); }), "GPU 0"));  // the third, by the fault
  EXPECT_EQ(error_of([&] { device.make_buffer(Bytes{1024}); }), "");                   // such an error does not stay
}

TEST(LaunchError, IsToldByALaterCallAndStays) {
  Machine m;
  m.add();
  m.stream.wait(limit);
  m.add();
  const std::string told = error_of([&] { m.stream.wait(limit); });
  EXPECT_TRUE(contains(told, "error 719 CUDA_ERROR_LAUNCH_FAILED")) << told;
  EXPECT_TRUE(contains(told, "on GPU 0")) << told;
  EXPECT_NE(error_of([&] { m.add(); }), "");
}

TEST(Lost, EveryCallFails) {
  const DeviceContext device = DeviceContext::open(0);
  Stream stream = device.make_stream();
  std::string told;
  for (int i = 0; i < 6 && told.empty(); ++i) told = error_of([&] { stream.idle(); });
  EXPECT_TRUE(contains(told, "999")) << told;
  EXPECT_NE(error_of([&] { device.make_buffer(Bytes{64}); }), "");
}

/// FLOTILLA_STANDIN_XID: what NVML reports of it.
TEST(LostWithAnXid, EveryErrorNamesIt) {
  const DeviceContext device = DeviceContext::open(0);
  Stream stream = device.make_stream();
  std::string told;
  for (int i = 0; i < 6 && told.empty(); ++i) told = error_of([&] { stream.idle(); });
  EXPECT_TRUE(contains(told, "the driver reports Xid 79 of it")) << told;
  EXPECT_TRUE(contains(error_of([&] { stream.idle(); }), "Xid 79")) << "the report is kept";
}

TEST(Hang, EndsAtTheDeadline) {
  Machine m;
  Event done = m.device.make_event();
  m.add();
  m.stream.record(done);
  const std::string told = error_of([&] { done.wait(Seconds{0.2}); });
  EXPECT_TRUE(contains(told, "an event of GPU 0 is not done after 0.2 s")) << told;
  std::fflush(nullptr);
  std::_Exit(testing::Test::HasFailure());  // the device hangs for good: memory cannot be given back
}

}  // namespace
}  // namespace flotilla::gpu
