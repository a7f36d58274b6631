#include "candidate_groups.hpp"

#include <gtest/gtest.h>

namespace {

using flotilla::Rank;
using flotilla::cluster::Device;
using flotilla::probe::candidate_groups;
using flotilla::probe::candidate_pairs;

using Groups = std::vector<std::vector<Rank>>;

/// `hosts` hosts of `each` GPUs in a zone, ranks host by host.
void add_hosts(std::vector<Device>& devices, int hosts, int each, const std::string& zone, const std::string& type = "H100") {
  for (int h = 0; h < hosts; ++h)
    for (int g = 0; g < each; ++g) {
      const int rank = static_cast<int>(devices.size());
      devices.push_back({Rank{rank}, type, zone + "-" + type + std::to_string(h), zone, g, 1});
    }
}

std::vector<Rank> ranks(std::initializer_list<int> numbers) {
  std::vector<Rank> all;
  for (const int number : numbers) all.push_back(Rank{number});
  return all;
}

TEST(CandidateGroups, TwoArePairs) {
  std::vector<Device> devices;
  EXPECT_EQ(candidate_groups(devices), Groups{});
  add_hosts(devices, 1, 2, "a");
  EXPECT_EQ(candidate_groups(devices), Groups{});
  std::vector<Device> apart;
  add_hosts(apart, 2, 1, "a");
  EXPECT_EQ(candidate_groups(apart), Groups{});
}

TEST(CandidatePairs, OneInsideAHostAndOneBetweenTwo) {
  std::vector<Device> devices;
  add_hosts(devices, 1, 1, "a");
  EXPECT_EQ(candidate_pairs(devices), Groups{});
  devices.clear();
  add_hosts(devices, 3, 2, "a");
  add_hosts(devices, 1, 4, "b", "A100");
  EXPECT_EQ(candidate_pairs(devices), (Groups{ranks({0, 1}), ranks({6, 7}), ranks({0, 2})}));
}

TEST(CandidateGroups, AHostsOwnOnce) {
  std::vector<Device> devices;
  add_hosts(devices, 1, 3, "a");
  EXPECT_EQ(candidate_groups(devices), (Groups{ranks({0, 1, 2})})) << "all of them are the same group";
}

TEST(CandidateGroups, OneHostStandsForThoseLikeIt) {
  std::vector<Device> devices;
  add_hosts(devices, 2, 3, "a");
  add_hosts(devices, 1, 3, "b", "A100");
  EXPECT_EQ(candidate_groups(devices), (Groups{ranks({0, 1, 2}), ranks({6, 7, 8}), ranks({0, 1, 2, 3, 4, 5, 6, 7, 8})}));
}

TEST(CandidateGroups, OneOfEachHostOfAZone) {
  std::vector<Device> devices;
  add_hosts(devices, 3, 2, "a");
  add_hosts(devices, 1, 1, "b");
  EXPECT_EQ(candidate_groups(devices), (Groups{ranks({0, 2, 4}), ranks({0, 1, 2, 3, 4, 5, 6})}));
}

TEST(CandidateGroups, AreFewAndNotEndless) {
  std::vector<Device> devices;
  for (int zone = 0; zone < 9; ++zone) add_hosts(devices, 20, 4, "z" + std::to_string(zone), "T" + std::to_string(zone));
  const auto found = candidate_groups(devices);
  EXPECT_EQ(found.size(), 4u + 4u + 1u);
  for (const auto& group : found) EXPECT_LE(group.size(), 64u);
}

}  // namespace
