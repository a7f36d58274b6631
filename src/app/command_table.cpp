#include "app/command_table.hpp"

#include "app/bench/bench.hpp"
#include "app/common/planning_options.hpp"
#include "app/control/control.hpp"
#include "app/doctor/doctor.hpp"
#include "app/evaluate/evaluate.hpp"
#include "app/export/export.hpp"
#include "app/generate/generate.hpp"
#include "app/import/import.hpp"
#include "app/inspect/inspect.hpp"
#include "app/plan/planning.hpp"
#include "app/probe/probe.hpp"
#include "app/report/report.hpp"
#include "app/simulate/simulate.hpp"
#include "app/submit/submit.hpp"
#include "app/tokenize/tokenize.hpp"
#include "app/train/train.hpp"
#include "app/validate/validate.hpp"

namespace flotilla::app {

namespace {

int run_submit(std::span<const std::string> arguments) { return submit(arguments); }

}  // namespace

std::vector<Command> command_table() {
  return {
      {"train", "probe, plan, train or resume; on every rank (mpirun, srun)", "[JOB]", train, job_options, false, true},
      {"probe", "measure devices and links; on every rank (mpirun, srun)", "[JOB]", probe, job_options, false, true},
      {"plan", "find the best plan for a pool of devices and explain it; needs no device", "[JOB]", find_plan, planning_options},
      {"simulate", "forecast time, memory and cost of a plan; needs no device", "PLAN", simulate, simulate_options},
      {"validate", "forecast runs that others measured and published, and compare", "PATH", validate, validate_options},
      {"control", "ask the running job to change to another plan, in place", "RUN", control, control_options},
      {"submit", "plan over what a Slurm site has free, write the batch script and send it", "[JOB]", run_submit, submit_options},
      {"doctor", "check whether this machine, allocation or job can work, and suggest fixes", "[JOB]", doctor, job_options},
      {"bench", "test nodes and judge them; on every node (srun, mpirun), or alone", "[REPORT]", bench, bench_options, false, true},
      {"report", "report what a run did: devices, plan, end, lost work, cost", "RUN", report_run, run_report_options},
      {"inspect", "show the contents of a plan, profile, forecast, checkpoint or run directory", "FILE", inspect, inspect_options},
      {"evaluate", "loss of files, or likelihoods of continuations; on every rank (mpirun, srun)", "MODEL", evaluate, evaluate_options,
       false, true},
      {"generate", "go on with a text; on every rank (mpirun, srun)", "MODEL TEXT", generate, generate_options, false, true},
      {"tokenize", "turn text files into a token file with a model's tokenizer, on all processors", "IN...", tokenize, tokenize_options},
      {"import", "check a Hugging Face model, or convert a model of llm.c, measurements or plans", "WHAT FILE", import_published,
       import_options},
      {"export", "write a model for Hugging Face or llm.c, or a plan for another simulator", "WHAT FILE", export_for_others,
       export_options}};
}

}  // namespace flotilla::app
