#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>

#include "app/doctor/doctor.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/base/foreign_text.hpp"
#include "flotilla/files/profile_file.hpp"
#include "flotilla/slurm/run_program.hpp"
#include "flotilla/slurm/script.hpp"

namespace flotilla::app {
namespace {

namespace fs = std::filesystem;

constexpr Seconds command_patience{10};

/// What a program said, both ways; nothing where it is not there or does not end.
std::optional<std::string> said_by(const std::vector<std::string>& command) {
  try {
    const auto output = slurm::run_program(command, command_patience);
    return output.out + output.err;
  } catch (const Error&) {
    return std::nullopt;
  }
}

bool has_word_beginning(const std::string& words, const std::string& beginning) {
  for (auto at = words.find(beginning); at != words.npos; at = words.find(beginning, at + 1))
    if (at == 0 || std::isspace(static_cast<unsigned char>(words[at - 1])) != 0) return true;
  return false;
}

std::string standard_mpi() {
  const auto config = said_by({"scontrol", "show", "config"});
  const auto at = config ? config->find("MpiDefault") : std::string::npos;
  if (at == std::string::npos) return "";
  const auto equals = config->find("= ", at), end = config->find('\n', at);
  return equals == std::string::npos || equals > end ? "" : config->substr(equals + 2, end - equals - 2);
}

Finding check_slurm() {
  const auto list = said_by({"srun", "--mpi=list"});
  if (!list) return {"pmix", Verdict::skipped, "no srun here: mpirun starts the ranks", "", ""};
  if (!lists_mpi(*list))
    return {"pmix", Verdict::skipped, "srun is here, but no Slurm that answers", list->substr(0, list->find('\n')), ""};
  return judge_pmix(*list, standard_mpi());
}

Finding check_open_mpi(const Variables& variable) {
  if (const auto components = said_by({"ompi_info", "--parsable"})) return judge_open_mpi(*components, variable);
  return {"open mpi", Verdict::skipped, "no ompi_info here to ask", "", ""};
}

/// "2026-11-20T09:30:00Z"; nothing for what is no such time.
std::optional<double> seconds_of(const std::string& iso) {
  int year = 0;
  unsigned month = 0, day = 0;
  int hour = 0, minute = 0, second = 0;
  if (std::sscanf(iso.c_str(), "%d-%u-%uT%d:%d:%dZ", &year, &month, &day, &hour, &minute, &second) != 6) return std::nullopt;
  const std::chrono::year_month_day date{std::chrono::year{year}, std::chrono::month{month}, std::chrono::day{day}};
  if (!date.ok()) return std::nullopt;
  return static_cast<double>(std::chrono::sys_days{date}.time_since_epoch().count()) * 86400.0 + hour * 3600 + minute * 60 + second;
}

Finding check_profile(const Job& job) {
  const fs::path file = job.probe.file.empty() ? fs::path{job.run.directory} / "profile.json" : fs::path{job.probe.file};
  std::error_code ignored;
  if (!fs::exists(file, ignored)) return {"profile", Verdict::good, "none is kept yet: the run will measure", "", ""};
  try {
    const auto measured = seconds_of(files::read_profile(file).measured_at);
    const double now = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
    if (measured && now - *measured > job.probe.fresh_for.value)
      return {"profile", Verdict::warning, text(file.string(), " is ", Seconds{now - *measured}, " old: the run will measure anew"),
              text("--probe.fresh-for ", job.probe.fresh_for), "flotilla probe on the job's nodes, or nothing: the run does it"};
    return {"profile", Verdict::good, text(file.string(), " is fresh"), "", ""};
  } catch (const Error& error) {
    return {"profile", Verdict::problem, text(file.string(), " cannot be read"), error.what(),
            text("rm -- ", slurm::shell_word(file.string()), " (the run measures anew)")};
  }
}

}  // namespace

bool lists_mpi(const std::string& answer) { return answer.find("MPI plugin") != answer.npos || answer.find("MPI types") != answer.npos; }

Finding judge_pmix(const std::string& list, const std::string& standard) {
  if (!has_word_beginning(list, "pmix"))
    return {"pmix", Verdict::problem, "this Slurm has no PMIx: srun cannot start one MPI world", "srun --mpi=list names none",
            "ask for Slurm's mpi/pmix plugin (Debian: slurm-wlm-basic-plugins), or start ranks with mpirun"};
  if (!standard.empty() && !standard.starts_with("pmix"))
    return {"pmix", Verdict::warning, text("Slurm has PMIx, but srun's default is ", in_quotes(standard)), "MpiDefault of slurm.conf",
            "srun --mpi=pmix ..., or export SLURM_MPI_TYPE=pmix"};
  return {"pmix", Verdict::good, standard.empty() ? "Slurm has PMIx; write srun --mpi=pmix" : "Slurm has PMIx, and srun takes it", "", ""};
}

Finding judge_open_mpi(const std::string& components, const Variables& variable) {
  if (components.find("mca:pmix:") == components.npos)
    return {"open mpi", Verdict::problem, "this Open MPI does not support PMIx", "ompi_info lists no pmix component",
            "use an Open MPI that is built with PMIx (Debian: openmpi-bin with libpmix2)"};
  const char* pml = variable("OMPI_MCA_pml");
  const bool wants_ucx = pml != nullptr && std::strstr(pml, "ucx") != nullptr && pml[0] != '^';
  if (wants_ucx && components.find("mca:pml:ucx:") == components.npos)
    return {"open mpi", Verdict::problem, "OMPI_MCA_pml asks for ucx, which this Open MPI does not have", text("OMPI_MCA_pml=", pml),
            "unset OMPI_MCA_pml"};
  if (wants_ucx && variable("OMPI_MCA_opal_common_ucx_tls") == nullptr)
    return {"open mpi", Verdict::warning, "OMPI_MCA_pml=ucx is refused on machines without InfiniBand",
            "Open MPI's defaults allow mlx devices alone", "export OMPI_MCA_opal_common_ucx_tls=any OMPI_MCA_opal_common_ucx_devices=any"};
  return {"open mpi", Verdict::good, "Open MPI has what it needs", "", ""};
}

std::optional<Finding> judge_singletons(const Variables& variable) {
  const char* tasks = variable("SLURM_STEP_NUM_TASKS");
  const bool started_by_srun = variable("SLURM_PROCID") != nullptr && tasks != nullptr && std::strcmp(tasks, "1") != 0;
  const bool can_meet = variable("PMIX_RANK") != nullptr || variable("PMI_RANK") != nullptr || variable("OMPI_COMM_WORLD_RANK") != nullptr;
  // The batch script has a PROCID of its own, but no step.
  if (!started_by_srun || can_meet) return std::nullopt;
  return Finding{"world", Verdict::problem, text("srun started ", tasks, " processes that cannot find each other: each would be alone"),
                 text("SLURM_STEP_NUM_TASKS=", tasks, ", and there is no PMIX_RANK"),
                 text("srun --mpi=pmix -n ", tasks, " flotilla train JOB")};
}

std::vector<Finding> check_machine(const Job& job, const Variables& variable) {
  return {check_slurm(), check_open_mpi(variable), check_profile(job)};
}

}  // namespace flotilla::app
