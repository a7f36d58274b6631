// Published measurements come by the thousand: they are written as tables, one row a line, whose columns are named once. A table says what
// its rows have in common; neighbours that have it in common share one.
#include "profile_sections.hpp"

namespace flotilla::files {
namespace {

using detail::Node;

constexpr double longest_time = 1e9;  // seconds: thirty years; keeps every sum finite
constexpr double steepest_fit = 1e9;  // coefficients of a link fit
constexpr std::int64_t most_elements = std::int64_t{1} << 40;

constexpr std::array<std::string_view, 7> time_columns{"first_layer", "last_layer", "tensor_parallel", "sequences",
                                                       "forward_s",   "backward_s", "update_s"};
constexpr std::array<std::string_view, 7> size_columns{"first_layer",    "last_layer",      "tensor_parallel", "parameters",
                                                       "input_elements", "output_elements", "saved_elements"};
constexpr std::array<std::string_view, 6> fit_columns{"from_count", "to_count", "a", "b", "c", "most_bytes_per_s"};

template <std::size_t N>
Node columns_node(const std::array<std::string_view, N>& columns) {
  return array_of(columns, [](std::string_view name) { return Node{std::string{name}}; });
}

/// One table for each run of neighbours for which `alike`; `head` makes its first members, `row` a line.
template <std::size_t N, class Values, class Alike, class Head, class Row>
Node tables(const std::array<std::string_view, N>& columns, const Values& values, Alike alike, Head head, Row row) {
  Node::Array all;
  for (std::size_t first = 0, last = 0; first < values.size(); first = last) {
    Node::Array rows;
    for (last = first; last < values.size() && alike(values[first], values[last]); ++last) rows.push_back(row(values[last]));
    Node::Object table = head(values[first]);
    table.emplace_back("columns", columns_node(columns));
    table.emplace_back("rows", std::move(rows));
    all.push_back(std::move(table));
  }
  return all;
}

template <std::size_t N>
void expect_columns(const Json& place, const std::array<std::string_view, N>& columns) {
  const auto names = place.items();
  const bool same = std::equal(names.begin(), names.end(), columns.begin(), columns.end(),
                               [](const Json& found, std::string_view name) { return found.is_string() && found.as_string() == name; });
  if (!same) place.refuse(text("expected ", detail::one_line(columns_node(columns)), ", in this order"));
}

/// Calls `each` with the cells of every row.
template <std::size_t N, class Each>
void read_rows(const Json& table, const std::array<std::string_view, N>& columns, Each each) {
  expect_columns(table.at("columns"), columns);
  for (const Json& row : entries(table.at("rows"))) {
    const auto cells = row.items();
    if (cells.size() != N) row.refuse(text("expected ", N, " cells, got ", cells.size()));
    each(cells);
  }
}

/// `first`, `last`: a half-open range of layers.
void read_range(const std::vector<Json>& cells, int& first, int& last) {
  first = cells[0].as_int(0, most_devices);
  last = cells[1].as_int(first + 1, most_devices + 1);
}

void require_room(const Json& list, std::size_t held) {
  if (held > most_entries) list.refuse(text("has more than ", most_entries, " rows; split the library"));
}

Seconds time_in(const Json& cell) { return {cell.as_double(0, longest_time)}; }

cluster::LayerTime time_row(const std::vector<Json>& cells, cluster::LayerTime time) {
  read_range(cells, time.first_layer, time.last_layer);
  time.tensor_parallel = cells[2].as_int(1, most_devices);
  time.sequences = cells[3].as_int(1, most_devices);
  time.forward = time_in(cells[4]);
  time.backward = time_in(cells[5]);
  time.update = time_in(cells[6]);
  return time;
}

cluster::LayerSize size_row(const std::vector<Json>& cells, cluster::LayerSize size) {
  read_range(cells, size.first_layer, size.last_layer);
  size.tensor_parallel = cells[2].as_int(1, most_devices);
  std::int64_t* const counts[] = {&size.parameters, &size.input, &size.output, &size.saved};
  for (std::size_t i = 0; i < 4; ++i) *counts[i] = cells[3 + i].as_int64(0, most_elements);
  return size;
}

cluster::LinkFit fit_row(const std::vector<Json>& cells, cluster::LinkFit fit) {
  fit.from_count = cells[0].as_int(1, most_devices);
  fit.to_count = cells[1].as_int(1, most_devices);
  double* const coefficients[] = {&fit.a, &fit.b, &fit.c};
  for (std::size_t i = 0; i < 3; ++i) *coefficients[i] = cells[2 + i].as_double(-steepest_fit, steepest_fit);
  fit.most = {cells[5].as_double(slowest_rate)};
  return fit;
}

}  // namespace

detail::Node layer_times_node(const cluster::Profile& p) {
  using cluster::LayerTime;
  return tables(
      time_columns, p.layer_times,
      [](const LayerTime& a, const LayerTime& b) {
        return a.model == b.model && a.device_type == b.device_type && a.precision == b.precision;
      },
      [](const LayerTime& t) {
        return Node::Object{{"model", t.model}, {"device_type", t.device_type}, {"precision", to_string(t.precision)}};
      },
      [](const LayerTime& t) {
        return Node::Array{t.first_layer, t.last_layer, t.tensor_parallel, t.sequences, t.forward.value, t.backward.value, t.update.value};
      });
}

detail::Node layer_sizes_node(const cluster::Profile& p) {
  using cluster::LayerSize;
  return tables(
      size_columns, p.layer_sizes, [](const LayerSize& a, const LayerSize& b) { return a.model == b.model; },
      [](const LayerSize& s) {
        return Node::Object{{"model", s.model}};
      },
      [](const LayerSize& s) {
        return Node::Array{s.first_layer, s.last_layer, s.tensor_parallel, s.parameters, s.input, s.output, s.saved};
      });
}

detail::Node link_fits_node(const cluster::Profile& p) {
  using cluster::LinkFit;
  return tables(
      fit_columns, p.link_fits,
      [](const LinkFit& a, const LinkFit& b) {
        return a.from_zone == b.from_zone && a.from_type == b.from_type && a.to_zone == b.to_zone && a.to_type == b.to_type;
      },
      [](const LinkFit& f) {
        return Node::Object{{"from_zone", f.from_zone}, {"from_type", f.from_type}, {"to_zone", f.to_zone}, {"to_type", f.to_type}};
      },
      [](const LinkFit& f) { return Node::Array{f.from_count, f.to_count, f.a, f.b, f.c, f.most.value}; });
}

void read_layer_times(const Json& list, cluster::Profile& profile) {
  for (const Json& table : entries(list)) {
    table.expect_keys({"model", "device_type", "precision", "columns", "rows"});
    cluster::LayerTime common;
    common.model = table.get_string("model");
    common.device_type = known_type(table.at("device_type"), profile);
    common.precision = parse_at(table.at("precision"), parse_precision);
    read_rows(table, time_columns, [&](const auto& cells) { profile.layer_times.push_back(time_row(cells, common)); });
    require_room(list, profile.layer_times.size());
  }
}

void read_layer_sizes(const Json& list, cluster::Profile& profile) {
  for (const Json& table : entries(list)) {
    table.expect_keys({"model", "columns", "rows"});
    cluster::LayerSize common;
    common.model = table.get_string("model");
    read_rows(table, size_columns, [&](const auto& cells) { profile.layer_sizes.push_back(size_row(cells, common)); });
    require_room(list, profile.layer_sizes.size());
  }
}

void read_link_fits(const Json& list, cluster::Profile& profile) {
  for (const Json& table : entries(list)) {
    table.expect_keys({"from_zone", "from_type", "to_zone", "to_type", "columns", "rows"});
    cluster::LinkFit common;
    common.from_zone = get_string_or(table, "from_zone", "");
    common.from_type = known_type(table.at("from_type"), profile);
    common.to_zone = get_string_or(table, "to_zone", "");
    common.to_type = known_type(table.at("to_type"), profile);
    read_rows(table, fit_columns, [&](const auto& cells) { profile.link_fits.push_back(fit_row(cells, common)); });
    require_room(list, profile.link_fits.size());
  }
}

}  // namespace flotilla::files
