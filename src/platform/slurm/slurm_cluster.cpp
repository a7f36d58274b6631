#include "flotilla/slurm/slurm_cluster.hpp"

#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <set>

#include "answer_fields.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/base/foreign_text.hpp"
#include "flotilla/slurm/host_list.hpp"
#include "flotilla/slurm/time.hpp"

namespace flotilla::slurm {
namespace {

constexpr std::size_t node_columns = 9;
constexpr std::int64_t most_cpus = 1'000'000;  // of a node

/// What sinfo is asked for, column by column, with what the columns are.
const char* const node_format = "%N|%R|%a|%T|%c|%m|%G|%f|%C";

bool any_of(const std::set<std::string>& words, std::initializer_list<const char*> these) {
  return std::ranges::any_of(these, [&](const char* word) { return words.contains(word); });
}

/// Words of a state and its flags: "IDLE*+DRAIN" and "idle-" end in signs that are words elsewhere.
std::set<std::string> state_words(const std::string& state) {
  std::set<std::string> words;
  for (auto word : split(upper(state), '+')) {
    while (!word.empty() && std::string{"*~#!%$@^-"}.find(word.back()) != std::string::npos) {
      switch (word.back()) {
        case '*': words.insert("NOT_RESPONDING"); break;
        case '$': words.insert("MAINT"); break;
        case '-': words.insert("PLANNED"); break;
        case '#': words.insert("POWERING_UP"); break;
        case '@':
        case '^': words.insert("REBOOT"); break;
        case '!':
        case '%': words.insert("POWERING_DOWN"); break;
        default: break;  // asleep: Slurm wakes it for a job
      }
      word.pop_back();
    }
    if (!word.empty()) words.insert(word);
  }
  return words;
}

/// What a node may be used for, from what sinfo and scontrol say of it.
void judge(SlurmNode& node, const std::string& flags) {
  auto words = state_words(node.state);
  words.merge(state_words(flags));
  // A node that starts does not answer until its slurmd does.
  node.booting = any_of(words, {"POWERING_UP", "POWER_UP", "REBOOT_ISSUED"}) && !any_of(words, {"DOWN", "POWERING_DOWN"});
  if (node.booting) words.erase("NOT_RESPONDING");
  node.usable = !any_of(words, {"DOWN", "DRAIN", "DRAINED", "DRAINING", "FAIL", "FAILING", "ERROR", "UNKNOWN", "FUTURE", "INVAL", "MAINT",
                                "MAINTENANCE", "RESERVED", "NOT_RESPONDING", "INVALID_REG", "INVALID", "BLOCKED"});
  const bool later = any_of(words, {"COMPLETING", "PLANNED", "PERFCTRS", "REBOOT", "REBOOT_REQUESTED", "REBOOT_ISSUED", "POWERING_DOWN",
                                    "POWER_DOWN", "ALLOCATED", "ALLOC"});
  const bool mixed = any_of(words, {"MIXED", "MIX"});
  const bool idle = any_of(words, {"IDLE", "POWERED_DOWN", "POWERING_UP"});
  node.idle = node.usable && !node.booting && !later && idle && !mixed;
  node.shared = node.usable && !node.booting && !later && mixed;
}

/// CPUs of a list such as "0-1,64"; what is no list has none.
int cpus_in(const std::string& list) {
  int count = 0;
  for (const auto& range : split(list, ',')) {
    const auto dash = range.find('-');
    const int first = number_of(range.substr(0, dash)), last = dash == range.npos ? first : number_of(range.substr(dash + 1));
    if (first >= 0 && last >= first && last < most_cpus && count < most_cpus) count += last - first + 1;
  }
  return count;
}

/// Reads the lines of the answers one after the other.
class Reader {
 public:
  SlurmCluster slurm_cluster;

  void configuration(const std::string& answer) {
    for (auto line : lines_of(answer)) {
      if (const std::string_view mark{"Configuration data as of "}; line.starts_with(mark))
        slurm_cluster.time = parse_wall_clock(std::string{line.substr(mark.size())});
      const auto equals = line.find('=');
      if (equals == line.npos) continue;
      std::string key{line.substr(0, equals)}, value{line.substr(equals + 1)};
      key.erase(key.find_last_not_of(' ') + 1);
      value.erase(0, std::min(value.find_first_not_of(' '), value.size()));
      if (key == "ClusterName") slurm_cluster.name = value;
      if (key == "SLURM_VERSION") slurm_cluster.version = value;
      if (key == "SelectTypeParameters" || key == "DefMemPerCPU" || key == "DefMemPerNode" || key == "MaxMemPerCPU" ||
          key == "MaxMemPerNode" || key == "JobDefaults")
        defaults_[key] = value;
      if (key == "PriorityFlags") slurm_cluster.largest_counts = value.find("MAX_TRES") != value.npos;
      if (key == "KillWait" && number_of(value.substr(0, value.find(' '))) >= 0)
        slurm_cluster.kill_wait = {static_cast<double>(number_of(value.substr(0, value.find(' '))))};
    }
  }

