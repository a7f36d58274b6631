#include "app/bench/bench.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <thread>

#include "app/bench/bench_card.hpp"
#include "app/bench/bench_launch.hpp"
#include "app/bench/bench_network.hpp"
#include "app/bench/bench_page.hpp"
#include "app/bench/bench_text.hpp"
#include "app/bench/bench_time.hpp"
#include "app/common/job.hpp"
#include "app/common/live_line.hpp"
#include "app/common/on_all_ranks.hpp"
#include "app/common/profile_measurement.hpp"
#include "app/common/table.hpp"
#include "flotilla/base/clock.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/base/figures.hpp"
#include "flotilla/base/log.hpp"
#include "flotilla/bench/fabric_links.hpp"
#include "flotilla/comm/agree.hpp"
#include "flotilla/files/bench_file.hpp"
#include "flotilla/files/fabric_links_file.hpp"
#include "flotilla/files/look.hpp"
#include "flotilla/files/text_file.hpp"
#include "flotilla/health/collect.hpp"
#include "flotilla/health/node_test.hpp"
#include "flotilla/health/other_work.hpp"
#include "flotilla/health/soak.hpp"
#include "flotilla/journal/run_directory.hpp"
#include "flotilla/mpi/session.hpp"
#include "flotilla/signals/signal_thread.hpp"
#include "flotilla/signals/stop_signals.hpp"
#include "flotilla/slurm/network_switches.hpp"
#include "flotilla/slurm/run_program.hpp"

namespace flotilla::app {
namespace {

namespace fs = std::filesystem;

constexpr Seconds usual_soak{3600}, shortest_profile{0.3};
constexpr int threshold_crossed = 1;
constexpr std::size_t longest_history = 100;  // reports that baselines are learned from

const char* launch_variable(const char* name) { return std::getenv(name); }

/// What nodes are held against, and its name.
struct Standard {
  bench::Baselines baselines;
  std::string name;
  std::vector<bench::BenchReport> reports;
};

std::string siblings_of(const bench::BenchReport& report) {
  return report.nodes.size() < 3 ? "nothing: no history, and fewer than three nodes" : "the other nodes of their type";
}

Standard standard_of(const BenchOptions& o, const bench::BenchReport& report) {
  if (!o.baseline.empty()) {
    const std::vector<bench::BenchReport> one{files::read_bench(o.baseline)};
    return {bench::learn(one, 1), o.baseline, one};
  }
  std::vector<std::string> refused;
  auto history = o.history.empty() ? std::vector<bench::BenchReport>{} : files::read_bench_history(o.history, longest_history, refused);
  for (const auto& why : refused) log::warning("left out of the history: ", why);
  if (history.empty()) return {{}, siblings_of(report), {}};
  auto baselines = bench::learn(history);
  const auto name = text(history.size(), history.size() == 1 ? " earlier report" : " earlier reports");
  return {std::move(baselines), name, std::move(history)};
}

int exit_code_of(const BenchResult& result) {
  if (!result.report.lost.empty()) return static_cast<int>(ExitCode::lost_peer);
  const bool well = std::ranges::all_of(result.verdicts, [](const auto& v) { return v.grade == bench::Grade::ok; });
  return well ? static_cast<int>(ExitCode::done) : threshold_crossed;
}

void write_exports(const BenchOptions& o, const BenchResult& result) {
  if (!o.page.empty()) files::write_text(o.page, bench_page(result));
  if (!o.prometheus.empty()) files::write_text(o.prometheus, prometheus_text(result));
  if (!o.topology.empty()) files::write_text(o.topology, topology_text(result.report));
  if (o.reframe.empty()) return;
  const char* cluster = launch_variable("SLURM_CLUSTER_NAME");
  files::write_text(o.reframe, reframe_text(result.report, cluster == nullptr ? "cluster" : cluster));
}

void show(const BenchOptions& o, const BenchResult& result) {
  if (!o.output.file.empty()) write_output({.file = o.output.file}, files::bench_to_json(result.report));
  if (o.output.json) return write_output({}, bench_json(result));
  const auto words = o.quiet ? findings_text(result.verdicts, output_width()) : bench_text(result, output_width());
  if (!words.empty()) write_output({}, words);
}

/// Judges before the report joins the history: a run is not held against itself.
int conclude(const BenchOptions& o, bench::BenchReport report, bool is_new) {
  auto standard = standard_of(o, report);
  BenchResult result{std::move(report), {}, std::move(standard.name), std::move(standard.reports), std::move(standard.baselines)};
  result.verdicts = bench::judge(result.report, result.baselines);
  if (is_new && !o.history.empty()) files::add_to_bench_history(o.history, result.report);
  write_exports(o, result);
  show(o, result);
  return exit_code_of(result);
}

/// Reports of one start, apart from those of others.
fs::path folder_of(const BenchOptions& o, const BenchLaunch& launch) {
  return fs::absolute(o.folder) / (launch.id.empty() ? "alone-" + files::unguessable() : launch.id);
}

/// A node that is not tested by itself still says whether others use it.
bench::NodeReport at_rest(const health::NodeTest& test) {
  const health::OtherWork others;
  auto report = health::identify(test);
  std::this_thread::sleep_for(std::chrono::milliseconds{500});
  report.others = others.share().value_or(-1);
  return report;
}

/// 0: none.
Seconds soak_length(const BenchOptions& o) { return o.soak.value > 0 ? o.soak : o.wants(stage::soak) ? usual_soak : Seconds{}; }

/// While it lives, the signals that end programs end the soak, and the report is made.
class SoakEnd {
 public:
  std::optional<std::string> word() const {
    const auto signal = signals_.received();
    return signal ? std::optional{signals::signal_name(signal->number)} : std::nullopt;
  }

