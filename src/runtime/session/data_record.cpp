#include "flotilla/session/data_record.hpp"

#include <algorithm>
#include <set>

#include "flotilla/base/error.hpp"
#include "flotilla/base/foreign_text.hpp"
#include "flotilla/files/json.hpp"
#include "flotilla/session/same_run.hpp"

namespace flotilla::session {
namespace {

using files::Json;
using files::JsonLine;

std::string array_of(const std::vector<std::string>& objects) {
  std::string all;
  for (const auto& object : objects) all += (all.empty() ? "" : ",") + object;
  return "[" + all + "]";
}

std::string object_of(const SourceRecord& source) {
  std::vector<std::string> growth;
  for (const auto& one : source.growth) growth.push_back(JsonLine{}.add("step", one.step).add("files", one.files).text());
  JsonLine object;
  object.add("name", source.name).add("weight", source.weight).add("epochs", source.epochs);
  object.add_json("files", files::json_array(source.files)).add("files_at_start", source.files_at_start);
  return object.add_json("growth", array_of(growth)).text();
}

std::size_t count_of(const Json& json, std::size_t least, std::size_t most) {
  return static_cast<std::size_t>(json.as_int64(static_cast<std::int64_t>(least), static_cast<std::int64_t>(most)));
}

SourceRecord source_of(const Json& json) {
  json.expect_keys({"name", "weight", "epochs", "files", "files_at_start", "growth"});
  SourceRecord source;
  source.name = json.get_string("name");
  source.weight = json.get_double("weight", 0);
  if (source.weight == 0) json.at("weight").refuse("expected a number above 0");
  source.epochs = json.get_int64("epochs", 0);
  for (const auto& file : json.at("files").items()) source.files.push_back(file.as_string());
  const auto all = source.files.size();
  source.files_at_start = count_of(json.at("files_at_start"), 1, all);
  auto files = source.files_at_start;
  std::int64_t step = 0;
  for (const auto& one : json.at("growth").items()) {
    one.expect_keys({"step", "files"});
    step = one.at("step").as_int64(step + 1);
    files = count_of(one.at("files"), files + 1, all);
    source.growth.push_back({step, files});
  }
  if (files != all) json.refuse(text("says of ", files, " files when they came, and lists ", all));
  return source;
}

std::string spelled(const std::string& name) { return name.empty() ? "the training data" : "source " + in_quotes(name); }

std::string names_of(const std::vector<SourceRecord>& sources) {
  std::string names;
  for (const auto& source : sources) names += (names.empty() ? "" : ", ") + spelled(source.name);
  return names;
}

/// The files that were there, then the new ones.
SourceRecord continued(const SourceRecord& saved, const SourceRecord& job, std::int64_t step, std::string_view source) {
  const auto refuse_unless = [&](bool same, const char* what, const auto& theirs, const auto& ours) {
    if (!same)
      throw OtherRun{std::string{source},
                     text("the ", what, " of ", spelled(job.name), " differs: saved with ", theirs, ", the job says ", ours)};
  };
  refuse_unless(saved.weight == job.weight, "weight", saved.weight, job.weight);
  refuse_unless(saved.epochs == job.epochs, "number of epochs", saved.epochs, job.epochs);
  std::multiset<std::string> present{job.files.begin(), job.files.end()};
  for (const auto& file : saved.files) {
    const auto found = present.find(file);
    if (found == present.end())
      throw OtherRun{std::string{source},
                     text(spelled(job.name), " has lost or changed a file that the run was trained on (fingerprint ", file, ", of ",
                          saved.files.size(), " files; it may get new ones, those it has must stay as they are)")};
    present.erase(found);
  }
  auto result = saved;
  for (const auto& file : job.files)
    if (const auto found = present.find(file); found != present.end()) {
      present.erase(found);
      result.files.push_back(file);
    }
  if (result.files.size() > saved.files.size()) result.growth.push_back({step, result.files.size()});
  return result;
}

}  // namespace

std::string to_json(const std::vector<SourceRecord>& sources) {
  std::vector<std::string> objects;
  for (const auto& source : sources) objects.push_back(object_of(source));
  return JsonLine{}.add_json("sources", array_of(objects)).text();
}

std::vector<SourceRecord> data_record_from_json(std::string_view json, std::string_view source) {
  const auto document = Json::parse(json, source);
  document.expect_keys({"sources"});
  std::vector<SourceRecord> sources;
  for (const auto& one : document.at("sources").items()) sources.push_back(source_of(one));
  return sources;
}

std::vector<SourceRecord> continued(const std::vector<SourceRecord>& saved, const std::vector<SourceRecord>& job, std::int64_t step,
                                    std::string_view source) {
  const bool same = std::ranges::equal(saved, job, {}, &SourceRecord::name, &SourceRecord::name);
  if (!same)
    throw OtherRun{std::string{source}, text("the sources of data differ: saved with ", names_of(saved), ", the job says ", names_of(job))};
  std::vector<SourceRecord> result;
  for (std::size_t i = 0; i < saved.size(); ++i) result.push_back(continued(saved[i], job[i], step, source));
  return result;
}

}  // namespace flotilla::session
