#include <cmath>

#include "flotilla/base/figures.hpp"
#include "flotilla/files/fabric_links_file.hpp"
#include "profile_sections.hpp"

namespace flotilla::files {
namespace {

using bench::FabricLink;
using bench::FabricPoint;
using detail::Node;

constexpr double share_tolerance = 0.01;  // a hand-written share is rounded

Node fabric_point_object(const FabricPoint& p) {
  return Node::Object{{"size_bytes", p.size.count},
                      {"ucx_latency_s", p.ucx_latency.value},
                      {"mpi_latency_s", p.mpi_latency.value},
                      {"ucx_bytes_per_s", p.ucx.value},
                      {"mpi_bytes_per_s", p.mpi.value}};
}

Node fabric_link_object(const FabricLink& link) {
  Node::Object object{{"from", link.from}, {"to", link.to}};
  if (!link.refusal.empty())
    object.emplace_back("refusal", link.refusal);
  else
    object.insert(object.end(), {{"mpi_share", bench::mpi_share(link)}, {"points", array_of(link.points, fabric_point_object)}});
  return object;
}

/// A time or a rate.
double above_zero(const Json& object, std::string_view key) {
  const double value = object.get_double(key, 0);
  if (value <= 0) object.at(key).refuse("is 0; expected a number above 0");
  return value;
}

FabricPoint fabric_point_of(const Json& object) {
  object.expect_keys({"size_bytes", "ucx_latency_s", "mpi_latency_s", "ucx_bytes_per_s", "mpi_bytes_per_s"});
  return {{object.get_int64("size_bytes", 1)},
          {above_zero(object, "ucx_latency_s")},
          {above_zero(object, "mpi_latency_s")},
          {above_zero(object, "ucx_bytes_per_s")},
          {above_zero(object, "mpi_bytes_per_s")}};
}

std::vector<FabricPoint> fabric_points_of(const Json& list) {
  std::vector<FabricPoint> points;
  for (const Json& place : entries(list)) {
    points.push_back(fabric_point_of(place));
    if (points.size() > 1 && points.back().size <= points[points.size() - 2].size)
      place.at("size_bytes").refuse(text("is ", points.back().size.count, "; expected increasing sizes"));
  }
  if (points.empty()) list.refuse("is empty; expected at least one point, or a refusal in its place");
  return points;
}

/// The share is written for people; it must say what the points say.
void check_share(const Json& place, const FabricLink& link) {
  const double share = bench::mpi_share(link);
  if (std::abs(place.as_double(0) - share) > share_tolerance * share)
    place.refuse(text("is ", place.one_line(), "; the largest size says ", formatted("%.3g", share), ": correct one of the two"));
}

FabricLink fabric_link_of(const Json& object) {
  object.expect_keys({"from", "to", "mpi_share", "points", "refusal"});
  FabricLink link{object.get_string("from"), object.get_string("to"), {}, {}};
  if (object.has("refusal")) {
    link.refusal = object.get_string("refusal");
    if (link.refusal.empty()) object.at("refusal").refuse("is empty; expected a reason, or points in its place");
    return link;
  }
  link.points = fabric_points_of(object.at("points"));
  if (object.has("mpi_share")) check_share(object.at("mpi_share"), link);
  return link;
}

}  // namespace

detail::Node fabric_links_node(const std::vector<FabricLink>& links) { return array_of(links, fabric_link_object); }

std::vector<FabricLink> fabric_links_of(const Json& document) {
  std::vector<FabricLink> links;
  if (!document.has("fabric_links")) return links;
  for (const Json& link : entries(document.at("fabric_links"))) links.push_back(fabric_link_of(link));
  return links;
}

}  // namespace flotilla::files
