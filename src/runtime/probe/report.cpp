#include "flotilla/probe/report.hpp"

#include <algorithm>
#include <iomanip>
#include <map>
#include <sstream>
#include <vector>

#include "flotilla/base/text.hpp"
#include "flotilla/cluster/product_peak.hpp"
#include "flotilla/cluster/transports.hpp"
#include "flotilla/model/operations.hpp"

namespace flotilla::probe {
namespace {

std::string fixed(double value, int digits) {
  std::ostringstream out;
  out << std::fixed << std::setprecision(digits) << value;
  return out.str();
}

/// Three significant digits where there are no more than three before the point.
std::string rate(double value) { return fixed(value, value < 10 ? 2 : value < 100 ? 1 : 0); }

using Row = std::vector<std::string>;

/// Columns as wide as their widest cell, the first flush left, the others flush right; the first row is the head.
void print(std::ostream& out, const std::string& title, const std::vector<Row>& rows) {
  if (rows.size() < 2) return;
  std::vector<std::size_t> widths(rows.front().size(), 0);
  for (const auto& row : rows)
    for (std::size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], row[c].size());
  out << title << '\n';
  for (const auto& row : rows) {
    for (std::size_t c = 0; c < row.size(); ++c)
      out << "  " << (c == 0 ? std::left : std::right) << std::setw(static_cast<int>(widths[c])) << row[c];
    out << '\n';
  }
  out << '\n';
}

std::vector<Row> type_rows(const cluster::Profile& profile) {
  std::vector<Row> rows{{"type", "devices", "memory", "fp32 GFLOP/s", "bf16 GFLOP/s", "memory rate"}};
  for (const auto& t : profile.device_types) {
    const auto count = std::ranges::count(profile.devices, t.name, &cluster::Device::type);
    rows.push_back({t.name, text(count), to_string(t.memory), rate(t.peak_fp32.value / 1e9),
                    t.peak_bf16.value > 0 ? rate(t.peak_bf16.value / 1e9) : "-", to_string(t.memory_bandwidth)});
  }
  return rows;
}

std::vector<Row> copy_rows(const cluster::Profile& profile) {
  std::vector<Row> rows{{"type", "8 B to device", "large", "8 B to host", "large", "libraries hold"}};
  for (const auto& t : profile.device_types)
    if (t.to_device.known() && t.to_host.known())
      rows.push_back({t.name, to_string(t.to_device.time({8})), to_string(t.to_device.bandwidth), to_string(t.to_host.time({8})),
                      to_string(t.to_host.bandwidth), to_string(t.context)});
  return rows;
}

/// Ranks of a host with the same type and zone stand in one row.
std::vector<Row> device_rows(const cluster::Profile& profile) {
  std::vector<Row> rows{{"host", "zone", "ranks", "threads each", "type"}};
  std::vector<std::vector<const cluster::Device*>> groups;
  for (const auto& d : profile.devices) {
    const auto same = [&](const auto& g) { return g[0]->host == d.host && g[0]->type == d.type && g[0]->zone == d.zone; };
    const auto found = std::ranges::find_if(groups, same);
    if (found == groups.end())
      groups.push_back({&d});
    else
      found->push_back(&d);
  }
  for (const auto& g : groups)
    rows.push_back({g[0]->host, g[0]->zone.empty() ? "-" : g[0]->zone,
                    g.size() == 1 ? text(g[0]->rank) : text(g.front()->rank, " ... ", g.back()->rank, " (", g.size(), ")"),
                    text(g[0]->threads), g[0]->type});
  return rows;
}

const std::map<cluster::LinkLevel, std::string>& level_names() {
  static const std::map<cluster::LinkLevel, std::string> levels{
      {cluster::LinkLevel::node, "node"}, {cluster::LinkLevel::zone, "zone"}, {cluster::LinkLevel::wide, "wide"}};
  return levels;
}

const Row link_titles{"level", "from", "to", "latency (8 B)", "64 KiB", "1 MiB", "8 MiB", "variability"};

Row link_row(const cluster::Link& link) {
  Row row{level_names().at(link.level), link.from, link.to, to_string(cluster::transfer_time(link, {8}))};
  for (Bytes size : {Bytes{64 << 10}, Bytes{1 << 20}, Bytes{8 << 20}})
    row.push_back(to_string(BytesPerSecond{static_cast<double>(size.count) / cluster::transfer_time(link, size).value}));
  row.push_back(fixed(100 * link.relative_scatter, 0) + " %");
  return row;
}

std::vector<Row> link_rows(const cluster::Profile& profile) {
  std::vector<Row> rows{link_titles};
  for (const auto& link : profile.links) rows.push_back(link_row(link));
  return rows;
}

std::vector<Row> device_link_rows(const cluster::Profile& profile, cluster::Transport transport) {
  std::vector<Row> rows{link_titles};
  for (const auto& known : profile.device_links)
    if (known.transport == transport && known.refusal.empty()) rows.push_back(link_row(known.link));
  return rows;
}

/// "n1 x 4, n2 x 4".
std::string hosts_of(const cluster::GroupSum& sum) {
  std::map<std::string, int> count;
  for (const auto& place : sum.members) ++count[place.host];
  std::string all;
  for (const auto& [host, members] : count) all += text(all.empty() ? "" : ", ", host, " x ", members);
  return all;
}

std::vector<Row> group_sum_rows(const cluster::Profile& profile, cluster::Transport transport, bool by_library) {
  std::vector<Row> rows{{"members", "64 KiB", "1 MiB", "8 MiB", "variability"}};
  for (const auto& sum : profile.group_sums) {
    if (sum.transport != transport || sum.by_library != by_library || !sum.refusal.empty()) continue;
    cluster::Link fit;
    fit.pieces = sum.pieces;
    Row row{hosts_of(sum)};
    for (Bytes size : {Bytes{64 << 10}, Bytes{1 << 20}, Bytes{8 << 20}}) row.push_back(to_string(cluster::transfer_time(fit, size)));
    row.push_back(fixed(100 * sum.relative_scatter, 0) + " %");
    rows.push_back(std::move(row));
  }
  return rows;
}

/// One line each: a reason is too long for a column.
std::string refusals(const cluster::Profile& profile) {
  std::string lines;
  for (const auto& known : profile.device_links)
    if (!known.refusal.empty())
      lines += text(cluster::in_words(known.transport), " does not join the GPUs of ", known.link.from,
                    known.link.from == known.link.to ? "" : " and " + known.link.to, ": ", known.refusal, "\n");
  for (const auto& sum : profile.group_sums)
    if (!sum.refusal.empty())
      lines +=
          sum.by_library
              ? text(cluster::in_words(sum.transport), "'s own all-reduce over the GPUs of ", hosts_of(sum), ": ", sum.refusal, "\n")
              : text(cluster::in_words(sum.transport), " does not join the GPUs of ", hosts_of(sum), " as a group: ", sum.refusal, "\n");
  return lines.empty() ? lines : lines + "\n";
}

/// Of CPUs that could be measured: exactly nothing is a measurement, too.
std::vector<Row> interference_rows(const cluster::Profile& profile) {
  std::vector<Row> rows{{"device type", "computing loses", "a message is late by"}};
  for (const auto& type : profile.device_types)
    if (type.interference.any() || (type.kind == cluster::DeviceKind::cpu && profile.devices.size() > 1))
      rows.push_back({type.name, fixed(100 * type.interference.compute_share, 1) + " %", to_string(type.interference.message_delay)});
  return rows;
}

std::vector<Row> uplink_rows(const cluster::Profile& profile) {
  std::vector<Row> rows{{"zone", "all its hosts together"}};
  for (const auto& uplink : profile.uplinks) rows.push_back({uplink.zone, to_string(uplink.bandwidth)});
  return rows;
}

Row operation_row(const cluster::Profile& profile, const model::Config& model, const cluster::OperationTime& t) {
  Row row{t.operation, to_string(t.precision), text(t.tensor_parallel), text(t.sequences), to_string(t.time)};
  const model::LayerShape shape{t.sequences, t.length, t.tensor_parallel, 0, t.precision};
  const double flops = model::flops(model, shape, model::parse_operation(t.operation));
  const auto* type = cluster::find_type(profile, t.device_type);
  const double peak = type == nullptr ? 0 : cluster::product_peak(*type, t.precision).value;
  const double reached = t.time.value > 0 ? flops / t.time.value : 0;
  row.push_back(flops > 0 ? rate(reached / 1e9) : "-");
  row.push_back(flops > 0 && peak > 0 ? fixed(100 * reached / peak, 0) + " %" : "-");
  row.push_back(fixed(100 * t.relative_scatter, 0) + " %");
  return row;
}

std::vector<Row> operation_rows(const cluster::Profile& profile, const model::Config& model, const std::string& type) {
  std::vector<Row> rows{{"operation", "type", "tp", "seqs", "time", "GFLOP/s", "of peak", "+-"}};
  for (const auto& t : profile.operation_times)
    if (t.device_type == type && !cluster::is_per_element(t.operation)) rows.push_back(operation_row(profile, model, t));
  return rows;
}

std::vector<Row> element_rows(const cluster::Profile& profile, const std::string& type) {
  std::vector<Row> rows{{"per million elements", "type", "time", "+-"}};
  for (const auto& t : profile.operation_times)
    if (t.device_type == type && cluster::is_per_element(t.operation))
      rows.push_back({t.operation, to_string(t.precision), to_string(t.time), fixed(100 * t.relative_scatter, 0) + " %"});
  return rows;
}

/// What commas and semicolons list, as many items a line as a terminal of 80 columns takes.
std::string in_lines(const std::string& list) {
  constexpr std::size_t width = 80;
  std::string out, line;
  for (std::size_t begin = 0, end = 0; begin < list.size(); begin = end) {
    end = std::min(list.find_first_of(",;", begin), list.size() - 1) + 1;
    const auto item = list.substr(begin, end - begin);
    if (!line.empty() && line.size() + item.size() > width) {
      out += line + '\n';
      line.clear();
    }
    line += line.empty() ? "  " + item.substr(std::min(item.find_first_not_of(' '), item.size())) : item;
  }
  return line.empty() ? out : out + line + '\n';
}

}  // namespace

