// What a run may be continued with.
#include "flotilla/session/data_record.hpp"

#include <gtest/gtest.h>

#include "support/refusal.hpp"

namespace flotilla::session {
namespace {

using tests::expect_refused;
using Files = std::vector<std::string>;

SourceRecord source(const std::string& name, const Files& files, double weight = 1) { return {name, weight, 0, files, {}, files.size()}; }

TEST(DataRecord, ReadsWhatItWrites) {
  auto grown = source("web \"1\"", {"a", "b", "c"}, 0.1);
  grown.epochs = 4;
  grown.files_at_start = 1;
  grown.growth = {{10, 2}, {30, 3}};
  const std::vector<SourceRecord> record{grown, source("", {"d"})};
  EXPECT_EQ(data_record_from_json(to_json(record), "manifest.json"), record);
}

TEST(DataRecord, OfADamagedManifestIsRefused) {
  const auto refuse = [](std::string json, const std::string& from, const std::string& to, const std::string& words) {
    const auto place = json.find(from);
    ASSERT_NE(place, json.npos) << from;
    expect_refused([&] { data_record_from_json(json.replace(place, from.size(), to), "manifest.json: /data"); }, "manifest.json: /data",
                   words);
  };
  auto grown = source("web", {"a", "b"});
  grown.files_at_start = 1;
  grown.growth = {{10, 2}};
  const auto good = to_json({grown});
  refuse(good, "\"weight\": 1", "\"weight\": 0", "/sources/0/weight");
  refuse(good, "\"weight\": 1", "\"weight\": -1", "/sources/0/weight");
  refuse(good, "\"epochs\": 0", "\"epochs\": -1", "/sources/0/epochs");
  refuse(good, "\"files_at_start\": 1", "\"files_at_start\": 3", "/sources/0/files_at_start");
  refuse(good, "\"files_at_start\": 1", "\"files_at_start\": 0", "/sources/0/files_at_start");
  refuse(good, "\"step\": 10", "\"step\": 0", "/sources/0/growth/0/step");
  refuse(good, "\"files\": 2", "\"files\": 1", "/sources/0/growth/0/files");
  refuse(good, "\"files\": 2", "\"files\": 9", "/sources/0/growth/0/files");
  refuse(good, "[\"a\", \"b\"]", "[\"a\", \"b\", \"c\"]", "says of 2 files");
  refuse(good, "\"name\"", "\"names\"", "name");
}

TEST(DataRecord, FilesMayBeMovedAndJoin) {
  const std::vector<SourceRecord> saved{source("web", {"a", "b", "b"}), source("code", {"c"})};
  EXPECT_EQ(continued(saved, {source("web", {"b", "a", "b"}), source("code", {"c"})}, 7, "step-7"), saved) << "in any order";
  auto grown = saved;
  grown[0].files = {"a", "b", "b", "e", "d"};
  grown[0].growth = {{7, 5}};
  const auto once = continued(saved, {source("web", {"e", "b", "a", "d", "b"}), source("code", {"c"})}, 7, "step-7");
  EXPECT_EQ(once, grown);
  auto twice = once;
  twice[1].files = {"c", "c"};
  twice[1].growth = {{9, 2}};
  EXPECT_EQ(continued(once, {source("web", {"e", "b", "a", "d", "b"}), source("code", {"c", "c"})}, 9, "step-9"), twice);
}

TEST(DataRecord, NothingElseMayChange) {
  const std::vector<SourceRecord> saved{source("web", {"a", "b"}), source("code", {"c"})};
  const auto refuse = [&](const std::vector<SourceRecord>& job, const std::string& words) {
    expect_refused([&] { continued(saved, job, 7, "run/step-7"); }, "run/step-7: ", words);
  };
  refuse({source("web", {"a"}), source("code", {"c"})}, "source 'web' has lost or changed a file");
  refuse({source("web", {"a", "x"}), source("code", {"c"})}, "fingerprint b");
  refuse({source("web", {"a", "b"})}, "the sources of data differ: saved with source 'web', source 'code', the job says source 'web'");
  refuse({source("code", {"c"}), source("web", {"a", "b"})}, "differ");
  refuse({source("web", {"a", "b"}, 2), source("code", {"c"})}, "the weight of source 'web' differs: saved with 1, the job says 2");
  auto ends = saved;
  ends[1].epochs = 2;
  refuse(ends, "number of epochs of source 'code'");
  expect_refused([&] { continued({source("", {"a"})}, {source("", {"b"})}, 1, "step-1"); }, "the training data has lost or changed");
}

}  // namespace
}  // namespace flotilla::session
