#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string_view>

#include "app/common/batch_job.hpp"
#include "app/common/versions.hpp"
#include "app/doctor/doctor.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/files/json.hpp"
#include "flotilla/files/text_file.hpp"
#include "flotilla/store/disk.hpp"
#include "flotilla/topology/topology.hpp"

namespace flotilla::app {
namespace {

namespace fs = std::filesystem;

constexpr Bytes least_room{1 << 30};

double wall_clock() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

/// The step's GPUs on this node, else the job's: "0,1,3".
int gpus_given() {
  for (const char* name : {"SLURM_STEP_GPUS", "SLURM_JOB_GPUS"})
    if (const char* list = std::getenv(name); list != nullptr && *list != '\0')
      return static_cast<int>(std::ranges::count(std::string_view{list}, ',')) + 1;
  return 0;
}

/// Files of NVIDIA's driver, one a GPU: /dev/nvidia0, ...
int gpu_files() {
  constexpr std::string_view prefix = "nvidia";
  int count = 0;
  std::error_code failed;
  for (fs::directory_iterator entry{"/dev", failed}, end; !failed && entry != end; entry.increment(failed)) {
    const auto name = entry->path().filename().string();
    count += name.size() > prefix.size() && name.starts_with(prefix) && name.find_first_not_of("0123456789", prefix.size()) == name.npos;
  }
  return count;
}

/// The nearest folder above that exists: a run directory is made by the run.
fs::path existing_part(fs::path path) {
  std::error_code ignored;
  path = fs::absolute(path);
  while (!fs::exists(path, ignored) && path.has_relative_path()) path = path.parent_path();
  return path;
}

}  // namespace

std::string try_directory(const std::string& directory) {
  const auto folder = existing_part(directory);
  std::error_code ignored;
  if (!fs::is_directory(folder, ignored)) return text(folder.string(), " is not a folder");
  const auto file = folder / text(".flotilla-doctor-", files::unguessable());
  try {
    files::write_text(file, "may be deleted\n", files::Flush::no);
  } catch (const Error&) {
    return text(folder.string(), " cannot be written");
  }
  fs::remove(file, ignored);
  const auto room = store::free_space(folder);
  return room < least_room ? text("only ", room, " are free on the file system of ", folder.string()) : "";
}

RankFacts rank_facts(const Job& job) {
  RankFacts facts;
  const auto node = topology::this_node();
  facts.host = node.host;
  facts.usable = node.usable;
  facts.processing_units = node.processing_units;
  facts.cpu_limit = node.limits.cpus;
  facts.software = versions();
  facts.directory_trouble = try_directory(job.run.directory);
  facts.partition = batch_job(job).zone;
  facts.clock = wall_clock();
  facts.gpus_given = gpus_given();
  facts.gpus_there = gpu_files();
  if (const char* visible = std::getenv("CUDA_VISIBLE_DEVICES")) facts.gpus_visible = visible;
  return facts;
}

std::string to_json(const RankFacts& f) {
  files::JsonLine line;
  line.add("host", f.host).add_json("usable", files::json_array(std::vector<std::int64_t>{f.usable.begin(), f.usable.end()}));
  line.add("processing_units", f.processing_units).add("cpu_limit", f.cpu_limit).add("clock", f.clock);
  files::JsonLine software;
  for (const auto& [name, version] : f.software) software.add(name, version);
  line.add_json("software", software.text()).add("directory_trouble", f.directory_trouble).add("sees_token", f.sees_token);
  line.add("gpus_given", f.gpus_given).add("gpus_there", f.gpus_there).add("gpus_visible", f.gpus_visible);
  return line.add("partition", f.partition).text();
}

RankFacts rank_facts_from(const std::string& json) {
  const auto document = files::Json::parse(json, "a rank's facts");
  RankFacts f;
  f.host = document.get_string("host");
  for (const auto& cpu : document.at("usable").items()) f.usable.push_back(cpu.as_int(0));
  f.processing_units = document.get_int("processing_units", 0);
  f.cpu_limit = document.get_double("cpu_limit", 0);
  f.clock = document.get_double("clock");
  const auto software = document.at("software");
  for (const auto& name : software.keys()) f.software.emplace_back(name, software.get_string(name));
  f.directory_trouble = document.get_string("directory_trouble");
  f.sees_token = document.get_bool("sees_token");
  f.gpus_given = document.get_int("gpus_given", 0);
  f.gpus_there = document.get_int("gpus_there", 0);
  f.gpus_visible = document.get_string("gpus_visible");
  f.partition = document.get_string("partition");
  return f;
}

}  // namespace flotilla::app