std::string table(const cluster::Profile& profile, const model::Config& model) {
  std::ostringstream out;
  out << "measured " << profile.measured_at << " with\n"
      << in_lines(profile.software) << "for\n"
      << in_lines(profile.model_fingerprint) << '\n';
  print(out, "Device types", type_rows(profile));
  print(out, "Copies (pinned memory of the host)", copy_rows(profile));
  print(out, "Interference (exchanges beside computing)", interference_rows(profile));
  print(out, "Devices", device_rows(profile));
  print(out, "Links (one way)", link_rows(profile));
  for (const auto transport : cluster::device_transports)
    print(out, text("Links between GPUs by ", cluster::in_words(transport), " (one way)"), device_link_rows(profile, transport));
  for (const auto transport : cluster::device_transports)
    print(out, text("All-reduces over groups of GPUs by ", cluster::in_words(transport)), group_sum_rows(profile, transport, false));
  print(out, "NCCL's own all-reduces over groups of GPUs", group_sum_rows(profile, cluster::Transport::nccl, true));
  out << refusals(profile);
  print(out, "Uplinks (each way; shared by the hosts of a zone towards other zones)", uplink_rows(profile));
  for (const auto& type : profile.device_types) {
    print(out, "Operations on " + type.name, operation_rows(profile, model, type.name));
    print(out, "Vectors on " + type.name, element_rows(profile, type.name));
  }
  return out.str();
}

}  // namespace flotilla::probe
