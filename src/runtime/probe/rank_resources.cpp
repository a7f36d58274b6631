#include "rank_resources.hpp"

#include <iomanip>
#include <limits>
#include <sstream>

#include "flotilla/base/error.hpp"
#include "flotilla/cluster/catalogue.hpp"
#include "flotilla/files/catalogue_file.hpp"
#include "flotilla/probe/type_names.hpp"

namespace flotilla::probe {
namespace {

/// Words that every processor's name has, and its number of cores: "16-Core".
bool is_noise(std::string_view word) {
  const bool cores = word.ends_with("-Core") && word.find_first_not_of("0123456789") == word.size() - std::string_view{"-Core"}.size();
  return cores || word == "Processor" || word == "CPU";
}

std::string one_line(std::string value) {
  for (char& c : value)
    if (c == '\n' || c == '\r') c = ' ';
  return value;
}

void read_field(RankResources& facts, const std::string& key, std::istringstream& value) {
  const auto rest = [&] {
    std::string line;
    std::getline(value >> std::ws, line);
    return line;
  };
  if (key == "cpu_model") facts.cpu_model = rest();
  if (key == "zone") facts.zone = rest();
  if (key == "software") facts.software = rest();
  if (key == "gpu_name") facts.gpu_name = rest();
  if (key == "gpu_uuid") facts.gpu_uuid = rest();
  if (key == "gpu_memory") value >> facts.gpu_memory.count;
  if (key == "gpu_tf32") value >> facts.gpu_tf32;
  if (key == "nccl") value >> facts.nccl;
  if (key == "device_mpi") value >> facts.device_mpi;
  if (key == "granted_cpus") value >> facts.granted_cpus;
  if (key == "cpu_limit") value >> facts.cpus.cpu_limit;
  if (key == "last_level_cache") value >> facts.last_level_cache.count;
  if (key == "memory_available") value >> facts.memory_available.count;
  if (key == "memory_limit") value >> facts.memory_limit.count;
  if (key == "threads") value >> facts.threads;
  if (key == "cpus")
    for (int cpu = 0; value >> cpu;) facts.cpus.usable.push_back(cpu);
}

}  // namespace

std::string to_text(const RankResources& facts) {
  std::ostringstream out;
  out << std::setprecision(std::numeric_limits<double>::max_digits10);
  out << "cpu_model " << one_line(facts.cpu_model) << "\nzone " << one_line(facts.zone) << "\nsoftware " << one_line(facts.software)
      << "\ngranted_cpus " << facts.granted_cpus << "\ncpu_limit " << facts.cpus.cpu_limit << "\nlast_level_cache "
      << facts.last_level_cache.count << "\nmemory_available " << facts.memory_available.count << "\ngpu_name " << one_line(facts.gpu_name)
      << "\ngpu_uuid " << one_line(facts.gpu_uuid) << "\ngpu_memory " << facts.gpu_memory.count << "\ngpu_tf32 " << facts.gpu_tf32
      << "\nnccl " << facts.nccl << "\ndevice_mpi " << facts.device_mpi << "\nmemory_limit " << facts.memory_limit.count << "\nthreads "
      << facts.threads << "\ncpus";
  for (int cpu : facts.cpus.usable) out << ' ' << cpu;
  out << '\n';
  return out.str();
}

RankResources facts_from_text(const std::string& text) {
  RankResources facts;
  std::istringstream lines{text};
  for (std::string line; std::getline(lines, line);) {
    std::istringstream value{line};
    std::string key;
    value >> key;
    read_field(facts, key, value);
  }
  FLOTILLA_REQUIRE(!facts.cpus.usable.empty() && facts.memory_available.count > 0 && !facts.software.empty(), ErrorKind::communication,
                   "a rank described itself in a way that this version does not understand; start the same flotilla on every rank");
  return facts;
}

std::string gpu_type_name(const std::string& name, int sharers, bool tf32) {
  const auto catalogue = files::built_in_catalogue();
  const auto* known = cluster::find(catalogue, name);
  return text(known != nullptr ? known->name : name, sharers > 1 ? text(":1/", sharers) : "", tf32 ? "+tf32" : "");
}

std::string short_cpu_name(const std::string& cpu_model) {
  std::string marked = cpu_model;
  for (const std::string_view mark : {"(R)", "(TM)", "(r)", "(tm)"})
    for (auto at = marked.find(mark); at != marked.npos; at = marked.find(mark, at)) marked.replace(at, mark.size(), " ");
  std::istringstream words{marked};
  std::string name;
  for (std::string word; words >> word && !word.starts_with('@');)
    if (!is_noise(word)) name += (name.empty() ? "" : " ") + word;
  return name.empty() ? "unknown" : name;
}

std::string cpu_type_name(const std::string& cpu_model, int threads) {
  return flotilla::text("cpu:", short_cpu_name(cpu_model), ":", threads, "t");
}

}  // namespace flotilla::probe
