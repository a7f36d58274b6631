#include <algorithm>
#include <array>
#include <cstdio>

#include "app/inspect/inspect.hpp"
#include "flotilla/base/figures.hpp"
#include "flotilla/base/key_values.hpp"
#include "flotilla/base/text.hpp"
#include "flotilla/cluster/transports.hpp"

namespace flotilla::app {
namespace {

std::string percent(double share) {
  std::array<char, 32> out{};
  std::snprintf(out.data(), out.size(), "%.1f %%", 100 * share);
  return out.data();
}

std::string flops(FlopsPerSecond rate) {
  if (rate.value == 0) return "?";
  std::array<char, 32> out{};
  std::snprintf(out.data(), out.size(), "%.1f GFLOP/s", rate.value / 1e9);
  return out.data();
}

std::string level_name(cluster::LinkLevel level) {
  return level == cluster::LinkLevel::node ? "node" : level == cluster::LinkLevel::zone ? "zone" : "wide";
}

/// Figures that a probe does not take, where somebody gave them.
std::string more_of(const cluster::DeviceType& t) {
  std::string words;
  const auto add = [&](bool given, const auto&... figure) {
    if (given) words += (words.empty() ? "" : ", ") + text(figure...);
  };
  add(t.per_node > 0, t.per_node, " a node");
  add(t.usd_per_hour > 0, t.usd_per_hour, " USD/h");
  add(t.power_watts > 0, t.power_watts, " W");
  add(t.billing_weight > 0, t.billing_weight, " units/h");
  return words;
}

std::string types(const cluster::Profile& profile, const Style& style) {
  TextTable table{{{"device type"},
                   {"memory", Align::right},
                   {"fp32", Align::right},
                   {"bf16", Align::right},
                   {"memory bandwidth", Align::right},
                   {"source"},
                   {"besides"}}};
  for (const auto& t : profile.device_types)
    table.add({t.name, to_string(t.memory), flops(t.peak_fp32), flops(t.peak_bf16),
               t.memory_bandwidth.value == 0 ? "?" : to_string(t.memory_bandwidth), t.source, more_of(t)});
  return table.print(style);
}

std::string devices(const cluster::Profile& profile, const Style& style) {
  TextTable table{{{"rank", Align::right}, {"host"}, {"zone"}, {"local", Align::right}, {"threads", Align::right}, {"type"}}};
  for (const auto& d : profile.devices) table.add({text(d.rank), d.host, d.zone, text(d.local_rank), text(d.threads), d.type});
  return table.print(style);
}

std::string links(const std::vector<cluster::Link>& all, const char* title, const Style& style) {
  TextTable table{{{title},
                   {"from"},
                   {"to"},
                   {"messages from", Align::right},
                   {"latency", Align::right},
                   {"bandwidth", Align::right},
                   {"variability", Align::right}}};
  for (const auto& link : all)
    for (const auto& piece : link.pieces) {
      const bool first = &piece == &link.pieces.front();
      table.add({first ? level_name(link.level) : "", first ? link.from : "", first ? link.to : "", to_string(piece.from),
                 to_string(piece.latency), to_string(piece.bandwidth), first ? percent(link.relative_scatter) : ""});
    }
  return table.print(style);
}

/// One that is refused has no row.
std::vector<cluster::Link> links_over(const cluster::Profile& profile, cluster::Transport transport) {
  std::vector<cluster::Link> all;
  for (const auto& known : profile.device_links)
    if (known.transport == transport && known.refusal.empty()) all.push_back(known.link);
  return all;
}

std::string uplinks(const cluster::Profile& profile, const Style& style) {
  TextTable table{{{"uplink of"}, {"bandwidth", Align::right}}};
  for (const auto& uplink : profile.uplinks) table.add({uplink.zone, to_string(uplink.bandwidth)});
  return table.print(style);
}

/// Device type and precision take a column each where there are several.
std::string operations(const cluster::Profile& profile, const Style& style) {
  const auto& all = profile.operation_times;
  const bool types = std::ranges::any_of(all, [&](const auto& o) { return o.device_type != all.front().device_type; });
  const bool precisions = std::ranges::any_of(all, [&](const auto& o) { return o.precision != all.front().precision; });
  std::vector<TextTable::Column> columns{{precisions ? "operation" : text("operation, ", to_string(all.front().precision))}};
  if (types) columns.push_back({"device type"});
  if (precisions) columns.push_back({"precision"});
  for (const char* title : {"tensor", "sequences", "length", "time", "variability"}) columns.push_back({title, Align::right});
  TextTable table{columns};
  for (const auto& o : all) {
    std::vector<std::string> row{o.operation};
    if (types) row.push_back(o.device_type);
    if (precisions) row.push_back(to_string(o.precision));
    for (const auto& cell : {text(o.tensor_parallel), text(o.sequences), text(o.length), to_string(o.time), percent(o.relative_scatter)})
      row.push_back(cell);
    table.add(std::move(row));
  }
  return table.print(style);
}

}  // namespace

std::string profile_text(const cluster::Profile& profile, const Style& style) {
  std::vector<std::pair<std::string, std::string>> head;
  for (const auto& [key, value] :
       {std::pair{"measured at", profile.measured_at}, {"software", profile.software}, {"model", profile.model_fingerprint}})
    if (!value.empty()) head.emplace_back(key, value);
  std::string out = (head.empty() ? "" : key_values_within(head, table_width) + "\n") + types(profile, style);
  // One rank alone has no links; a library has no devices.
  if (!profile.devices.empty()) out += "\n" + devices(profile, style);
  if (!profile.links.empty()) out += "\n" + links(profile.links, "link", style);
  for (const auto transport : cluster::device_transports)
    if (const auto all = links_over(profile, transport); !all.empty())
      out += "\n" + links(all, text("by ", cluster::in_words(transport)).c_str(), style);
  if (!profile.uplinks.empty()) out += "\n" + uplinks(profile, style);
  if (!profile.operation_times.empty()) out += "\n" + operations(profile, style);
  return out;
}

}  // namespace flotilla::app
