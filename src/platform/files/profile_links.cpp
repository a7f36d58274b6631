#include <algorithm>

#include "flotilla/base/foreign_text.hpp"
#include "profile_sections.hpp"

namespace flotilla::files {
namespace {

using cluster::LinkLevel;
using detail::Node;

constexpr double most_price = 1e9;  // of an hour of a device

Node piece_object(const cluster::LinkPiece& p) {
  return Node::Object{{"from_bytes", p.from.count}, {"latency_s", p.latency.value}, {"bandwidth_bytes_per_s", p.bandwidth.value}};
}

Node link_object(const cluster::Link& l) {
  Node::Object object{{"level", spelling(link_levels, l.level)}, {"from", l.from}, {"to", l.to}, {"relative_scatter", l.relative_scatter}};
  if (l.lanes != 1) object.emplace_back("lanes", l.lanes);
  object.emplace_back("pieces", array_of(l.pieces, piece_object));
  if (!l.sum_pieces.empty()) object.emplace_back("sum_pieces", array_of(l.sum_pieces, piece_object));
  return object;
}

cluster::LinkPiece piece_of(const Json& object) {
  object.expect_keys({"from_bytes", "latency_s", "bandwidth_bytes_per_s"});
  const cluster::LinkPiece piece{
      {object.get_int64("from_bytes", 0)}, {object.get_double("latency_s")}, {object.get_double("bandwidth_bytes_per_s", slowest_rate)}};
  // The line of a later piece may cross zero, but not where the piece holds.
  if (piece.latency.value + (piece.from / piece.bandwidth).value < 0)
    object.at("latency_s").refuse(text("messages of ", piece.from.count, " bytes would take less than no time"));
  return piece;
}

std::vector<cluster::LinkPiece> pieces_of(const Json& list) {
  std::vector<cluster::LinkPiece> pieces;
  for (const Json& piece : entries(list)) {
    pieces.push_back(piece_of(piece));
    const std::int64_t from = pieces.back().from.count;
    const bool rises = pieces.size() == 1 ? from == 0 : from > pieces[pieces.size() - 2].from.count;
    if (!rises) piece.at("from_bytes").refuse(text("is ", from, "; expected 0 in the first piece, then increasing sizes"));
  }
  if (pieces.empty()) list.refuse("is empty; expected at least one piece");
  return pieces;
}

cluster::Link link_of(const Json& object) {
  object.expect_keys({"level", "from", "to", "relative_scatter", "lanes", "pieces", "sum_pieces"});
  cluster::Link link;
  link.level = parse_enum<LinkLevel>(object.at("level"), link_levels);
  link.from = object.get_string("from");
  link.to = object.get_string("to");
  if (object.has("relative_scatter")) link.relative_scatter = object.get_double("relative_scatter", 0);
  if (object.has("lanes")) link.lanes = object.get_int("lanes", 1, most_devices);
  link.pieces = pieces_of(object.at("pieces"));
  if (object.has("sum_pieces")) link.sum_pieces = pieces_of(object.at("sum_pieces"));
  return link;
}

constexpr std::array<std::string_view, cluster::transport_count> transports{"host", "nccl", "device-mpi"};

Node device_link_object(const cluster::DeviceLink& l) {
  Node::Object object{{"transport", spelling(transports, l.transport)}};
  if (l.refusal.empty()) {
    object.emplace_back("link", link_object(l.link));
    return object;
  }
  object.insert(object.end(),
                {{"level", spelling(link_levels, l.link.level)}, {"from", l.link.from}, {"to", l.link.to}, {"refusal", l.refusal}});
  return object;
}

cluster::Transport device_transport_of(const Json& object) {
  const auto transport = parse_enum<cluster::Transport>(object.at("transport"), transports);
  if (transport == cluster::Transport::host)
    object.at("transport").refuse("\"host\" is described by links and copies; expected another transport");
  return transport;
}

std::string refusal_of(const Json& object) {
  std::string refusal = object.get_string("refusal");
  if (refusal.empty()) object.at("refusal").refuse("is empty; expected a reason, or what was measured in its place");
  return refusal;
}

cluster::DeviceLink device_link_of(const Json& object) {
  object.expect_keys({"transport", "link", "level", "from", "to", "refusal"});
  cluster::DeviceLink known;
  known.transport = device_transport_of(object);
  if (object.has("link")) {
    known.link = link_of(object.at("link"));
    return known;
  }
  known.link.level = parse_enum<LinkLevel>(object.at("level"), link_levels);
  known.link.from = object.get_string("from");
  known.link.to = object.get_string("to");
  known.refusal = refusal_of(object);
  return known;
}

Node place_object(const cluster::DevicePlace& place) { return Node::Object{{"host", place.host}, {"local_rank", place.local_rank}}; }

enum class Reduction { ordered, nccl };  // as comm.reduction
constexpr std::array<std::string_view, 2> reductions{"ordered", "nccl"};

Node group_sum_object(const cluster::GroupSum& sum) {
  Node::Object object{{"transport", spelling(transports, sum.transport)}, {"members", array_of(sum.members, place_object)}};
  if (sum.by_library) object.emplace_back("reduction", spelling(reductions, Reduction::nccl));
  if (!sum.refusal.empty())
    object.emplace_back("refusal", sum.refusal);
  else
    object.insert(object.end(), {{"relative_scatter", sum.relative_scatter}, {"pieces", array_of(sum.pieces, piece_object)}});
  return object;
}

std::vector<cluster::DevicePlace> members_of(const Json& list, bool by_library) {
  const std::size_t least = by_library ? 2 : 3;
  std::vector<cluster::DevicePlace> members;
  for (const Json& place : entries(list)) {
    place.expect_keys({"host", "local_rank"});
    cluster::DevicePlace member{place.get_string("host"), place.get_int("local_rank", 0)};
    if (std::ranges::find(members, member) != members.end()) place.refuse("is a member already; remove one");
    members.push_back(std::move(member));
  }
  if (members.size() < least)
    list.refuse(text("has ", members.size(), " members; expected at least ", least, by_library ? "" : ": pairs have links"));
  return members;
}

cluster::GroupSum group_sum_of(const Json& object) {
  object.expect_keys({"transport", "members", "reduction", "relative_scatter", "pieces", "refusal"});
  cluster::GroupSum sum;
  sum.transport = device_transport_of(object);
  sum.by_library = object.has("reduction") && parse_enum<Reduction>(object.at("reduction"), reductions) == Reduction::nccl;
  if (sum.by_library && sum.transport != cluster::Transport::nccl)
    object.at("reduction").refuse("is \"nccl\", but the transport is another; expected \"ordered\", or NCCL as transport");
  sum.members = members_of(object.at("members"), sum.by_library);
  if (object.has("refusal")) {
    sum.refusal = refusal_of(object);
    return sum;
  }
  sum.relative_scatter = object.get_double("relative_scatter", 0);
  sum.pieces = pieces_of(object.at("pieces"));
  return sum;
}

Node zone_price_object(const cluster::ZonePrice& p) {
  Node::Object object{{"device_type", p.device_type}, {"zone", p.zone}};
  if (p.usd_per_hour != 0) object.emplace_back("usd_per_hour", p.usd_per_hour);
  if (p.billing_weight != 0) object.emplace_back("billing_weight", p.billing_weight);
  return object;
}

cluster::ZonePrice zone_price_of(const Json& object, const cluster::Profile& profile) {
  object.expect_keys({"device_type", "zone", "usd_per_hour", "billing_weight"});
  const auto price = [&](const char* key) { return object.has(key) ? object.at(key).as_double(0, most_price) : 0; };
  return {known_type(object.at("device_type"), profile), object.get_string("zone"), price("usd_per_hour"), price("billing_weight")};
}

Node price_object(const cluster::EgressPrice& p) {
  return Node::Object{{"from_zone", p.from_zone}, {"to_zone", p.to_zone}, {"usd_per_byte", p.usd_per_byte}};
}

cluster::EgressPrice price_of(const Json& object) {
  object.expect_keys({"from_zone", "to_zone", "usd_per_byte"});
  return {object.get_string("from_zone"), object.get_string("to_zone"), object.at("usd_per_byte").as_double(0, 1)};
}

Node uplink_object(const cluster::Uplink& u) { return Node::Object{{"zone", u.zone}, {"bandwidth_bytes_per_s", u.bandwidth.value}}; }

cluster::Uplink uplink_of(const Json& object) {
  object.expect_keys({"zone", "bandwidth_bytes_per_s"});
  return {object.get_string("zone"), {object.get_double("bandwidth_bytes_per_s", slowest_rate)}};
}

}  // namespace

detail::Node links_node(const cluster::Profile& p) { return array_of(p.links, link_object); }
detail::Node egress_prices_node(const cluster::Profile& p) { return array_of(p.egress_prices, price_object); }
detail::Node zone_prices_node(const cluster::Profile& p) { return array_of(p.zone_prices, zone_price_object); }

void read_links(const Json& list, cluster::Profile& profile) {
  for (const Json& link : entries(list)) profile.links.push_back(link_of(link));
}

detail::Node uplinks_node(const cluster::Profile& p) { return array_of(p.uplinks, uplink_object); }

void read_uplinks(const Json& list, cluster::Profile& profile) {
  for (const Json& place : entries(list)) {
    cluster::Uplink uplink = uplink_of(place);
    if (cluster::uplink_of(profile, uplink.zone))
      place.at("zone").refuse(text(in_quotes(uplink.zone), " has an uplink already; remove one"));
    profile.uplinks.push_back(std::move(uplink));
  }
}

detail::Node device_links_node(const cluster::Profile& p) { return array_of(p.device_links, device_link_object); }

void read_device_links(const Json& list, cluster::Profile& profile) {
  for (const Json& link : entries(list)) profile.device_links.push_back(device_link_of(link));
}

detail::Node group_sums_node(const cluster::Profile& p) { return array_of(p.group_sums, group_sum_object); }

void read_group_sums(const Json& list, cluster::Profile& profile) {
  for (const Json& sum : entries(list)) profile.group_sums.push_back(group_sum_of(sum));
}

void read_egress_prices(const Json& list, cluster::Profile& profile) {
  for (const Json& price : entries(list)) profile.egress_prices.push_back(price_of(price));
}

void read_zone_prices(const Json& list, cluster::Profile& profile) {
  for (const Json& place : entries(list)) {
    const auto price = zone_price_of(place, profile);
    const auto known = profile.zone_prices.size();
    cluster::zone_price(profile, price.device_type, price.zone) = price;
    if (profile.zone_prices.size() == known)
      place.at("zone").refuse(text("'", price.zone, "' has prices of ", price.device_type, " already; remove one"));
  }
}

}  // namespace flotilla::files
