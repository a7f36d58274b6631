#include "flotilla/health/collect.hpp"

#include <algorithm>
#include <chrono>
#include <map>
#include <thread>

#include "flotilla/base/clock.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/base/utc.hpp"
#include "flotilla/files/bench_file.hpp"
#include "flotilla/files/look.hpp"
#include "flotilla/files/text_file.hpp"

namespace flotilla::health {
namespace {

namespace fs = std::filesystem;

constexpr Seconds between_looks{0.2};
constexpr std::string_view ending = ".json";

fs::path nodes_of(const fs::path& folder) { return folder / "nodes"; }

/// What has been seen of one node.
struct Seen {
  bench::NodeReport report;
  double modified = 0;
  Seconds changed;  ///< by our clock
};

class Collection {
 public:
  Collection(fs::path folder, const bench::Expected& expected) : folder_{nodes_of(folder)}, expected_{expected} {
    for (const auto& host : expected.hosts) waited_for_[host] = now();
  }

  void look() {
    for (const auto& name : files::names_in(folder_).value_or(std::vector<std::string>{}))
      if (name.ends_with(ending)) look_at(name);
  }

  /// Names of nodes that may still report.
  std::vector<std::string> pending(Seconds silence) const {
    std::vector<std::string> hosts;
    for (const auto& [host, since] : waited_for_)
      if (!seen_.contains(host) && now() - since < silence) hosts.push_back(host);
    for (const auto& [host, seen] : seen_)
      if (!seen.report.done && now() - seen.changed < silence) hosts.push_back(host);
    const int unseen = nameless();
    if (unseen > 0 && now() - start_ < silence) hosts.push_back(text(unseen, unseen == 1 ? " node" : " nodes"));
    return hosts;
  }

  bench::BenchReport result() const {
    bench::BenchReport report;
    report.measured_at = utc_now();
    for (const auto& [host, seen] : seen_) {
      if (seen.report.done)
        report.nodes.push_back(seen.report);
      else
        report.lost.push_back({host, seen.report.doing});
    }
    for (const auto& [host, since] : waited_for_)
      if (!seen_.contains(host)) report.lost.push_back({host, ""});
    if (const int unseen = nameless(); unseen > 0) report.lost.push_back({text(unseen, unseen == 1 ? " node" : " nodes"), ""});
    return report;
  }

 private:
  int nameless() const { return expected_.hosts.empty() ? std::max(0, expected_.count - static_cast<int>(seen_.size())) : 0; }

  void look_at(const std::string& name) {
    const auto path = folder_ / name;
    const auto facts = files::facts_of(path);
    const auto host = name.substr(0, name.size() - ending.size());
    const auto known = seen_.find(host);
    if (!facts || (known != seen_.end() && known->second.modified == facts->modified)) return;
    seen_[host] = {files::read_node_report(path), facts->modified, now()};
  }

  fs::path folder_;
  const bench::Expected& expected_;
  Seconds start_ = now();
  std::map<std::string, Seconds> waited_for_;
  std::map<std::string, Seen> seen_;
};

}  // namespace

void publish(const fs::path& folder, const bench::NodeReport& report) {
  for (const auto& made : {folder, nodes_of(folder)}) files::make_own_folder(made);
  files::write_text(nodes_of(folder) / (report.host + std::string{ending}), files::node_report_to_json(report), files::Flush::no);
}

bench::BenchReport collect(const fs::path& folder, const bench::Expected& expected, const CollectPatience& patience) {
  Collection collection{folder, expected};
  for (;;) {
    collection.look();
    const auto pending = collection.pending(patience.silence);
    if (pending.empty()) return collection.result();
    if (patience.progress)
      patience.progress(pending.size() == 1 ? pending.front() : text(pending.front(), " and ", pending.size() - 1, " more"));
    std::this_thread::sleep_for(std::chrono::duration<double>{between_looks.value});
  }
}

}  // namespace flotilla::health
