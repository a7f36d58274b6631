#pragma once
#include <array>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "flotilla/base/ids.hpp"
#include "flotilla/base/units.hpp"

namespace flotilla::monitor {

/// Seconds that a rank spent in the collectives of one group in an iteration, waiting for others included, and what they were forecast to
/// take.
struct GroupTime {
  int group = -1;  ///< index into Program::groups; -1: none
  double measured = 0, forecast = 0;
};

/// What one rank saw of a window, a mean over its iterations (a device that is throttled stands still now and then: most iterations do not
/// show it). Plain, so that ranks can exchange it.
struct RankWindow {
  double iteration = 0;  ///< seconds
  double busy = 0;       ///< seconds of the compute queue, and in which the rank could not run at all
  int peer = -1;         ///< the rank to which sends took longest for what they are, -1: nothing was sent
  double link = 0;       ///< seconds in which some of those sends was on its way
  double link_forecast = 0;
  std::array<GroupTime, 4> groups{};  ///< of the rank's groups those with the longest forecast
  int look = -1;                      ///< of the active ranks' first rank: the group whose links all look at after this window
};

/// A link of a group over more than two hosts: of the host of `end` to all others, or, where `other` is valid, between their two hosts.
struct SlowLink {
  Rank end, other{-1};
  double factor = 1;  ///< a message's time over that of the group's best link, each beside the profile's figure
  bool operator==(const SlowLink&) const = default;
};

/// A device or a link that has become slow, or is so no longer. A value.
struct Slowness {
  Rank rank;
  Rank peer{-1};                  ///< valid: the link from `rank` to `peer`
  int group = -1;                 ///< not -1: the links between the members of this group of the program, of which `rank` is the first
  std::vector<Rank> members{};    ///< of that group
  std::vector<SlowLink> links{};  ///< which of that group's links it is, where that was looked at and found
  bool over = false;              ///< it is as the others again
  double factor = 1;              ///< seconds over what they would be if it were as fast, beside the forecast, as the active ranks is
  Seconds cost;                   ///< of an iteration, at most: what it takes longer
  int windows = 0;                ///< in a row that it has been slow
  bool is_device() const { return !peer.valid() && group < 0; }
};

/// Holds every rank's windows against the forecast, as long as a run goes on. A forecast that is wrong by the same factor for all ranks
/// accuses none: each is measured by the active ranks' (lower) median of measured over forecast. A active ranks of one is measured by its
/// first window. Something is slow when it is so in two windows in a row, and over when it is not in two in a row. Links are measured by
/// the one that was best in the first three windows: processes that share processors wake late for every message. A link is blamed only
/// while both of its ends work as fast as forecast, or lose too little to be what it waits for: who comes late sends and receives late. Of
/// a group's collectives that member is believed who waits least: he comes last, and what he sees is the network.
class SelfCheck {
 public:
  static constexpr double slow = 1.5, fast = 1.25;  ///< factors from which and below which a device counts as slow and as fast again
  static constexpr double slow_link = 4, fast_link = 2;
  static constexpr double least_link_cost = 0.05;  ///< of an iteration: less is no matter

  SelfCheck() = default;  ///< without a forecast: nothing to check
  /// Seconds of each rank's compute queue in an iteration, by rank; 0: not known.
  /// `members`: of each group of the program.
  explicit SelfCheck(std::vector<double> forecast_busy, std::vector<std::vector<Rank>> members = {})
      : forecast_busy_{std::move(forecast_busy)}, members_{std::move(members)}, marks_(forecast_busy_.size()) {}

  /// What has changed with this window of every rank.
  std::vector<Slowness> judge(std::span<const RankWindow>);
  /// Which of a group's links it is, as long as the group is slow.
  void found(int group, std::vector<SlowLink> links) { links_[group] = std::move(links); }
  /// What is slow now.
  std::vector<Slowness> slow_now() const;

 private:
  struct Mark {
    int over_limit = 0, under_limit = 0;  ///< windows in a row
    bool told = false;
    Slowness last;
    std::optional<Slowness> step(Slowness now, double slow, double fast);
  };
  struct Marks {
    Mark device, link;
  };
  /// Whether a rank may be so late for what it shares with others that this takes `more` seconds longer.
  bool suspect(std::span<const RankWindow>, Rank, double more) const;
  /// Of each group what its last member saw; nothing where fewer than two told of it.
  std::vector<std::optional<GroupTime>> group_times(std::span<const RankWindow>) const;
  void measure_links(std::span<const RankWindow>, const std::vector<std::optional<GroupTime>>&);
  /// Times the usual measured over forecast.
  double factor_of(double measured, double forecast) const { return measured / (forecast * usual_link_); }
  std::optional<Slowness> judge_device(const RankWindow&, std::size_t rank, double usual);
  std::optional<Slowness> judge_link(std::span<const RankWindow>, std::size_t rank);
  std::optional<Slowness> judge_group(std::span<const RankWindow>, int group, const GroupTime& least);

  std::vector<double> forecast_busy_;
  std::vector<std::vector<Rank>> members_;
  std::vector<Marks> marks_;
  std::map<int, Mark> group_marks_;
  std::map<int, std::vector<SlowLink>> links_;  ///< of groups
  std::optional<double> first_ratio_;
  int windows_ = 0;
  double usual_link_ = 1;  ///< measured over forecast
};

}  // namespace flotilla::monitor