  void partitions(const std::string& answer) {
    int number = 0;
    for (auto line : lines_of(answer)) {
      const auto place = text("scontrol show partition, line ", ++number);
      read_at(place, [&] { partition(record_of(line)); });
    }
  }

  void details(const std::string& answer) {
    for (auto line : lines_of(answer)) {
      auto record = record_of(line);
      const auto name = field(record, "NodeName");
      if (!name.empty()) details_.emplace(name, std::move(record));
    }
  }

  void nodes(const std::string& answer) {
    int number = 0;
    for (auto line : lines_of(answer)) {
      const auto place = text("sinfo, line ", ++number);
      read_at(place, [&] { node(split(line, '|')); });
    }
  }

 private:
  void partition(const std::map<std::string, std::string>& record) {
    Partition p;
    p.name = field(record, "PartitionName");
    FLOTILLA_REQUIRE(!p.name.empty(), ErrorKind::bad_input, "expected PartitionName=...");
    FLOTILLA_REQUIRE(!places_.contains(p.name), ErrorKind::bad_input, "partition ", in_quotes(p.name), " is listed twice");
    p.open = upper(field(record, "State")) == "UP" && field(record, "RootOnly") != "YES" && field(record, "ReqResv") != "YES";
    p.limit = parse_time(field(record, "MaxTime"));
    p.standard_time = parse_time(field(record, "DefaultTime"));
    p.grace = {static_cast<double>(std::max(number_of(field(record, "GraceTime")), 0))};
    p.preemption = upper(field(record, "PreemptMode"));
    p.tier = std::max(number_of(field(record, "PriorityTier")), 0);
    p.fewest_nodes = std::max(number_of(field(record, "MinNodes")), 0);
    if (const int most = number_of(field(record, "MaxNodes")); most >= 0) p.most_nodes = most;
    const auto exclusive = upper(field(record, "Exclusive"));  // since 26.05
    p.exclusive = upper(field(record, "OverSubscribe")).starts_with("EXCLUSIVE") || field(record, "ExclusiveUser") == "YES" ||
                  (!exclusive.empty() && exclusive != "NO");
    if (const int most = number_of(field(record, "MaxCPUsPerNode")); most > 0) p.most_cpus = most;
    if (const int most = number_of(field(record, "MaxCPUsPerSocket")); most > 0) p.socket_cpus = most;
    given_with_gpus(p, field(defaults_, "JobDefaults"));
    given_with_gpus(p, field(record, "JobDefaults"));
    p.accounts = names_in(field(record, "AllowAccounts"));
    p.other_than_accounts = names_in(field(record, "DenyAccounts"));
    p.qualities = names_in(field(record, "AllowQos"));
    p.other_than_qualities = names_in(field(record, "DenyQos"));
    if (const auto hosts = field(record, "AllocNodes"); !names_in(hosts).empty())
      for (const auto& host : expand_host_list(hosts, "AllocNodes")) p.submit_hosts.push_back(lower(host));
    p.cpu_memory = memory_limit(field(record, "DefMemPerCPU"));
    p.node_memory = memory_limit(field(record, "DefMemPerNode"));
    const auto own = upper(field(record, "SelectTypeParameters"));
    p.memory_counts = (own.empty() || own == "NONE" ? upper(field(defaults_, "SelectTypeParameters")) : own).find("MEMORY") != own.npos;
    if (!p.cpu_memory && !p.node_memory) {
      p.cpu_memory = memory_limit(field(defaults_, "DefMemPerCPU"));
      p.node_memory = memory_limit(field(defaults_, "DefMemPerNode"));
    }
    p.most_cpu_memory = memory_limit(field(record, "MaxMemPerCPU"));
    p.most_node_memory = memory_limit(field(record, "MaxMemPerNode"));
    if (!p.most_cpu_memory && !p.most_node_memory) {
      p.most_cpu_memory = memory_limit(field(defaults_, "MaxMemPerCPU"));
      p.most_node_memory = memory_limit(field(defaults_, "MaxMemPerNode"));
    }
    p.qos = field(record, "QoS");
    p.weights = parse_billing_weights(field(record, "TRESBillingWeights"));
    places_[p.name] = slurm_cluster.partitions.size();
    slurm_cluster.partitions.push_back(std::move(p));
  }

