#include "app/bench/bench_card.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <optional>
#include <utility>

#include "app/common/forecasting.hpp"
#include "app/common/live_line.hpp"
#include "app/common/on_all_ranks.hpp"
#include "app/common/profile_measurement.hpp"
#include "app/common/search_request.hpp"
#include "flotilla/base/clock.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/base/philox.hpp"
#include "flotilla/base/time_shares.hpp"
#include "flotilla/comm/agree.hpp"
#include "flotilla/files/text_file.hpp"
#include "flotilla/gpu/driver.hpp"
#include "flotilla/health/collect.hpp"
#include "flotilla/health/energy.hpp"
#include "flotilla/session/active_plan.hpp"
#include "flotilla/session/data_files.hpp"
#include "flotilla/session/device_choice.hpp"
#include "flotilla/session/plan_choice.hpp"
#include "flotilla/slurm/job_billing.hpp"
#include "flotilla/slurm/run_program.hpp"
#include "flotilla/topology/topology.hpp"

namespace flotilla::app {
namespace {

constexpr int fewest_steps = 3;  // that are timed
constexpr std::size_t text_size = 1 << 20;
constexpr Seconds between_signs{1}, scontrol_deadline{10}, shortest_probe{0.1};
constexpr double for_probe = 0.3;  // of a model's time

/// Told what comes next; empty: nobody listens.
using CardTold = std::function<void(const std::string&)>;

std::filesystem::path card_folder(const CardTest& test) { return test.folder / "card"; }

/// Letters at random: what is learned from them does not matter, and no step takes longer for it.
std::string letters() {
  std::string text(text_size, ' ');
  const Philox random{20261125, 7};
  for (std::size_t i = 0; i < text.size(); i += 4) {
    const auto four = random(i);
    for (std::size_t k = 0; k < 4; ++k) text[i + k] = static_cast<char>('a' + four[k] % 26);
  }
  return text;
}

double median_of_steps(std::vector<double> seconds) {
  std::ranges::sort(seconds);
  return (seconds[(seconds.size() - 1) / 2] + seconds[seconds.size() / 2]) / 2;
}

/// One model on one node, from measuring the node for it to its timed steps.
class CardTraining {
 public:
  CardTraining(const comm::World& node, const Job& job, Seconds budget, const CardTold& told)
      : node_{node}, job_{job}, end_{now() + budget}, told_{told}, data_{open()}, place_{node, job_, data_,
                                                                                         {},   {},   1,
                                                                                         {},   {},   session::phases_of(job_),
                                                                                         {},   false} {}

  bench::CardEntry run() {
    look_at_devices();
    const auto chosen = choose();
    auto work = session::activate(place_, chosen, session::lower(place_, chosen.plan));
    tell("training");
    bench::CardEntry entry = described(chosen);
    if (work.trainer) time_steps(*work.trainer, entry);
    entry.memory_left = memory_left();
    mpi::barrier(node_.control(), job_.comm.deadline);
    return entry;
  }

 private:
  session::TrainingData open() const {
    const auto files = session::find_data_files(node_, job_, {});
    return comm::agree_on(
        node_, "opening the card's text", [&] { return session::open_data(job_, files); }, job_.comm.deadline);
  }

  void tell(const std::string& what) const {
    if (told_) told_(text(what, " ", job_.architecture.name));
  }

  /// As `flotilla train` does.
  void look_at_devices() {
    place_.schedule = session::run_schedule(job_, std::nullopt);
    place_.device = session::choose_device(node_, job_.device.kind, session::how_to_compute(job_), job_.comm.deadline);
    if (!job_.training.precision) job_.training.precision = session::precision_of_devices(node_, place_.device, job_.comm.deadline);
    const auto here = probe::discover(node_, probing());
    place_.threads = here.devices[node_.rank().index()].threads;
    for (const auto& device : here.devices) place_.runtime.threads = std::max(place_.runtime.threads, device.threads);
    place_.runtime.separate_documents = job_.data.separate_documents;
    place_.runtime.library_scratch = session::least_scratch(place_, job_.training.length);
    place_.runtime.placement = program::placement_of(here.devices);
    place_.runtime.library_all_reduce = job_.comm.reduction == Job::Comm::Reduction::nccl;
    place_.runtime_constant = runtime_constant(most_on_a_host(here.devices));
  }

  probe::ProbeRequest probing() const {
    auto request = probe_request(job_);
    request.device = place_.device;
    request.progress = [this](const std::string& what) { tell("measuring " + what + " for"); };
    return request;
  }

