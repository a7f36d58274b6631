#include "group_links.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "flotilla/base/text.hpp"
#include "flotilla/monitor/self_check.hpp"

namespace flotilla::monitor {
namespace {

/// Hosts whose round trips all take what the profile says, but for noise that makes them up to `noise` times as long.
struct Hosts {
  explicit Hosts(int count, double noise = 1, unsigned seed = 1) : factors(static_cast<std::size_t>(count * count), 0) {
    std::mt19937 random{seed};
    std::uniform_real_distribution<double> times{1, noise};
    for (int i = 0; i < count; ++i) ends.push_back(Rank{10 + i});
    for (int a = 0; a < count; ++a)
      for (int b = a + 1; b < count; ++b) set(a, b, times(random));
  }
  double& at(int a, int b) { return factors[static_cast<std::size_t>(a) * ends.size() + static_cast<std::size_t>(b)]; }
  void set(int a, int b, double factor) { at(a, b) = at(b, a) = factor; }
  void slow_host(int host, double factor) {
    for (int other = 0; other < static_cast<int>(ends.size()); ++other)
      if (other != host) set(host, other, factor * at(host, other));
  }
  /// All are forecast to take 2 ms.
  std::vector<SlowLink> found() const { return found(std::vector<double>(factors.size(), 2e-3)); }
  std::vector<SlowLink> found(const std::vector<double>& forecast) const {
    std::vector<double> seconds;
    for (std::size_t i = 0; i < factors.size(); ++i) seconds.push_back(factors[i] * forecast[i]);
    return slow_links(ends, seconds, forecast);
  }
  std::vector<Rank> ends;
  std::vector<double> factors;
};

TEST(GroupLinks, AHostAllOfWhosePairsAreSlow) {
  for (const int count : {3, 4, 9})
    for (int host = 0; host < count; ++host)
      for (unsigned seed = 0; seed < 20; ++seed) {
        Hosts hosts{count, 2, seed};
        hosts.slow_host(host, 20);
        const auto found = hosts.found();
        ASSERT_EQ(found.size(), 1u);
        EXPECT_EQ(found[0].end, Rank{10 + host});
        EXPECT_FALSE(found[0].other.valid());
        EXPECT_GE(found[0].factor, 10);
        EXPECT_LE(found[0].factor, 40);
      }
}

TEST(GroupLinks, OnePairThatIsSlow) {
  for (const int count : {3, 5})
    for (int a = 0; a < count; ++a)
      for (int b = a + 1; b < count; ++b) {
        Hosts hosts{count, 2};
        hosts.set(a, b, 20);
        const auto found = hosts.found();
        ASSERT_EQ(found.size(), 1u);
        EXPECT_EQ(found[0].end, Rank{10 + a});
        EXPECT_EQ(found[0].other, Rank{10 + b});
        EXPECT_GE(found[0].factor, 10);
      }
}

TEST(GroupLinks, SeveralAreNamedEach) {
  Hosts hosts{6};
  hosts.slow_host(2, 10);
  hosts.set(0, 4, 12);
  const auto found = hosts.found();
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0], (SlowLink{Rank{12}, Rank{-1}, 10}));
  EXPECT_EQ(found[1], (SlowLink{Rank{10}, Rank{14}, 12}));
}

TEST(GroupLinks, NobodyIsBlamedWhereAllAreAlikeOrNothingIsKnown) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    Hosts hosts{3 + static_cast<int>(seed % 7), 3.9, seed};
    EXPECT_TRUE(hosts.found().empty());
    for (double& factor : hosts.factors) factor *= 50;
    EXPECT_TRUE(hosts.found().empty()) << "all are slow alike: no one of them";
  }
  Hosts faster{3};  // than the profile says, all but one, which is as it says
  for (double& factor : faster.factors) factor /= 10;
  faster.set(0, 1, 1);
  EXPECT_TRUE(faster.found().empty());
  Hosts unknown{4};
  std::ranges::fill(unknown.factors, 0);
  EXPECT_TRUE(unknown.found().empty());
  unknown.set(0, 1, 30);
  EXPECT_TRUE(unknown.found().empty()) << "one pair says nothing of the others";
  Hosts two{2};
  two.set(0, 1, 100);
  EXPECT_TRUE(two.found().empty());
}