  /// "DefCpuPerGPU=16,DefMemPerGPU=65536"; what the partition says goes before what the site says.
  static void given_with_gpus(Partition& p, const std::string& defaults) {
    for (const auto& word : split(upper(defaults), ',')) {
      const auto equals = std::min(word.find('='), word.size() - 1);
      const std::string key = word.substr(0, equals), value = word.substr(equals + 1);
      if (const int cpus = number_of(value); key == "DEFCPUPERGPU" && cpus > 0) p.gpu_cpus = cpus;
      if (key == "DEFMEMPERGPU") p.gpu_memory = memory_limit(value);
    }
  }

  /// "ALL" and nothing are no list.
  static std::vector<std::string> names_in(const std::string& list) {
    std::vector<std::string> names;
    for (const auto& name : split(lower(list), ','))
      if (!name.empty()) names.push_back(name);
    return names == std::vector<std::string>{"all"} ? std::vector<std::string>{} : names;
  }

  static std::optional<Bytes> memory_limit(const std::string& word) {
    return word.empty() || upper(word) == "UNLIMITED" ? std::nullopt : std::optional{memory_of(word)};
  }

  void node(const std::vector<std::string>& columns) {
    FLOTILLA_REQUIRE(columns.size() == node_columns, ErrorKind::bad_input, "expected ", node_columns, " columns between '|' (", node_format,
                     "), got ", columns.size());
    FLOTILLA_REQUIRE(!columns[0].empty() && !columns[1].empty(), ErrorKind::bad_input, "expected a node and a partition");
    const auto partition = places_.find(columns[1]);
    FLOTILLA_REQUIRE(partition != places_.end(), ErrorKind::bad_input, "partition ", in_quotes(columns[1]),
                     " is not listed by scontrol show partition");
    auto& p = slurm_cluster.partitions[partition->second];
    if (upper(columns[2]) != "UP") p.open = false;
    // One node with --Node; answers that were recorded without it hold lists.
    const bool list = columns[0].find_first_of("[,") != std::string::npos;
    const auto names = list ? expand_host_list(columns[0], "the node list") : std::vector{columns[0]};
    for (const auto& name : names) {
      const auto [known, is_new] = numbers_.emplace(name, slurm_cluster.nodes.size());
      if (is_new) slurm_cluster.nodes.push_back(facts(name, columns, static_cast<int>(names.size())));
      if (members_.insert({partition->second, known->second}).second) p.nodes.push_back(known->second);
    }
  }

  /// `alike` nodes stand in one line, which sums up their CPUs in use.
  SlurmNode facts(const std::string& name, const std::vector<std::string>& columns, int alike) const {
    SlurmNode n;
    n.name = name;
    n.state = columns[3];
    const auto cpus_of_all = count_of(columns[4]);
    FLOTILLA_REQUIRE(cpus_of_all >= 0 && cpus_of_all <= most_cpus, ErrorKind::bad_input, "expected a number of CPUs, got ",
                     in_quotes(columns[4]));
    n.cpus = static_cast<int>(cpus_of_all);
    n.memory = n.idle_memory = memory_of(columns[5]);
    n.gres = parse_gres(columns[6]);
    if (columns[7] != "(null)")
      for (auto& feature : split(columns[7], ','))
        if (!feature.empty()) n.features.push_back(feature);
    const auto cpus = split(columns[8], '/');  // allocated, idle, other, total
    n.idle_cpus = cpus.size() == 4 ? static_cast<int>(std::clamp<std::int64_t>(count_of(cpus[1]), 0, most_cpus)) / alike : 0;
    const auto more = details_.find(n.name);
    if (more != details_.end()) details_of(n, more->second);
    judge(n, more == details_.end() ? "" : field(more->second, "State"));
    return n;
  }