  session::ChosenPlan choose() const {
    session::ChoiceRequest request;
    request.search = search_request(job_, job_.training.length, job_.training.global_batch);
    request.probe = probing();
    request.file = job_.plan.file;
    request.transport = job_.comm.transport;
    request.runtime = place_.runtime;
    request.runtime_constant = place_.runtime_constant;
    return session::choose_plan(node_, request, job_.comm.deadline);
  }

  bench::CardEntry described(const session::ChosenPlan& chosen) const {
    const double tokens = static_cast<double>(job_.training.global_batch) * job_.training.length;
    bench::CardEntry entry;
    entry.model = job_.architecture.name;
    entry.precision = to_string(job_.training.precision.value());
    entry.length = job_.training.length;
    entry.batch = job_.training.global_batch;
    entry.ranks = node_.size();
    entry.plan = plan::summary(chosen.plan);
    if (chosen.forecast.iteration.value > 0) entry.forecast = tokens / chosen.forecast.iteration.value;
    return entry;
  }

  /// One to warm up, then to the end of the model's time; some rank's wish to stop is every rank's.
  void time_steps(train::Trainer& trainer, bench::CardEntry& entry) const {
    trainer.initialize();
    trainer.step(0);
    health::EnergyMeter energy;
    std::vector<double> seconds;
    for (bool stop = false; !stop;) {
      const Seconds start = now();
      const bool enough = static_cast<int>(seconds.size()) + 1 >= fewest_steps && start >= end_;
      stop = trainer.step(static_cast<std::int64_t>(seconds.size()) + 1, {enough}).stop;
      seconds.push_back((now() - start).value);
      energy.sample();
      tell(text("training, step ", seconds.size(), " of"));
    }
    entry.steps = static_cast<int>(seconds.size());
    entry.tokens_per_second = static_cast<double>(entry.batch) * entry.length / median_of_steps(std::move(seconds));
    entry.power = energy.words();
    if (energy.counts()) entry.watts = energy.joules() / energy.time().value;
  }

  /// Of the fullest GPU that a rank computes on, else of the node's memory. Collective.
  Bytes memory_left() const {
    std::int64_t left = std::numeric_limits<std::int64_t>::max();
    for (const auto theirs : mpi::all_gather(node_.control(), memory_left_here().count, job_.comm.deadline)) left = std::min(left, theirs);
    return {left};
  }

  Bytes memory_left_here() const {
    if (place_.device.kind != cluster::DeviceKind::gpu) return topology::this_node().memory_available;
    const auto devices = gpu::presence().devices;
    const auto found = std::ranges::find(devices, place_.device.ordinal, &gpu::DeviceFacts::ordinal);
    const auto figures = found == devices.end() ? std::nullopt : gpu::figures(found->pci_bus_id);
    return figures ? figures->memory_total - figures->memory_used : Bytes{};
  }

  const comm::World& node_;
  Job job_;
  const Seconds end_;
  const CardTold& told_;
  session::TrainingData data_;
  session::RunContext place_;
};

/// The job with the card's text as its data, and no checkpoint or evaluation; measuring the node takes its part of the time.
Job with_text(Job job, const std::filesystem::path& file, Seconds time) {
  job.probe.budget = std::max(time * for_probe, shortest_probe);
  job.data = {};
  job.data.train = {file.string()};
  job.data.validation_fraction = 0;
  job.training.evaluate_every = 0;
  return job;
}

/// The node's units for an hour, or why they are not known.
struct Billing {
  double units = 0;
  std::string unknown;
};

Billing billing_here() {
  const auto allocation = slurm::read_allocation(options::environment());
  if (!allocation) return {0, "no job of Slurm"};
  const auto component = slurm::component_of(*allocation, allocation->host);
  const auto& job = component ? allocation->components[*component].job : allocation->job;
  try {
    const auto units = slurm::billing_of_a_node(slurm::answer_of({"scontrol", "show", "job", "--oneliner", job}, scontrol_deadline));
    return units ? Billing{*units, ""} : Billing{0, "Slurm bills nothing for this job"};
  } catch (const Error& error) {
    return {0, error.what()};
  }
}

/// What the first process of a node tells the others of the start, at most once a second: steps are not to be held up by it.
class CardNews {
 public:
  CardNews(std::filesystem::path folder, bench::NodeReport report) : folder_{std::move(folder)}, report_{std::move(report)} {
    report_.done = false;
    tell("the card");
  }
  void tell(const std::string& what) {
    if (now() - told_ < between_signs) return;
    told_ = now();
    report_.doing = what;
    line_.show(report_.host + ": " + what);
    health::publish(folder_, report_);
  }
  void end(std::vector<bench::CardEntry> card) {
    bench::add_card(report_, std::move(card));
    report_.done = true;
    report_.doing.clear();
    health::publish(folder_, report_);
  }

