#include "flotilla/cluster/catalogue.hpp"

#include <gtest/gtest.h>

#include <functional>

#include "flotilla/base/error.hpp"
#include "support/refusal.hpp"

namespace flotilla::cluster::catalogue_test {
namespace {

Figure said(double value) { return {value, "made up"}; }

CatalogueEntry entry(const std::string& name, double scale) {
  CatalogueEntry e;
  e.name = name;
  e.aliases = {name + "-GB"};
  e.memory = said(40e9);
  e.fp32 = {said(scale * 1e13), said(0.9), said(1e9), said(0.1)};
  e.fp16 = {said(scale * 1e14), said(0.8), said(2e9), said(0.3)};
  e.memory_bandwidth = said(scale * 1e12);
  e.memory_share = said(0.9);
  e.overlap = said(0);
  e.launch = said(4e-6);
  e.power = said(300);
  e.devices_per_node = said(8);
  e.node_pair_rate = said(scale * 1e11);
  e.node_share = said(0.5);
  e.node_latency = said(1e-5);
  e.network_card_rate = said(scale * 1e10);
  e.network_cards = said(4 * scale);
  e.network_share = said(0.9);
  e.network_latency = said(2e-5);
  e.link_error = said(0.3);
  return e;
}

Catalogue two() {
  Catalogue catalogue{entry("RTX-1", 1), entry("Big 2", 2)};
  catalogue[1].tf32 = {said(8e13), said(0.5), said(3e9), said(0.2)};
  return catalogue;
}

using tests::refusal;

TEST(Catalogue, NamesAreFoundHoweverTheyAreSpelled) {
  const Catalogue catalogue = two();
  for (const char* name : {"RTX-1", "rtx_1", "RTX 1", "rtx1", "Rtx-1-gb", "rtx-1+TF32"})
    EXPECT_EQ(find(catalogue, name), &catalogue[0]) << name;
  EXPECT_EQ(find(catalogue, "big-2"), &catalogue[1]);
  EXPECT_EQ(find(catalogue, ""), nullptr);
  EXPECT_EQ(find(catalogue, "RTX-11"), nullptr);
}

TEST(Catalogue, UnknownNamesAreRefusedWithTheNearest) {
  const std::string what = refusal([] { device_type(two(), "RTX-2"); });
  EXPECT_NE(what.find("no device type 'RTX-2'"), std::string::npos) << what;
  EXPECT_NE(what.find("did you mean 'RTX-1'"), std::string::npos) << what;
  EXPECT_LT(refusal([] { device_type(two(), std::string(1 << 20, 'x')); }).size(), 300u);
}

TEST(Catalogue, ATypeHasItsEntrysFigures) {
  const DeviceType type = device_type(two(), "big_2");
  EXPECT_EQ(type.name, "big_2");  // what a plan calls it
  EXPECT_EQ(type.peak_fp32.value, 2e13);
  EXPECT_EQ(type.peak_fp16.value, 2e14);
  EXPECT_EQ(type.peak_bf16.value, 0);
  EXPECT_EQ(type.memory, Bytes{40'000'000'000});
  EXPECT_EQ(type.per_node, 8);
  EXPECT_EQ(type.power_watts, 300);
  const Efficiency wanted{0.9, 0.9, 1e9, {4e-6}, 0.1, 0.8, 2e9, 0.3, 0};
  EXPECT_EQ(type.efficiency, wanted);
}

TEST(Catalogue, Tf32IsAskedForByName) {
  const DeviceType type = device_type(two(), "Big 2+tf32");
  EXPECT_EQ(type.name, "Big 2+tf32");
  EXPECT_EQ(type.peak_fp32.value, 8e13);
  EXPECT_EQ(type.efficiency.matrix, 0.5);
  EXPECT_EQ(type.efficiency.half, 3e9);
  EXPECT_EQ(type.efficiency.error, 0.2);
  EXPECT_EQ(type.efficiency.matrix_16, 0.8);
  EXPECT_NE(refusal(ErrorKind::unavailable, [] { device_type(two(), "RTX-1+tf32"); }).find("does not multiply in TF32"), std::string::npos);
}

TEST(Catalogue, LinksJoinEveryPairOfTypesAtEveryLevel) {
  const auto links = catalogue_links(two(), {"RTX-1", "Big 2", "RTX-1"});
  ASSERT_EQ(links.size(), 8u);  // 2 inside nodes, 3 pairs x (zone, wide)
  const auto of = [&](LinkLevel level, const std::string& from, const std::string& to) {
    for (const Link& link : links)
      if (link.level == level && link.from == from && link.to == to) return link;
    ADD_FAILURE() << from << " " << to;
    return Link{};
  };
  EXPECT_EQ(of(LinkLevel::node, "RTX-1", "RTX-1").pieces, (std::vector<LinkPiece>{{{0}, {1e-5}, {5e10}}}));
  EXPECT_EQ(of(LinkLevel::zone, "Big 2", "Big 2").pieces, (std::vector<LinkPiece>{{{0}, {2e-5}, {1.8e10}}}));
  EXPECT_EQ(of(LinkLevel::zone, "Big 2", "Big 2").lanes, 8);
  const Link mixed = of(LinkLevel::zone, "RTX-1", "Big 2");  // the slower end decides
  EXPECT_EQ(mixed.pieces, (std::vector<LinkPiece>{{{0}, {2e-5}, {9e9}}}));
  EXPECT_EQ(mixed.lanes, 4);
  EXPECT_EQ(mixed.relative_scatter, 0.3);
  EXPECT_EQ(of(LinkLevel::wide, "RTX-1", "Big 2").pieces.front().latency, wide_latency);
}

TEST(Catalogue, ATypeWithoutLinksIsRefused) {
  Catalogue catalogue = two();
  catalogue[0].node_pair_rate = {};
  EXPECT_NE(refusal([&] { catalogue_links(catalogue, {"RTX-1"}); }).find("'RTX-1'"), std::string::npos);
}

TEST(Catalogue, LinksOfTypesJoinDevicesThatNoMeasuredLinkNames) {
  Profile profile = complete_from_catalogue({}, two(), {"RTX-1", "Big 2"});
  profile.devices = {{Rank{0}, "RTX-1", "a", "z"},
                     {Rank{1}, "RTX-1", "a", "z"},
                     {Rank{2}, "Big 2", "b", "z"},
                     {Rank{3}, "Big 2", "c", "z"},
                     {Rank{4}, "RTX-1", "d", "y"}};
  EXPECT_EQ(link_between(profile, Rank{0}, Rank{1}).pieces[0].bandwidth.value, 5e10);
  EXPECT_EQ(link_between(profile, Rank{2}, Rank{3}).pieces[0].bandwidth.value, 1.8e10);
  EXPECT_EQ(link_between(profile, Rank{3}, Rank{0}).pieces[0].bandwidth.value, 9e9);
  EXPECT_EQ(link_between(profile, Rank{4}, Rank{2}).level, LinkLevel::wide);
  profile.links.push_back({LinkLevel::zone, "c", "b", {{{0}, {0}, {7.0}}}});  // measured, the other way
  EXPECT_EQ(link_between(profile, Rank{2}, Rank{3}).pieces[0].bandwidth.value, 7.0);
  EXPECT_EQ(link_between(profile, Rank{0}, Rank{3}).pieces[0].bandwidth.value, 9e9);
}

TEST(Catalogue, CompletingAddsTypesAndFillsWhatIsZero) {
  Profile library;
  library.device_types = {{"RTX-1", DeviceKind::gpu, {11 << 20}, {0}, {0}, {0}, "published"}};
  library.device_types[0].per_node = 4;
  const Profile full = complete_from_catalogue(library, two(), {"RTX-1", "Big 2"});
  ASSERT_EQ(full.device_types.size(), 2u);
  const DeviceType &filled = full.device_types[0], &added = full.device_types[1];
  EXPECT_EQ(filled.memory, Bytes{11 << 20});  // the profile's word stands
  EXPECT_EQ(filled.per_node, 4);
  EXPECT_EQ(filled.source, "published");
  EXPECT_EQ(filled.peak_fp32.value, 1e13);
  EXPECT_EQ(filled.power_watts, 300);
  EXPECT_EQ(filled.efficiency.matrix, 0.9);
  EXPECT_EQ(added, device_type(two(), "Big 2"));
  EXPECT_EQ(complete_from_catalogue(full, two(), {"RTX-1", "Big 2"}), full);  // nothing is added twice
}

TEST(Catalogue, MeasuredPeaksKeepTheirEfficiency) {
  Profile probed;
  probed.device_types = {{"RTX-1", DeviceKind::gpu, {1 << 30}, {5e12}, {0}, {1e11}, "probe"}};
  probed.links = {{LinkLevel::node, "a", "a", {{{0}, {0}, {1.0}}}}};
  const Profile full = complete_from_catalogue(probed, two(), {"RTX-1"});
  EXPECT_EQ(full.device_types[0].peak_fp32.value, 5e12);
  EXPECT_EQ(full.device_types[0].efficiency, Efficiency{});
  EXPECT_EQ(full.device_types[0].memory_bandwidth.value, 1e11);
  for (const Link& link : full.links) EXPECT_TRUE(link.level != LinkLevel::node || link.from == "a");  // the probe measured that level
}

TEST(Catalogue, PublishedTimesMayHaveUsedTf32) {
  Profile library;
  library.device_types = {{"Big 2", DeviceKind::gpu, {1 << 30}, {0}, {0}, {0}, "published"}};
  library.layer_times = {{"opt-350m", "Big 2", 1, 2, 1, 1, Precision::fp32, {1e-3}, {2e-3}, {}}};
  EXPECT_EQ(complete_from_catalogue(library, two(), {"Big 2"}).device_types[0].peak_fp32.value, 8e13);
}

TEST(Catalogue, ATypeThatNobodyKnowsIsRefusedUnlessTheProfileHasIt) {
  EXPECT_NE(refusal([] { complete_from_catalogue({}, two(), {"Z9"}); }).find("'Z9'"), std::string::npos);
  Profile probed;
  probed.device_types = {{"Z9", DeviceKind::cpu, {1 << 30}, {1e9}, {0}, {1e9}, "probe"}};
  EXPECT_EQ(complete_from_catalogue(probed, two(), {"Z9"}), probed);
}

}  // namespace
}  // namespace flotilla::cluster::catalogue_test