  /// sinfo rounds CPUs and counts those that are kept for the system.
  static void details_of(SlurmNode& n, const std::map<std::string, std::string>& record) {
    n.used = parse_gres(field(record, "GresUsed"));
    n.shared_gpus = gpus_in_shares(field(record, "GresUsed"));
    const int all = number_of(field(record, "CPUTot"));
    n.sockets = std::max(number_of(field(record, "Sockets")), 1);
    const int cores = n.sockets * std::max(number_of(field(record, "CoresPerSocket")), 1);
    n.threads = all == cores ? 1 : std::max(number_of(field(record, "ThreadsPerCore")), 1);  // a site may count cores as CPUs
    const int for_jobs = number_of(field(record, "CPUEfctv")), kept_cores = number_of(field(record, "CoreSpecCount"));
    const int kept = kept_cores > 0 ? std::min<int>(kept_cores, most_cpus) * n.threads : cpus_in(field(record, "CPUSpecList"));
    if (all > 0) n.cpus = for_jobs > 0 ? std::min(for_jobs, all) : std::max(all - kept, 0);
    if (const int taken = number_of(field(record, "CPUAlloc")); all > 0 && taken >= 0) n.idle_cpus = n.cpus - taken;
    n.idle_cpus = std::clamp(n.idle_cpus, 0, n.cpus);
    const auto mebibytes = [&](const char* key) { return Bytes{std::int64_t{std::max(number_of(field(record, key)), 0)} << 20}; };
    n.memory = {std::max(n.memory.count - mebibytes("MemSpecLimit").count, std::int64_t{0})};
    n.idle_memory = {std::max(n.memory.count - mebibytes("AllocMem").count, std::int64_t{0})};
  }

