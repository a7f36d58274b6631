#include "app/submit/submit_script.hpp"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <tuple>

#include "app/common/refuse.hpp"
#include "flotilla/base/error.hpp"

namespace flotilla::app {
namespace {

namespace fs = std::filesystem;

fs::path this_program() {
  std::error_code failed;
  const auto path = fs::read_symlink("/proc/self/exe", failed);
  FLOTILLA_REQUIRE(!failed, ErrorKind::unavailable, "/proc/self/exe: ", failed.message());
  return path;
}

/// Beside the installed program. No other folder is searched: what is found there would be executed by the job.
fs::path library_file(const SubmitSettings& s) {
  if (!s.library.empty()) return fs::absolute(s.library);
  const auto place = (this_program().parent_path() / "../share/flotilla/slurm/flotilla.sh").lexically_normal();
  std::error_code ignored;
  FLOTILLA_REQUIRE(fs::exists(place, ignored), ErrorKind::unavailable, place.string(),
                   " is not there; install Flotilla with cmake --install, or say where it is: --submit.library FILE");
  return place;
}

/// What the command line said of the training: the job must be told, too, and of the plan's precision where that was left open.
std::vector<std::string> arguments_of(const SubmitOptions& o, Precision precision) {
  std::vector<std::string> arguments{"train"};
  if (!o.job_file.empty()) arguments.push_back(o.job_file);
  for (const auto& s : o.planning.settings)
    if (s.origin == options::Origin::command_line && (s.section == "model" || s.section == "training") && s.name != "training.precision")
      arguments.push_back(text("--", s.name, "=", s.value));
  if (const auto& asked = o.planning.setting("training.precision"); !o.planning.precision || asked.origin == options::Origin::command_line)
    arguments.push_back(text("--", asked.name, "=", to_string(precision)));
  return arguments;
}

struct Modules {
  std::vector<std::string> all;
  std::map<std::string, std::vector<std::string>> of_partition;
};

/// "NAME" or "PARTITION:NAME". Module names may hold colons nowhere, so the first one ends a partition.
Modules modules_of(const SubmitOptions& o, const std::vector<Taken>& taken) {
  Modules modules;
  for (const auto& word : o.submit.modules) {
    const auto colon = word.find(':');
    const std::string partition = colon == word.npos ? "" : word.substr(0, colon),
                      name = colon == word.npos ? word : word.substr(colon + 1);
    if (name.empty() || name.front() == '-') refuse(o.planning.setting("submit.modules"), word, "expected the name of a module");
    if (partition.empty()) {
      modules.all.push_back(name);
      continue;
    }
    modules.of_partition[partition].push_back(name);
    const bool used = std::ranges::any_of(taken, [&](const Taken& t) { return t.offer.partition == partition; });
    if (!used) log::info("module ", name, ": the plan takes nothing of partition ", partition);
  }
  return modules;
}

}  // namespace

std::vector<Taken> taken_by(const plan::Plan& plan, const PlanningTask& task, const std::vector<SlurmOffer>& offers) {
  const auto subject = subject_of(plan, task.profile, "the plan");
  std::map<std::pair<std::string, std::string>, std::map<std::string, int>> on_hosts;  // type and partition: ranks of each host
  for (const auto& device : subject.profile.devices) ++on_hosts[{device.type, device.zone}][device.host];
  std::vector<Taken> taken;
  for (const auto& offer : offers) {
    const auto place = on_hosts.find({offer.type, offer.partition});
    if (place == on_hosts.end()) continue;
    int most = 0, size = offer.per_node;
    for (const auto& [host, ranks] : place->second) most = std::max(most, ranks);
    for (const auto& other : offers)
      if (other.type == offer.type) size = std::min(size, other.per_node);
    // A forecast's node is the smallest of its type; a larger one stands for several.
    const int hosts = static_cast<int>(place->second.size()), of_a_node = std::max(offer.per_node / size, 1);
    Taken t{offer, std::max((hosts + of_a_node - 1) / of_a_node, offer.fewest_nodes), most * std::min(of_a_node, hosts), 0};
    t.fewest_nodes = t.nodes;
    taken.push_back(std::move(t));
  }
  return taken;
}

double units_per_hour(const std::vector<Taken>& taken) {
  double units = 0;
  for (const auto& t : taken) units += t.offer.units_per_hour * t.nodes * t.per_node;
  return units;
}

slurm::Script script_for(const std::vector<Taken>& taken, const SubmitOptions& o, Precision precision,
                         const std::vector<std::string>& remarks) {
  const auto& s = o.submit;
  const auto modules = modules_of(o, taken);
  slurm::Script script;
  script.name = "flotilla-" + fs::path{o.run_directory}.filename().string();
  script.remarks = remarks;
  for (const auto& t : taken) {
    slurm::NodeRequest request{
        t.offer.partition, s.fixed_nodes ? t.nodes : t.fewest_nodes, t.nodes, t.per_node, t.offer.cpus_each, "", t.offer.constraint, {},
        t.whole_nodes()};
    if (!t.offer.gres.empty()) request.gres = text(t.offer.gres, ":", t.per_node);
    if (t.offer.memory_each.count > 0) request.memory = Bytes{t.offer.memory_each.count * t.per_node};
    if (const auto its = modules.of_partition.find(t.offer.partition); its != modules.of_partition.end()) request.modules = its->second;
    script.components.push_back(std::move(request));
  }
  if (s.time.value > 0) script.time = s.time;
  if (s.memory.count > 0) script.node_memory = s.memory;
  script.account = s.account;
  script.qos = s.qos;
  script.log = s.log;
  script.signal = s.signal;
  script.on_no_plan = s.on_no_plan;
  script.warning = s.warning;
  script.most_requeues = s.requeues;
  script.folder = fs::current_path().string();
  script.library = library_file(s).string();
  script.program = this_program().string();
  script.arguments = arguments_of(o, precision);
  script.run_directory = o.run_directory;
  script.modules = modules.all;
  return script;
}

}  // namespace flotilla::app
