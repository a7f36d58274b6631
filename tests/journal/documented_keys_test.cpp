// docs/formats/run-directory.md names every file and every key that is written.
#include <set>

#include "flotilla/files/json.hpp"
#include "flotilla/journal/metrics.hpp"
#include "flotilla/journal/outcome.hpp"
#include "flotilla/journal/run_directory.hpp"
#include "journal/run_folder.hpp"

namespace flotilla::journal {
namespace {

using namespace testing;

/// The part of the page under the heading that names the file.
std::string section_of(const std::string& file) {
  const auto page = content(FLOTILLA_RUN_DIRECTORY_PAGE);
  const auto begin = page.find("\n## " + file);
  EXPECT_NE(begin, std::string::npos) << "no section for " << file;
  return begin == std::string::npos ? "" : page.substr(begin, page.find("\n## ", begin + 4) - begin);
}

void expect_documented(const std::filesystem::path& file, const std::string& heading) {
  const auto page = section_of(heading);
  std::ifstream in{file};
  std::string line;
  int lines = 0;
  for (; std::getline(in, line); ++lines) {
    const auto json = files::Json::parse(line, file.string());
    for (const auto& key : json.keys())
      EXPECT_NE(page.find("`" + key + "`"), std::string::npos) << key << " is not documented under " << heading;
    if (json.has("event")) {
      const auto event = json.get_string("event");
      EXPECT_NE(page.find("`" + event + "`"), std::string::npos) << event << " is not documented under " << heading;
    }
  }
  EXPECT_GT(lines, 0) << file;
}

TEST(DocumentedKeys, OfEveryFile) {
  const RunFolder run;
  auto held = RunDirectory::open(run);
  MetricsWriter writer{run, 1};
  writer.write(StepRecord{.digest = "0", .sources = {{"a", 1, 1}}});
  writer.write(StartRecord{.changed = "clip 1 -> 2"});
  writer.write(DevicesRecord{.devices = {{"a", "b", 1, 1}}});
  writer.write(StartedRecord{});
  writer.write(EvaluationRecord{});
  writer.write(CheckpointRecord{.pause_seconds = 0.1, .local = "/tmp/x", .hosts = "n1"});
  writer.write(ForecastRecord{});
  writer.write(CorrectionRecord{.figures = {{}}});
  writer.write(PlanRecord{});
  writer.write(PhaseRecord{.phase = "a", .length = 1, .global_batch = 1});
  writer.write(SlowRecord{});
  writer.write(StopRecord{});
  writer.write(StopRecord{.refused = true});
  write_outcome(run, {.incarnation = 1});
  held.release();
  expect_documented(metrics_file(run), "metrics.jsonl");
  expect_documented(run / "incarnations/1.json", "incarnations/N.json");
  expect_documented(run / "outcomes/1.0.json", "outcome.json");
  expect_documented(outcome_file(run), "outcome.json");
}

TEST(DocumentedKeys, OfEveryExitCode) {
  const auto page = section_of("outcome.json");
  for (const int code : {0, 64, 65, 66, 69, 70, 75, 76, 77}) EXPECT_NE(page.find(text("| ", code, " |")), std::string::npos) << code;
}

}  // namespace
}  // namespace flotilla::journal
