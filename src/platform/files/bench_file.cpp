#include "flotilla/files/bench_file.hpp"

#include <algorithm>
#include <span>

#include "bench_load.hpp"
#include "document.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/files/look.hpp"
#include "flotilla/files/text_file.hpp"
#include "node.hpp"

namespace flotilla::files {
namespace {

namespace fs = std::filesystem;
using bench::NodeReport;
using detail::Node;

constexpr std::string_view bench_format = "flotilla-bench", node_format = "flotilla-bench-node", history_ending = ".json";
constexpr std::int64_t bench_version = 1;

template <class T, class ToNode>
Node::Array bench_array(const std::vector<T>& all, ToNode to_node) {
  Node::Array array;
  for (const auto& one : all) array.push_back(to_node(one));
  return array;
}

Node::Object bench_head(std::string_view name) { return {{"format", std::string{name}}, {"version", bench_version}}; }

Node::Object object_of(const NodeReport& node) {
  Node::Object properties, figures, answers, failures;
  for (const auto& p : node.properties) properties.push_back({p.name, p.value});
  for (const auto& f : node.figures) figures.push_back({f.name, f.value});
  for (const auto& a : node.answers) answers.push_back({a.name, a.digest});
  for (const auto& f : node.failures) failures.push_back({f.test, f.reason});
  Node::Object object{{"host", node.host},
                      {"type", node.type},
                      {"partition", node.partition},
                      {"switch", node.network_switch},
                      {"measured_at", node.measured_at},
                      {"done", node.done},
                      {"doing", node.doing},
                      {"properties", properties},
                      {"clock_error_seconds", node.clock_error},
                      {"clock_synchronized", node.clock_synchronized},
                      {"figures", figures},
                      {"cores", bench_array(node.cores,
                                            [](const auto& c) {
                                              return Node::Object{{"cpu", c.cpu}, {"digest", c.digest}, {"step_seconds", c.step.value}};
                                            })},
                      {"answers", answers},
                      {"failures", failures},
                      {"others_share", node.others},
                      {"card", detail::card_node(node.card)}};
  if (node.soak) object.push_back({"soak", detail::soak_node(*node.soak)});
  return object;
}

/// Members of an object of texts.
template <class T>
std::vector<T> texts_of(const Json& object) {
  std::vector<T> all;
  for (const auto& key : object.keys()) all.push_back({key, object.get_string(key)});
  return all;
}

std::vector<bench::MeasuredFigure> figures_of(const Json& object) {
  std::vector<bench::MeasuredFigure> all;
  for (const auto& key : object.keys()) {
    const Json place = object.at(key);
    all.push_back({key, place.as_double(0)});
    try {
      bench::kind_of(key);
    } catch (const Error&) {
      place.refuse("no figure of flotilla bench; a newer version's? measure again");
    }
  }
  return all;
}

NodeReport node_of(const Json& json) {
  NodeReport node;
  node.host = json.get_string("host");
  node.type = json.get_string("type");
  node.partition = json.get_string("partition");
  node.network_switch = json.get_string("switch");
  node.measured_at = json.get_string("measured_at");
  node.done = json.get_bool("done");
  node.doing = json.get_string("doing");
  node.properties = texts_of<bench::Property>(json.at("properties"));
  node.clock_error = json.get_double("clock_error_seconds");
  node.clock_synchronized = json.get_bool("clock_synchronized");
  node.figures = figures_of(json.at("figures"));
  for (const auto& core : json.at("cores").items())
    node.cores.push_back({core.get_int("cpu", 0), core.get_string("digest"), {core.get_double("step_seconds", 0)}});
  node.answers = texts_of<bench::AnswerDigest>(json.at("answers"));
  node.failures = texts_of<bench::Failure>(json.at("failures"));
  if (json.has("others_share")) node.others = json.get_double("others_share", -1);
  if (json.has("card")) node.card = detail::card_of(json.at("card"));
  if (json.has("soak")) node.soak = detail::soak_of(json.at("soak"));
  return node;
}

Node::Object object_of(const bench::LinkReport& link) {
  const auto points = bench_array(link.points, [](const bench::LinkPoint& p) {
    return Node::Object{{"bytes", p.size.count},
                        {"latency_seconds", p.latency.value},
                        {"stream_bytes_per_second", p.stream.value},
                        {"both_ways_bytes_per_second", p.both.value},
                        {"put_bytes_per_second", p.put.value}};
  });
  return {{"from", link.from}, {"to", link.to},           {"transport", link.transport}, {"alone", link.alone},
          {"points", points},  {"refusal", link.refusal}, {"segments", link.segments},   {"resent_segments", link.resent}};
}

bench::LinkReport link_report_of(const Json& json) {
  bench::LinkReport link{json.get_string("from"),   json.get_string("to"), json.get_string("transport"), json.get_bool("alone"), {},
                         json.get_string("refusal")};
  if (json.has("segments")) link.segments = json.get_int64("segments", 0), link.resent = json.get_int64("resent_segments", 0);
  for (const auto& p : json.at("points").items())
    link.points.push_back({{p.get_int64("bytes", 0)},
                           {p.get_double("latency_seconds", 0)},
                           {p.get_double("stream_bytes_per_second", 0)},
                           {p.get_double("both_ways_bytes_per_second", 0)},
                           {p.get_double("put_bytes_per_second", 0)}});
  return link;
}

Node::Object object_of(const bench::CollectiveReport& collective) {
  const auto points = bench_array(collective.points, [](const bench::CollectivePoint& p) {
    return Node::Object{{"bytes", p.size.count}, {"seconds", p.time.value}};
  });
  return {{"level", collective.level},
          {"name", collective.name},
          {"ranks", collective.ranks},
          {"points", points},
          {"refusal", collective.refusal}};
}

bench::CollectiveReport collective_of(const Json& json) {
  bench::CollectiveReport collective{
      json.get_string("level"), json.get_string("name"), json.get_int("ranks", 0), {}, json.get_string("refusal")};
  for (const auto& p : json.at("points").items()) collective.points.push_back({{p.get_int64("bytes", 0)}, {p.get_double("seconds", 0)}});
  return collective;
}

Node::Object object_of(const bench::Series& series) {
  const auto points = bench_array(series.points, [](const bench::SeriesPoint& p) {
    return Node::Object{{"bytes", p.size.count}, {"place", p.place}, {"value", p.value}};
  });
  const auto hosts = bench_array(series.hosts, [](const std::string& host) { return host; });
  return {{"program", series.program}, {"version", series.version}, {"quantity", series.quantity}, {"unit", series.unit}, {"hosts", hosts},
          {"source", series.source},   {"points", points},          {"fault", series.fault}};
}

bench::Series series_of(const Json& json) {
  bench::Series series{json.get_string("program"),
                       json.get_string("version"),
                       json.get_string("quantity"),
                       json.get_string("unit"),
                       {},
                       json.get_string("source"),
                       {},
                       json.get_string("fault")};
  if (series.unit != bench::unit::seconds && series.unit != bench::unit::bytes_per_second) json.at("unit").refuse("expected s or B/s");
  for (const auto& host : json.at("hosts").items()) series.hosts.push_back(host.as_string());
  for (const auto& p : json.at("points").items())
    series.points.push_back({{p.get_int64("bytes", 0)}, p.get_string("place"), p.get_double("value", 0)});
  return series;
}

/// "2026-11-23T19:00:00Z" as part of a file's name.
std::string name_of(const bench::BenchReport& report) {
  std::string date = report.measured_at;
  std::erase_if(date, [](char c) { return c == ':' || c == '/'; });
  return text("bench-", date);
}

}  // namespace

std::string bench_to_json(const bench::BenchReport& report) {
  auto document = bench_head(bench_format);
  document.push_back({"measured_at", report.measured_at});
  document.push_back({"nodes", bench_array(report.nodes, [](const auto& node) { return object_of(node); })});
  document.push_back({"lost", bench_array(report.lost, [](const auto& lost) {
                        return Node::Object{{"host", lost.host}, {"last", lost.last}};
                      })});
  document.push_back({"links", bench_array(report.links, [](const auto& link) { return object_of(link); })});
  document.push_back({"collectives", bench_array(report.collectives, [](const auto& collective) { return object_of(collective); })});
  document.push_back({"imported", bench_array(report.imported, [](const auto& series) { return object_of(series); })});
  document.push_back({"left_out", bench_array(report.left_out, [](const auto& what) { return what; })});
  return detail::pretty(Node{document}) + "\n";
}

bench::BenchReport bench_from_json(std::string_view json, std::string_view source) {
  const Json document = Json::parse(json, source);
  require_format(document, bench_format, bench_version);
  bench::BenchReport report;
  report.measured_at = document.get_string("measured_at");
  for (const auto& node : document.at("nodes").items()) report.nodes.push_back(node_of(node));
  for (const auto& lost : document.at("lost").items()) report.lost.push_back({lost.get_string("host"), lost.get_string("last")});
  for (const auto& link : document.at("links").items()) report.links.push_back(link_report_of(link));
  for (const auto& collective : document.at("collectives").items()) report.collectives.push_back(collective_of(collective));
  if (document.has("imported"))
    for (const auto& series : document.at("imported").items()) report.imported.push_back(series_of(series));
  if (document.has("left_out"))
    for (const auto& what : document.at("left_out").items()) report.left_out.push_back(what.as_string());
  return report;
}

bench::BenchReport read_bench(const fs::path& path) { return bench_from_json(read_text(path), path.string()); }

std::string node_report_to_json(const NodeReport& node) {
  auto document = bench_head(node_format);
  document.push_back({"node", object_of(node)});
  return detail::pretty(Node{document}) + "\n";
}

NodeReport read_node_report(const fs::path& path) {
  const Json document = Json::read(path);
  require_format(document, node_format, bench_version);
  return node_of(document.at("node"));
}

std::vector<bench::BenchReport> read_bench_history(const fs::path& folder, std::size_t most, std::vector<std::string>& refused) {
  auto names = names_in(folder).value_or(std::vector<std::string>{});
  std::erase_if(names, [](const std::string& name) { return !name.starts_with("bench-") || !name.ends_with(history_ending); });
  std::vector<bench::BenchReport> history;
  for (const auto& name : std::span{names}.last(std::min(most, names.size()))) try {
      history.push_back(read_bench(folder / name));
    } catch (const Error& error) {
      refused.push_back(error.what());
    }
  return history;
}

fs::path add_to_bench_history(const fs::path& folder, const bench::BenchReport& report) {
  make_own_folder(folder);
  fs::path path = folder / text(name_of(report), history_ending);
  for (int copy = 2; facts_of(path); ++copy) path = folder / text(name_of(report), "-", copy, history_ending);
  write_text(path, bench_to_json(report));
  return path;
}

}  // namespace flotilla::files
