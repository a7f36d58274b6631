#include "app/submit/submit.hpp"

#include <algorithm>
#include <filesystem>
#include <map>
#include <utility>

#include "app/common/planning_economics.hpp"
#include "app/common/planning_page.hpp"
#include "app/submit/resize.hpp"
#include "app/submit/submit_text.hpp"
#include "flotilla/base/clock.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/files/plan_file.hpp"
#include "flotilla/files/text_file.hpp"
#include "flotilla/slurm/run_program.hpp"
#include "slurm_answers.hpp"

namespace flotilla::app {
namespace {

constexpr Seconds sbatch_patience{60};
constexpr double any_plan = 0.99;  // tolerance of a try of fewer nodes: whether anything fits is all that is asked

/// A batch that fits where the request's does: but for GPipe's, a pipeline holds no more micro-batches at once than it has stages, and more
/// of them would only take longer to simulate. Halves, for restrictions may ask for a number that divides.
int smallest_alike(const search::PlanRequest& request, int devices) {
  int batch = request.global_batch;
  if (request.constraints.schedule == plan::ScheduleKind::gpipe) return batch;
  const int enough = 4 * devices * std::max(request.constraints.microbatch.value_or(1), 1);
  while (batch % 2 == 0 && batch / 2 >= enough) batch /= 2;
  return batch;
}

/// Whether a plan fits when every offer gives `nodes` nodes at most.
bool fits_on(int nodes, const PlanningTask& task, const std::vector<Taken>& taken) {
  PlanningTask small = task;
  small.request.pool.clear();
  for (const auto& t : taken)
    small.request.pool.push_back({t.offer.type, t.offer.partition, std::min(nodes, t.nodes) * t.per_node, t.per_node});
  int devices = 0;
  for (const auto& entry : small.request.pool) devices += entry.count;
  small.request.global_batch = smallest_alike(small.request, devices);
  small.request.alternatives = 0;
  small.request.tolerance = any_plan;
  small.request.objective = {};
  small.request.should_stop = {};
  return search::plan(small.request, *forecaster_for_pools(small.profile, small.settings)).best.has_value();
}

/// The fewest nodes of each that still hold the model when all are at their fewest, by doubling: a requeued job may start with these.
void find_fewest(std::vector<Taken>& taken, const PlanningTask& task) {
  if (std::ranges::none_of(taken, &Taken::whole_nodes)) return;
  int most = 0;
  for (const auto& t : taken) most = std::max(most, t.nodes);
  int nodes = 1;
  while (nodes < most && !fits_on(nodes, task, taken)) nodes *= 2;
  // Of parts of nodes Slurm would give the fewest at once: those are asked for by number.
  for (auto& t : taken) t.fewest_nodes = t.whole_nodes() ? std::min(std::max(nodes, t.offer.fewest_nodes), t.nodes) : t.nodes;
}

void plan_over(Submission& s, const SubmitOptions& o) {
  auto task = planning_task(o.planning, offer_of(s.offers.all));
  s.planning = search_for(task);
  const auto& best = s.planning.answer.best;
  FLOTILLA_REQUIRE(best.has_value(), ErrorKind::no_plan, why_none(s.planning, o.planning),
                   s.waits ? "" : "; --submit.wait plans over what is busy, too");
  add_economics(s.planning, task, o.planning);
  // The search knows no scratch memory of CPU libraries; the forecast does.
  FLOTILLA_REQUIRE(s.planning.forecast->fits(), ErrorKind::no_plan,
                   "the best plan found needs more memory than its devices have; flotilla plan with the same devices shows by how much");
  if (!o.planning.write_plan.empty()) files::write_plan(o.planning.write_plan, best->plan);
  if (!o.planning.page.empty()) files::write_text(o.planning.page, planning_page(s.planning, task));
  s.taken = taken_by(best->plan, task, s.offers.all);
  if (!o.submit.fixed_nodes) find_fewest(s.taken, task);
}

std::vector<std::string> remarks_of(const Submission& s) {
  std::vector<std::string> remarks{"Written by flotilla submit. Options on sbatch's command line override those of this file."};
  remarks.push_back("Plan: " + plan::summary(s.planning.answer.best->plan));
  remarks.push_back(text("Forecast: ", s.planning.forecast->iteration, " an iteration"));
  if (const auto price = price_in_words(s); !price.empty()) remarks.push_back("Price: " + price);
  remarks.push_back("The job re-plans at every start for the nodes that it receives.");
  return remarks;
}

std::filesystem::path script_file(const SubmitOptions& o) {
  if (!o.submit.script.empty()) return o.submit.script;
  files::make_folders(o.run_directory);
  files::make_own_folder(std::filesystem::canonical(o.run_directory));
  return std::filesystem::path{o.run_directory} / "submit.sh";
}

/// "Submitted" as sbatch --parsable says it: the number, and the cluster behind a ';' where there are several.
/// It gets the script itself: a file of that name may be another's by the time sbatch opens it.
std::string sent(const std::string& script) {
  auto answer = slurm::answer_of({"sbatch", "--parsable"}, sbatch_patience, script);
  answer.erase(std::min(answer.find_first_of(";\n"), answer.size()));
  return answer;
}

void write_script(Submission& s, const SubmitOptions& o) {
  if (o.submit.dry_run && o.submit.script.empty()) return;
  const auto file = script_file(o);
  files::write_text(file, s.script);
  s.file = file.string();
}

/// The job is this program: where it has no kernels for a GPU, it computes on the CPUs beside it.
void note_missing_kernels(SlurmOffers& offers, const DeviceNames& names) {
  std::map<std::string, std::string> types;  // by why
  for (const auto& offer : offers.all)
    if (const auto why = names.why_no_kernels(offer.type); !why.empty())
      if (auto& listed = types[why]; listed.find(offer.type) == listed.npos) listed += (listed.empty() ? "" : ", ") + offer.type;
  for (const auto& [why, listed] : types) offers.notes.push_back(text(listed, ": jobs compute on the CPUs of these nodes; ", why));
}

void show(const Submission& s, const SubmitOptions& o) {
  const bool to_terminal = o.planning.output.file.empty();
  if (o.planning.output.json) return write_output(o.planning.output, submission_json(s));
  auto words = submission_text(s, to_terminal ? output_style() : Style{}, output_width());
  if (s.file.empty()) words += "\n" + s.script;
  write_output(o.planning.output, words);
}

}  // namespace

int submit(const SubmitOptions& o) {
  Submission s;
  s.slurm_cluster = slurm_cluster_of(o.submit);
  s.waits = o.submit.wait;
  s.steps = o.steps;
  const auto library = known_devices(o.planning.basis);
  const auto catalogue = catalogue_of(o.planning.basis);
  DeviceNames names{library.profile, catalogue};
  s.offers = offers_of(s.slurm_cluster, o, names);
  note_missing_kernels(s.offers, names);
  plan_over(s, o);
  s.script = slurm::script_text(script_for(s.taken, o, s.planning.answer.best->plan.precision, remarks_of(s)));
  write_script(s, o);
  if (s.file.size() > 0 && o.submit.script.empty())
    files::write_text(std::filesystem::path{o.run_directory} / "submission.json", submission_json(s));
  for (const auto& t : s.taken)
    FLOTILLA_REQUIRE(o.submit.dry_run || names.is_trainable(t.offer.type), ErrorKind::unavailable,
                     "Flotilla trains on CPUs and NVIDIA GPUs, not on ", t.offer.type, "; --dry-run shows plan and price");
  if (!o.submit.dry_run) s.job = sent(s.script);
  show(s, o);
  return static_cast<int>(ExitCode::done);
}

int submit(std::span<const std::string> arguments) {
  auto o = read_submit_options(arguments, options::environment());
  // What submit makes is the script; its table is for the terminal. JSON is asked for by name.
  if (auto& file = o.planning.output.file; !file.empty() && !o.planning.output.json && o.submit.resize.empty()) {
    FLOTILLA_REQUIRE(o.submit.script.empty(), ErrorKind::usage, "-o ", file, " and --submit.script ", o.submit.script,
                     " both name the script; keep one");
    o.submit.script = std::exchange(file, {});
  }
  return o.submit.resize.empty() ? submit(o) : resize(o);
}

}  // namespace flotilla::app