// On a busy machine good links beside a bad one look bad, too.
TEST(GroupLinks, NoiseBesideABadLinkAccusesNone) {
  Hosts hosts{4};
  hosts.set(1, 2, 15);
  hosts.set(0, 3, 60);
  const auto found = hosts.found();
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].end, Rank{10});
  EXPECT_EQ(found[0].other, Rank{13});
}

// A profile that was measured on a busy machine takes a good link for a slow one: what it takes when it is slow is no great multiple of
// that.
TEST(GroupLinks, AForecastThatIsTooLongHidesNoLinkOfASlowHost) {
  Hosts hosts{3};
  std::vector<double> forecast(9, 2e-3);
  forecast[1 * 3 + 2] = forecast[2 * 3 + 1] = 20e-3;
  hosts.set(0, 1, 400);
  hosts.set(1, 2, 40);
  const auto found = hosts.found(forecast);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].end, Rank{11});
  EXPECT_FALSE(found[0].other.valid());
}

// Between zones messages take long, as the profile says; a link inside a zone is slow where it takes many times its forecast.
TEST(GroupLinks, ALongWayThatIsAsForecastHidesNoSlowLink) {
  Hosts hosts{4};
  std::vector<double> forecast(16, 2e-3);
  for (int other = 0; other < 3; ++other)
    forecast[static_cast<std::size_t>(3 * 4 + other)] = forecast[static_cast<std::size_t>(other * 4 + 3)] = 0.5;
  hosts.set(0, 2, 10);
  const auto found = hosts.found(forecast);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0], (SlowLink{Rank{10}, Rank{12}, 10}));
}

TEST(GroupLinks, EveryTwoMeetOnceAndNobodyTwiceInARound) {
  for (int count = 1; count < 20; ++count) {
    std::set<std::pair<int, int>> met;
    const auto rounds = rounds_of_pairs(count);
    EXPECT_LE(rounds.size(), static_cast<std::size_t>(count));
    for (const auto& round : rounds) {
      std::set<int> busy;
      for (const auto& [a, b] : round) {
        EXPECT_TRUE(0 <= a && a < b && b < count);
        EXPECT_TRUE(busy.insert(a).second && busy.insert(b).second);
        EXPECT_TRUE(met.insert({a, b}).second);
      }
    }
    EXPECT_EQ(met.size(), static_cast<std::size_t>(count * (count - 1) / 2));
  }
}

TEST(GroupLinks, WhoseMessagesGoOverThem) {
  const auto host = [](Rank rank) { return text("n", rank.value / 2); };
  for (int a = 0; a < 8; ++a)
    for (int b = 0; b < 8; ++b) {
      const auto over = [&](const std::vector<SlowLink>& links) { return goes_over(links, Rank{a}, Rank{b}, host); };
      const auto ends = std::minmax({a / 2, b / 2});
      EXPECT_TRUE(over({}));
      EXPECT_EQ(over({{Rank{2}, Rank{-1}, 9}}), a / 2 == 1 || b / 2 == 1);
      EXPECT_EQ(over({{Rank{6}, Rank{2}, 9}}), ends == std::pair(1, 3));
      EXPECT_EQ(over({{Rank{6}, Rank{2}, 9}, {Rank{0}, Rank{2}, 9}}), ends == std::pair(1, 3) || ends == std::pair(0, 1));
    }
}

TEST(GroupLinks, TheFirstMemberOfEachHostSpeaksForIt) {
  const auto host = [](Rank rank) { return text("n", rank.value % 3); };
  EXPECT_EQ(ends_of_hosts({Rank{4}, Rank{1}, Rank{3}, Rank{2}}, host), (std::vector{Rank{4}, Rank{3}, Rank{2}}));
}

}  // namespace
}  // namespace flotilla::monitor
