#pragma once
#include <filesystem>
#include <functional>
#include <string>

#include "flotilla/bench/report.hpp"

namespace flotilla::health {

/// Leaves a node's report in the folder, for collect(): all or nothing, again and again while it is measured. Throws as
/// files::write_text() does.
void publish(const std::filesystem::path& folder, const bench::NodeReport&);

/// How long collect() waits.
struct CollectPatience {
  Seconds silence{30};                                 ///< for a sign of life of a node: its first, or the next
  std::function<void(const std::string&)> progress{};  ///< told who is waited for
};

/// Reads reports of this folder until every node is done or silent for too long. Local; nodes that share the file system write the reports.
bench::BenchReport collect(const std::filesystem::path& folder, const bench::Expected&, const CollectPatience&);

}  // namespace flotilla::health