 private:
  signals::StopSignals signals_;
  signals::SignalThread thread_{signals::StopSignals::usual()};
};

/// "soaking n1: 3 min of 2 h, 812 steps, 61 degrees".
std::string soak_line(const std::string& host, const bench::Soak& soak) {
  const double heat = soak.windows.empty() ? 0 : soak.windows.back().temperature;
  return text("soaking ", host, ": ", soak.lasted, " of ", soak.wanted, ", ", soak.steps, " steps",
              soak.wrong_steps > 0 ? text(", ", soak.wrong_steps, " WRONG") : "", heat > 0 ? formatted(", %.0f degrees", heat) : "");
}

/// Tells of itself more often than its silence would be noticed; what it has found by then is in the report of a node that dies.
void soak_this_node(const BenchOptions& o, const BenchLaunch& launch, const fs::path& folder, const SoakEnd& end,
                    bench::NodeReport& report) {
  LiveLine line;
  Seconds published{};
  health::SoakTest test;
  test.length = soak_length(o);
  test.stopped = [&] { return end.word(); };
  test.progress = [&](const bench::Soak& soak) {
    if (launch.rank == 0) line.show(soak_line(report.host, soak));
    if (now() - published < o.silence / 6) return;
    published = now();
    report.soak = soak;
    report.doing = text("soak, ", soak.lasted, " of ", soak.wanted);
    health::publish(folder, report);
  };
  report.done = false;
  try {
    report.soak = health::soak(test);
  } catch (const Error& error) {  // a device that fails under load is what a soak is for; the report holds what was known before
    report.failures.push_back({"soak", error.what()});
  }
}

void test_this_node(const BenchOptions& o, const BenchLaunch& launch, const fs::path& folder, const SoakEnd* end, BenchTime& time) {
  LiveLine line;
  health::NodeTest test;
  test.host = launch.host;
  test.partition = launch.partition;
  test.disk = o.disk.empty() ? fs::path{o.folder} : fs::path{o.disk};
  test.disk_size = o.disk_size;
  test.budget = time.next();
  test.progress = [&](const bench::NodeReport& report) {
    if (launch.rank == 0) line.show("testing " + report.host + ": " + report.doing);
    health::publish(folder, report);
  };
  auto report = o.wants(stage::nodes) ? health::test_node(test) : at_rest(test);
  if (end != nullptr) {
    const Seconds begin = now();
    soak_this_node(o, launch, folder, *end, report);
    time.soaked(now() - begin);
  }
  report.done = true;
  report.doing.clear();
  health::publish(folder, report);
}

bench::BenchReport collect_all(const BenchOptions& o, const BenchLaunch& launch, const fs::path& folder) {
  LiveLine line;
  return health::collect(folder, launch.expected, {o.silence, [&](const std::string& hosts) { line.show("waiting for " + hosts); }});
}

/// Nobody enters MPI, where all must come, before the first rank has heard of every node.
fs::path decision_file(const fs::path& folder) { return folder / "network.txt"; }

void decide(const fs::path& folder, bool go) { files::write_text(decision_file(folder), go ? "go\n" : "stop\n", files::Flush::no); }

bool await_decision(const BenchOptions& o, const fs::path& folder) {
  const Seconds end = now() + 10 * o.budget + 2 * o.silence + soak_length(o);
  while (!files::facts_of(decision_file(folder))) {
    FLOTILLA_REQUIRE(now() < end, ErrorKind::communication,
                     "the first rank does not say whether all nodes have reported; is its node well?");
    std::this_thread::sleep_for(std::chrono::milliseconds{50});
  }
  return files::read_text(decision_file(folder)) == "go\n";
}

/// Where Slurm knows the network's switches, nodes say on which they hang.
void add_switches(bench::BenchReport& report) {
  try {
    const auto switches = slurm::switches_of_nodes(slurm::answer_of({"scontrol", "show", "topology"}, Seconds{10}));
    for (auto& node : report.nodes)
      if (const auto found = switches.find(node.host); found != switches.end()) node.network_switch = found->second;
  } catch (const Error& error) {
    log::warning("the network's switches are not known: ", error.what());
  }
}

bench::BenchReport with_network(const BenchOptions& o, const BenchLaunch& launch, const comm::World& world,
                                const std::function<Seconds()>& next_time, const bench::BenchReport& report) {
  LiveLine line;
  if (launch.rank == 0) line.show("testing the network");
  return test_network(
      world, launch, {o.wants(stage::links), o.wants(stage::collectives), o.transports, o.message_deadline, next_time, !o.topology.empty()},
      report);
}

/// The job that the profile is for; nothing where none is wanted.
std::optional<Job> profile_job(const BenchOptions& o) {
  FLOTILLA_REQUIRE(!o.profile.empty() || (o.profile_job.empty() && o.profile_model.empty()), ErrorKind::usage,
                   "--profile-job and --profile-model say what a profile is for; name its file, too: --profile FILE");
  if (o.profile.empty()) return {};
  std::vector<std::string> words;
  if (!o.profile_job.empty()) words.push_back(o.profile_job);
  if (!o.profile_model.empty()) words.push_back("--model.name=" + o.profile_model);
  return read_job(words, options::environment(), Need::model);
}

/// As `flotilla probe` measures and writes it, with the links of stage 1, in this command's time.
void write_profile(const BenchOptions& o, const BenchLaunch& launch, const comm::World& world, Job job, Seconds time,
                   const bench::BenchReport& report) {
  job.probe.budget = std::max(time, shortest_profile);
  comm::require_same(world, "the profile's job", shared_configuration(job), ranks_start_deadline);
  LiveLine line;
  const auto profile = measure_profile(world, job, [&](const std::string& what) {
    if (launch.rank == 0) line.show("measuring " + what);
  });
  if (launch.rank == 0) files::write_profile(o.profile, profile, bench::fabric_links(report.links));
}

/// What all processes do together: links, collectives, the profile, the card.
struct Meeting {
  bool network = false;
  std::optional<Job> profile;
  std::optional<CardTest> card;
  bool wanted() const { return network || profile || card; }
};

/// Nobody can end MPI with a node that is lost: the report is made, then the job ended.
[[noreturn]] void conclude_without(const BenchOptions& o, bench::BenchReport report) { mpi::abort(conclude(o, std::move(report), true)); }

/// Rank 0's clock decides how long parts last, so that no rank waits for one that has gone on.
bench::BenchReport together(const BenchOptions& o, const BenchLaunch& launch, Meeting meeting, BenchTime& time,
                            const bench::BenchReport& mine) {
  const mpi::Session session{meeting.card ? longest_card(*meeting.card) : ranks_start_deadline};
  const comm::World world{session.world(), ranks_start_deadline};
  const auto next_time = [&] {
    return mpi::broadcast_value(world.control(), launch.rank == 0 ? time.next() : Seconds{}, 0, ranks_start_deadline);
  };
  auto report = with_network(o, launch, world, next_time, mine);
  if (meeting.profile) write_profile(o, launch, world, *meeting.profile, next_time(), report);
  if (meeting.card) {
    meeting.card->budget = next_time();
    report = test_card(world, launch, *meeting.card, std::move(report));
  }
  if (launch.rank == 0 && !report.lost.empty()) conclude_without(o, std::move(report));
  return report;
}

/// What nodes have left is in the report now. Of a start that lost some, it stays, for whoever looks into it.
void forget(const fs::path& folder) {
  std::error_code ignored;
  fs::remove_all(folder, ignored);
}

Meeting meeting_of(const BenchOptions& o, const BenchLaunch& launch, const fs::path& folder) {
  Meeting meeting;
  meeting.network = o.wants(stage::links) || o.wants(stage::collectives);
  FLOTILLA_REQUIRE(!meeting.network || !launch.id.empty(), ErrorKind::usage,
                   "stages 1 and 2 need several processes; start them by srun --mpi=pmix or mpirun");
  meeting.profile = profile_job(o);
  FLOTILLA_REQUIRE(o.wants(stage::card) || (o.card_models.empty() && o.card_job.empty()), ErrorKind::usage,
                   "--card-model and --card-job say what stage 3 trains; ask for it, too: --stages 0,3");
  if (o.wants(stage::card)) meeting.card = CardTest{card_jobs(o.card_job, o.card_models), o.budget, o.silence, folder};
  return meeting;
}

/// When this command began, by the clock of now(): its launcher, which has started this process a moment ago, or the process.
Seconds command_began(const BenchLaunch& launch) {
  constexpr Seconds longest_start{10};  // a shell that outlives its commands has begun before that
  const double process = journal::this_process_began(), launcher = launch.id.empty() ? 0 : journal::process_began(::getppid());
  if (process <= 0) return now();
  const double began = launcher > process - longest_start.value ? std::min(launcher, process) : process;
  const Seconds today{std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count()};
  return now() - std::max(Seconds{}, today - Seconds{began});
}

/// Before minutes or hours are measured for files that cannot be written.
void require_folders(const BenchOptions& o) {
  for (const auto& file : {o.output.file, o.page, o.prometheus, o.topology, o.reframe, o.profile})
    if (const auto folder = fs::path{file}.parent_path(); !folder.empty()) files::require_there(folder, text("the folder for ", file));
}

int measure(const BenchOptions& o) {
  const auto launch = bench_launch(launch_variable, slurm::read_allocation(options::environment()));
  if (launch.rank == 0) require_folders(o);
  const auto folder = folder_of(o, launch);
  const auto meeting = meeting_of(o, launch, folder);
  BenchTime time{o, meeting.card ? meeting.card->jobs.size() : 0, command_began(launch)};
  const auto say = [&](const std::string& line) {
    if (launch.rank == 0 && !o.quiet && !line.empty()) log::warning(line);
  };
  say(time.too_short());
  {
    std::optional<SoakEnd> end;
    if (soak_length(o).value > 0) end.emplace();
    if (launch.local_rank == 0) test_this_node(o, launch, folder, end ? &*end : nullptr, time);
    if (launch.rank != 0 && (!meeting.wanted() || !await_decision(o, folder))) return static_cast<int>(ExitCode::done);
  }
  if (launch.rank != 0) {
    together(o, launch, meeting, time, {});
    return static_cast<int>(ExitCode::done);
  }
  auto report = collect_all(o, launch, folder);
  if (meeting.network && !launch.host.empty()) add_switches(report);
  const bool all_here = report.lost.empty();
  const auto so_far = bench::judge(report, {});
  if (std::ranges::any_of(so_far, [](const auto& verdict) { return verdict.grade != bench::Grade::ok; }))
    time.ends_later(end_of_launcher(launch_variable));
  if (meeting.wanted()) decide(folder, all_here);
  if (meeting.wanted() && all_here) report = together(o, launch, meeting, time, report);
  if (meeting.profile && !all_here) log::warning(o.profile, " is not written: a node was lost");
  if (all_here) forget(folder);
  say(time.overdrawn());
  return conclude(o, std::move(report), true);
}

int compare(const BenchOptions& o, const std::vector<std::string>& operands) {
  FLOTILLA_REQUIRE(operands.size() == 2, ErrorKind::usage, "expected two reports: flotilla bench --compare OLD NEW");
  const auto changes = bench::compare(files::read_bench(operands[0]), files::read_bench(operands[1]));
  const bool worse = std::ranges::any_of(changes, &bench::Change::beyond);
  if (o.output.json)
    write_output(o.output, changes_json(changes));
  else if (worse || !o.quiet)
    write_output(o.output, changes_text(changes, output_width()));
  return worse ? threshold_crossed : static_cast<int>(ExitCode::done);
}

/// A report, or the folder in which nodes left theirs.
bench::BenchReport read_report(const std::string& path) {
  const auto facts = files::facts_of(path);
  if (facts && facts->type == files::FileType::folder) return health::collect(path, {}, {Seconds{0}});
  return files::read_bench(path);
}

}  // namespace

int bench(std::span<const std::string> arguments) {
  BenchOptions o;
  auto table = bench_table(o);
  const auto operands = table.read_command_line(arguments);
  table.read_environment(options::environment());
  log::set_level(o.output.log_level);
  if (o.compare) return compare(o, operands);
  FLOTILLA_REQUIRE(operands.size() <= 1, ErrorKind::usage, "expected one report, got ", operands.size(), "; --compare compares two");
  return operands.empty() ? measure(o) : conclude(o, read_report(operands[0]), false);
}

}  // namespace flotilla::app
