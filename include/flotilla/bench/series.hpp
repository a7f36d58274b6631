#pragma once
#include <string>
#include <vector>

#include "flotilla/base/units.hpp"

/// What other programs measured, beside which our own figures stand.
namespace flotilla::bench {

/// A value for messages of a size, or at a place in the other program's own words ("row 0, column 1").
struct SeriesPoint {
  Bytes size{};  ///< 0 where there is a place, or where it is one value for all
  std::string place;
  double value = 0;
  bool operator==(const SeriesPoint&) const = default;
};

/// One quantity as another program measured it.
struct Series {
  std::string program;             ///< "osu_bw", "all_reduce_perf", "nvbandwidth"
  std::string version;             ///< "": not known
  std::string quantity;            ///< one of those below, or in the program's own words
  std::string unit;                ///< unit::seconds or unit::bytes_per_second
  std::vector<std::string> hosts;  ///< that it was measured on; empty: not known
  std::string source;              ///< the file that it was imported from
  std::vector<SeriesPoint> points;
  std::string fault;  ///< what the program itself found wrong; "": nothing
  bool operator==(const Series&) const = default;
};

namespace unit {
inline constexpr const char *seconds = "s", *bytes_per_second = "B/s";
}
/// Quantities that our own tests know, too.
namespace quantity {
inline constexpr const char *latency = "latency", *one_way = "one way", *both_ways = "both ways", *all_reduce = "all-reduce";
}

}  // namespace flotilla::bench