 private:
  const std::filesystem::path folder_;
  bench::NodeReport report_;
  Seconds told_{-1};
  LiveLine line_;
};

/// Each of the models on these ranks, which are one node's.
std::vector<bench::CardEntry> train_card(const comm::World& node, const CardTest& test, const CardTold& told) {
  const Seconds deadline = test.jobs.front().comm.deadline;
  const auto name = text("text-", node.rank() == Rank{0} ? files::unguessable() : "", ".txt");
  const auto file = test.folder / mpi::broadcast_string(node.control(), name, 0, deadline);
  comm::agree_on(
      node, "writing the card's text",
      [&] {
        if (node.rank() == Rank{0}) files::write_text(file, letters(), files::Flush::no);
      },
      deadline);
  std::vector<bench::CardEntry> card;
  TimeShares shares{now() + test.budget, std::vector<double>(test.jobs.size(), 1.0)};
  for (const auto& job : test.jobs) {
    const Seconds time = mpi::broadcast_value(node.control(), shares.next(), 0, deadline);
    try {
      card.push_back(CardTraining{node, with_text(job, file, time), time, told}.run());
    } catch (const comm::AgreedError& error) {
      auto& entry = card.emplace_back();
      entry.model = job.architecture.name;
      entry.refusal = error.what();
    }
  }
  return card;
}

/// On the ranks of one node, of which the first tells.
void card_of_this_node(const comm::World& node, const CardTest& test, const bench::NodeReport& report) {
  if (node.rank() != Rank{0}) {
    train_card(node, test, {});
    return;
  }
  CardNews news{card_folder(test), report};
  auto card = train_card(node, test, [&](const std::string& what) { news.tell(what); });
  const auto billing = billing_here();
  for (auto& entry : card) entry.billing = billing.units, entry.billing_unknown = billing.unknown;
  news.end(std::move(card));
}

/// The report with what the nodes told; those that fell silent are lost.
bench::BenchReport collected(const CardTest& test, const std::vector<std::string>& hosts, bench::BenchReport report) {
  LiveLine line;
  const health::CollectPatience patience{test.silence, [&](const std::string& who) { line.show("the card: waiting for " + who); }};
  const auto cards = health::collect(card_folder(test), {hosts, 0}, patience);
  for (const auto& told : cards.nodes)
    for (auto& node : report.nodes)
      if (node.host == told.host) node = told;
  for (const auto& lost : cards.lost) {
    std::erase_if(report.nodes, [&](const auto& node) { return node.host == lost.host; });
    report.lost.push_back(lost);
  }
  return report;
}

}  // namespace

std::vector<Job> card_jobs(const std::string& job_file, const std::vector<std::string>& models) {
  std::vector<std::string> words;
  if (!job_file.empty()) words.push_back(job_file);
  if (models.empty()) return {read_job(words, options::environment(), Need::model)};
  std::vector<Job> jobs;
  for (const auto& model : models) {
    auto with_model = words;
    with_model.push_back("--model.name=" + model);
    jobs.push_back(read_job(with_model, options::environment(), Need::model));
  }
  return jobs;
}

Seconds longest_card(const CardTest& test) {
  Seconds longest{120};
  for (const auto& job : test.jobs) longest = longest + job.comm.deadline + 10 * test.budget;
  return longest;
}

bench::BenchReport test_card(const comm::World& world, const BenchLaunch& launch, const CardTest& test, bench::BenchReport report) {
  const auto mine = launch.host.empty() ? world.host(world.rank()) : launch.host;
  const auto names = mpi::all_gather_strings(world.control(), mine, ranks_start_deadline);
  std::vector<int> neighbours;
  for (std::size_t r = 0; r < names.size(); ++r)
    if (names[r] == mine) neighbours.push_back(static_cast<int>(r));
  const auto hosts = bench::card_hosts(report);
  const auto here = std::ranges::find(report.nodes, mine, &bench::NodeReport::host);
  if (here != report.nodes.end() && std::ranges::find(hosts, mine) != hosts.end())
    card_of_this_node(comm::World{world.control().subset(neighbours), ranks_start_deadline}, test, *here);
  return launch.rank == 0 ? collected(test, hosts, std::move(report)) : report;
}

}  // namespace flotilla::app
