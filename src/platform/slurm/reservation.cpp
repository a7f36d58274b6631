#include "flotilla/slurm/reservation.hpp"

#include <chrono>
#include <cstdio>

#include "answer_fields.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/base/foreign_text.hpp"
#include "flotilla/slurm/host_list.hpp"

namespace flotilla::slurm {

bool Reservation::meets(std::optional<Seconds> time, std::optional<Seconds> length) const {
  if (active || unreadable) return true;
  if (!time || !begin) return false;  // only what is on now can be told without a clock
  const bool over = end && *end <= *time;
  return !over && (!length || *time + *length > *begin);
}

std::optional<Seconds> parse_wall_clock(const std::string& words) {
  int year = 0, hour = 0, minute = 0, second = 0, read = 0;
  unsigned month = 0, day = 0;
  if (words.size() > 30 ||
      std::sscanf(words.c_str(), "%4d-%2u-%2uT%2d:%2d:%2d%n", &year, &month, &day, &hour, &minute, &second, &read) != 6 ||
      static_cast<std::size_t>(read) != words.size())
    return std::nullopt;
  const std::chrono::year_month_day date{std::chrono::year{year}, std::chrono::month{month}, std::chrono::day{day}};
  if (!date.ok()) return std::nullopt;
  return Seconds{static_cast<double>(std::chrono::sys_days{date}.time_since_epoch().count()) * 86400.0 + hour * 3600 + minute * 60 +
                 second};
}

std::vector<Reservation> read_reservations(const std::string& answer) {
  std::vector<Reservation> found;
  for (auto line : lines_of(answer)) {
    const auto record = record_of(line);
    Reservation r;
    r.name = field(record, "ReservationName");
    if (r.name.empty()) continue;  // "No reservations in the system"
    const auto nodes = field(record, "Nodes");
    if (nodes.empty()) continue;
    r.nodes = expand_host_list(nodes, text("scontrol show reservation, ", printable(r.name)));
    r.begin = parse_wall_clock(field(record, "StartTime"));
    r.unreadable = !r.begin && !field(record, "StartTime").empty() && field(record, "StartTime") != "Unknown";
    r.end = parse_wall_clock(field(record, "EndTime"));
    r.active = upper(field(record, "State")) == "ACTIVE";
    found.push_back(std::move(r));
  }
  return found;
}

}  // namespace flotilla::slurm
