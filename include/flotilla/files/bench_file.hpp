#pragma once
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "flotilla/bench/report.hpp"

/// Reports of `flotilla bench` on disk: "flotilla-bench" (docs/formats/bench.md), and the file in which a node reports by itself.
namespace flotilla::files {

std::string bench_to_json(const bench::BenchReport&);
/// `source` names the text in messages. Throws Error{bad_input}.
bench::BenchReport bench_from_json(std::string_view json, std::string_view source);
bench::BenchReport read_bench(const std::filesystem::path&);

std::string node_report_to_json(const bench::NodeReport&);
/// Throws Error{bad_input}.
bench::NodeReport read_node_report(const std::filesystem::path&);

/// Reports of a history folder, oldest first, the newest `most` of them; none where there is no folder. A file that cannot be read is left
/// out and named in `refused`.
std::vector<bench::BenchReport> read_bench_history(const std::filesystem::path& folder, std::size_t most,
                                                   std::vector<std::string>& refused);
/// Writes a report to a history folder under a name of its own, made from its date, and returns it. Makes the folder.
std::filesystem::path add_to_bench_history(const std::filesystem::path& folder, const bench::BenchReport&);

}  // namespace flotilla::files
