#include "flotilla/slurm/script.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>

#include "answer_fields.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/base/foreign_text.hpp"

namespace flotilla::slurm {
namespace {

constexpr std::size_t longest_job_name = 60;
constexpr int most_job_components = 128;  // Slurm's own MAX_HET_JOB_COMPS

/// A job's name is for people: what sbatch could not read becomes '_'.
std::string harmless(const std::string& name) {
  std::string out;
  for (unsigned char c : name.substr(0, longest_job_name))
    out += c < 0x80 && (std::isalnum(c) != 0 || c == '.' || c == '-' || c == '_') ? static_cast<char>(c) : '_';
  return out.empty() || out.front() == '-' ? "flotilla" + out : out;
}

/// A value that sbatch reads from the script itself; there is no quoting there that all versions agree on.
std::string plain(const char* what, const std::string& value) {
  FLOTILLA_REQUIRE(is_plain(value), ErrorKind::bad_input, what, " ", in_quotes(value),
                   ": expected letters, digits and _@%+:,./=- alone: a #SBATCH line can say nothing else");
  return value;
}

std::string range(int fewest, int most) { return fewest >= most ? std::to_string(most) : text(std::max(fewest, 1), "-", most); }

/// Of a range Slurm 22.05 gives the most only where nothing is left on the nodes; else it packs the job on the fewest.
std::string nodes_of(const NodeRequest& c) { return c.whole_nodes ? range(c.fewest_nodes, c.most_nodes) : std::to_string(c.most_nodes); }

std::string line(const std::string& option) { return "#SBATCH " + option + "\n"; }

std::string of_the_job(const Script& s) {
  std::string out = line("--job-name=" + harmless(s.name)) + line("--output=" + plain("log file", s.log)) + line("--open-mode=append");
  out += line(text("--signal=B:USR2@", static_cast<int>(std::ceil(s.warning.value)))) + line("--requeue");
  // The steps of a heterogeneous job cannot be told to leave a lost node out: it is requeued whole instead.
  if (s.components.size() == 1) out += line("--no-kill");
  return out;
}

std::string of_component(const Script& s, const NodeRequest& c) {
  FLOTILLA_REQUIRE(c.most_nodes >= 1 && c.tasks_per_node >= 1 && c.cpus_per_task >= 1, ErrorKind::internal, "a component without tasks");
  std::string out = line("--partition=" + plain("partition", c.partition)) + line("--nodes=" + nodes_of(c));
  out += line(text("--ntasks-per-node=", c.tasks_per_node)) + line(text("--cpus-per-task=", c.cpus_per_task));
  if (c.whole_nodes) out += line("--exclusive");
  if (!c.gres.empty()) out += line("--gres=" + plain("gres", c.gres));
  if (!c.constraint.empty()) out += line("--constraint=" + plain("feature", c.constraint));
  if (const auto memory = s.node_memory ? s.node_memory : c.memory)
    out += line(text("--mem=", std::max<std::int64_t>(memory->count >> 20, 1), "M"));
  if (s.time) out += line(text("--time=", static_cast<std::int64_t>(std::ceil(s.time->value / 60))));
  if (!s.account.empty()) out += line("--account=" + plain("account", s.account));
  if (!s.qos.empty()) out += line("--qos=" + plain("quality of service", s.qos));
  return out;
}

std::string module_load(const std::vector<std::string>& modules) {
  std::string out = "module load";
  for (const auto& module : modules) out += " " + shell_word(module);
  return out;
}

/// For the ranks of one component: evaluated by a shell of their own, so quoted twice.
std::string setups(const Script& s) {
  std::string out;
  for (std::size_t k = 0; k < s.components.size(); ++k)
    if (!s.components[k].modules.empty()) out += text("FLOTILLA_SETUP_", k, "=", shell_word(module_load(s.components[k].modules)), "\n");
  return out;
}

std::string tasks(const Script& s) {
  if (s.components.size() == 1) return text("FLOTILLA_TASKS=", s.components.front().tasks_per_node, "\n");
  std::string out;
  for (std::size_t k = 0; k < s.components.size(); ++k) out += text("FLOTILLA_TASKS_", k, "=", s.components[k].tasks_per_node, "\n");
  return out;
}

std::string body(const Script& s) {
  auto modules = s.modules;
  const bool plain_job = s.components.size() == 1;
  if (plain_job) modules.insert(modules.end(), s.components.front().modules.begin(), s.components.front().modules.end());
  std::string out = text("\ncd -- ", shell_word(s.folder), " || exit 65\n");
  if (!modules.empty()) out += module_load(modules) + " || exit 69\n";
  out += text("FLOTILLA=", shell_word(s.program), "\nFLOTILLA_RUN=", shell_word(s.run_directory), "\n") + tasks(s);
  if (!plain_job) out += setups(s);
  out += text("FLOTILLA_SIGNAL=", shell_word(s.signal), "\nFLOTILLA_ON_NO_PLAN=", shell_word(s.on_no_plan),
              "\nFLOTILLA_REQUEUES=", s.most_requeues, "\n");
  out += text(". ", shell_word(s.library), " || exit 69\nflotilla_job");
  for (const auto& argument : s.arguments) out += " " + shell_word(argument);
  return out + "\n";
}

}  // namespace

std::string script_text(const Script& s) {
  FLOTILLA_REQUIRE(!s.components.empty() && s.components.size() <= most_job_components, ErrorKind::bad_input, "a job of ",
                   s.components.size(), " components; Slurm takes 1 to ", most_job_components);
  std::string out = "#!/bin/bash\n";
  for (const auto& remark : s.remarks) {
    // A remark must not become a directive or leave its line.
    std::string words = remark;
    std::ranges::replace_if(
        words, [](unsigned char c) { return c < 0x20 || c == 0x7f; }, ' ');
    out += "# " + words + "\n";
  }
  out += of_the_job(s);
  for (std::size_t c = 0; c < s.components.size(); ++c) out += (c == 0 ? "" : line("hetjob")) + of_component(s, s.components[c]);
  return out + body(s);
}

}  // namespace flotilla::slurm