  std::map<std::string, std::size_t> places_, numbers_;
  std::map<std::string, std::string> defaults_;  ///< of the site, for partitions that say nothing
  std::map<std::string, std::map<std::string, std::string>> details_;
  std::set<std::pair<std::size_t, std::size_t>> members_;
};

/// Whose limits are asked for; "" where the machine has no name for this process's user.
std::string user_name() {
  const auto* entry = ::getpwuid(::geteuid());
  return entry == nullptr ? "" : entry->pw_name;
}

}  // namespace

int cpus_for(const Partition& p, const SlurmNode& node) {
  return std::min({node.cpus, p.most_cpus.value_or(node.cpus), p.socket_cpus ? *p.socket_cpus * node.sockets : node.cpus});
}

Bytes memory_for(const Partition& p, const SlurmNode& node, int cpus) {
  if (!p.memory_counts) return node.memory;
  const std::int64_t all = node.memory.count, most = p.most_node_memory.value_or(node.memory).count;
  const std::int64_t by_cpu = std::min(p.most_cpu_memory.value_or(node.memory).count, all / std::max(cpus, 1) + 1);
  return {std::min({all, most, by_cpu * cpus})};
}

std::string cluster_name(const std::string& configuration) {
  Reader reader;
  reader.configuration(configuration);
  return reader.slurm_cluster.name;
}

std::vector<SlurmQuery> slurm_queries() {
  return {{"sinfo.txt", {"sinfo", "--noheader", "--Node", text("--format=", node_format)}, &SlurmAnswers::nodes},
          {"partitions.txt", {"scontrol", "--oneliner", "show", "partition"}, &SlurmAnswers::partitions},
          {"nodes.txt", {"scontrol", "--details", "--oneliner", "show", "node"}, &SlurmAnswers::details},
          {"config.txt", {"scontrol", "show", "config"}, &SlurmAnswers::configuration},
          {"reservations.txt", {"scontrol", "--oneliner", "show", "reservation"}, &SlurmAnswers::reservations, true},
          {"accounts.txt",
           {"sacctmgr", "--noheader", "--parsable2", "show", "user", "withassoc",
            "format=DefaultAccount,Account,Partition,DefaultQOS,MaxTRES,MaxWall,MaxNodes,GrpTRES", "where", text("name=", user_name())},
           &SlurmAnswers::accounts,
           true,
           true},
          {"qos.txt",
           {"sacctmgr", "--noheader", "--parsable2", "show", "qos", "format=Name,MaxTRES,MaxWall,MaxTRESPU,GrpTRES"},
           &SlurmAnswers::qualities,
           true}};
}

SlurmCluster read_slurm_cluster(const SlurmAnswers& answers) {
  Reader reader;
  reader.configuration(answers.configuration);
  reader.partitions(answers.partitions);
  reader.details(answers.details);
  reader.nodes(answers.nodes);
  auto slurm_cluster = std::move(reader.slurm_cluster);
  slurm_cluster.reservations = read_reservations(answers.reservations);
  slurm_cluster.accounts = read_account_limits(answers.accounts);
  slurm_cluster.qualities = read_qos_limits(answers.qualities);
  return slurm_cluster;
}

namespace {

/// The association that counts for a job there; nullptr where accounting tells none.
const AccountLimits* association_of(const SlurmCluster& slurm_cluster, const Partition& partition, const std::string& account) {
  const AccountLimits* here = nullptr;
  for (const auto& a : slurm_cluster.accounts) {
    const bool ours = account.empty() ? a.standard : a.account == account;
    if (ours && (a.partition == partition.name || (a.partition.empty() && here == nullptr))) here = &a;
  }
  return here;
}

bool has_name(const std::vector<std::string>& list, const std::string& name) { return std::ranges::find(list, lower(name)) != list.end(); }

/// Another account of the user's that the partition takes, for the hint.
std::string account_for(const SlurmCluster& slurm_cluster, const Partition& p) {
  for (const auto& a : slurm_cluster.accounts)
    if ((p.accounts.empty() || has_name(p.accounts, a.account)) && !has_name(p.other_than_accounts, a.account))
      return text("; ", in_quotes(a.account), " is: --submit.account ", a.account);
  return "";
}

}  // namespace

std::string why_closed(const SlurmCluster& slurm_cluster, const Partition& p, const std::string& account, const std::string& qos,
                       const std::string& host) {
  const auto* here = association_of(slurm_cluster, p, account);
  const std::string billed = !account.empty() || here == nullptr ? account : here->account;
  const std::string quality = !qos.empty() || here == nullptr ? qos : here->standard_qos;
  const auto listed = [](const std::string& name) { return in_quotes(printable(name)); };
  // DenyAccounts and DenyQos count where there is no list of those that are allowed.
  if (!billed.empty() && !p.accounts.empty() && !has_name(p.accounts, billed))
    return text("account ", listed(billed), " is not in its AllowAccounts", account_for(slurm_cluster, p));
  if (!billed.empty() && p.accounts.empty() && has_name(p.other_than_accounts, billed))
    return text("account ", listed(billed), " is in its DenyAccounts");
  if (!quality.empty() && !p.qualities.empty() && !has_name(p.qualities, quality))
    return text("QOS ", listed(quality), " is not in its AllowQos");
  if (!quality.empty() && p.qualities.empty() && has_name(p.other_than_qualities, quality))
    return text("QOS ", listed(quality), " is in its DenyQos");
  const auto short_name = host.substr(0, host.find('.'));
  if (!p.submit_hosts.empty() && !has_name(p.submit_hosts, host) && !has_name(p.submit_hosts, short_name))
    return text("jobs for it may not be sent from ", listed(short_name), " (AllocNodes)");
  return "";
}

JobLimits limits_for(const SlurmCluster& slurm_cluster, const Partition& partition, const std::string& account, const std::string& qos) {
  const AccountLimits* here = association_of(slurm_cluster, partition, account);
  JobLimits limits;
  if (here != nullptr) limits = {here->job, here->all};
  const auto before = [&](const std::string& name) {
    const auto found = std::ranges::find(slurm_cluster.qualities, name, &QosLimits::name);
    if (found != slurm_cluster.qualities.end()) limits = {first_of(found->job, limits.job), first_of(found->all, limits.all)};
  };
  before(!qos.empty() || here == nullptr ? qos : here->standard_qos);
  before(partition.qos);
  return limits;
}

std::vector<JobRecord> read_jobs(const std::string& answer) {
  std::vector<JobRecord> jobs;
  int number = 0;
  for (auto line : lines_of(answer)) {
    const auto record = record_of(line);
    const auto place = text("scontrol show job, line ", ++number);
    FLOTILLA_REQUIRE(record.contains("JobId"), ErrorKind::bad_input, place, ": expected JobId=..., got ", in_quotes(line));
    JobRecord job;
    job.id = field(record, "JobId");
    job.leader = field(record, "HetJobId");
    job.offset = std::max(number_of(field(record, "HetJobOffset")), 0);
    job.state = field(record, "JobState");
    job.reason = field(record, "Reason");
    job.partition = field(record, "Partition");
    const auto range = split(field(record, "NumNodes"), '-');
    job.fewest_nodes = std::max(number_of(range.front()), 0);
    job.most_nodes = std::max(number_of(range.back()), 0);
    job.gres = read_at(place, [&] { return parse_gres(field(record, "TresPerNode")); });
    job.features = field(record, "Features");
    jobs.push_back(std::move(job));
  }
  std::ranges::stable_sort(jobs, {}, &JobRecord::offset);
  return jobs;
}

}  // namespace flotilla::slurm
