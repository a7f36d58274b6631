// On stand-in GPUs (tests/standin): an H100 and an A100 a host, for one, two and three ranks.
#include "gpus.hpp"

#include <gtest/gtest.h>

#include "flotilla/base/error.hpp"
#include "flotilla/files/profile_file.hpp"
#include "probe/tiny_probe.hpp"

namespace flotilla::probe {
namespace {

TEST(Gpus, AreMeasuredByTheirRanksAndNamedAsInTheCatalogue) {
  const auto types = measure_gpus(world(), tiny(), Seconds{0.05});
  ASSERT_EQ(types.size(), world().size() == 1 ? 1u : 2u) << "a rank has one device; of three, two share";
  EXPECT_EQ(types.back().name, "H100");
  if (types.size() == 2) {
    EXPECT_EQ(types.front().name, "A100-80");
  }
  for (const auto& type : types) {
    EXPECT_EQ(type.kind, cluster::DeviceKind::gpu);
    EXPECT_EQ(type.memory, Bytes{1 << 30});
    EXPECT_GT(type.peak_fp32.value, 0);
    EXPECT_GT(type.peak_bf16.value, 0);
    EXPECT_GT(type.memory_bandwidth.value, 0);
    EXPECT_NE(type.source.find("CUDA 13.0 (580.65.06), cuBLASLt 13.1.0; pinned copies to the device at "), std::string::npos) << type.source;
  }
}

TEST(Gpus, AreTypesOfAProfileBesideTheRanksDevices) {
  const auto profile = measure(world(), tiny());
  EXPECT_NE(cluster::find_type(profile, "H100"), nullptr);
  EXPECT_EQ(profile.devices.size(), static_cast<std::size_t>(world().size()));
  EXPECT_EQ(files::profile_from_json(files::profile_to_json(profile), "itself"), profile);
}

TEST(Gpus, TextsAreWhatTheyWere) {
  const MeasuredGpu gpu{"NVIDIA A100-SXM4-80GB MIG 1g.10gb", "CUDA 12.4", Bytes{5}, {{1}, {2}, {3}, {4}, {5}, "cuBLASLt"}};
  const MeasuredGpu back = gpu_from_text(to_text(gpu));
  EXPECT_EQ(to_text(back), to_text(gpu));
  EXPECT_EQ(types_of({gpu, back}).front().name, "NVIDIA A100-SXM4-80GB MIG 1g.10gb") << "no figures of the whole device for a slice";
  EXPECT_THROW(gpu_from_text("{"), Error);
}

}  // namespace
}  // namespace flotilla::probe
