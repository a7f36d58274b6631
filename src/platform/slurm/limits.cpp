#include "flotilla/slurm/limits.hpp"

#include <algorithm>
#include <limits>

#include "answer_fields.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/base/foreign_text.hpp"
#include "flotilla/slurm/time.hpp"

namespace flotilla::slurm {
namespace {

/// What `read` makes of each line's columns; its errors name command and line. A first line of another form means that this is no table:
/// sacctmgr says so where there is no accounting.
template <class Read>
auto read_table(const std::string& answer, std::size_t columns, const char* command, Read read) {
  std::vector<decltype(read(std::vector<std::string>{}))> table;
  for (auto line : lines_of(answer)) {
    auto row = split(line, '|');
    if (row.size() != columns && table.empty()) return table;
    table.push_back(read_at(text(command, ", line ", table.size() + 1), [&] {
      FLOTILLA_REQUIRE(row.size() == columns, ErrorKind::bad_input, "expected ", columns, " columns between '|', got ", row.size(), " in ",
                       in_quotes(line));
      return read(row);
    }));
  }
  return table;
}

SlurmLimits limits_of(const std::string& tres, const std::string& time) {
  auto limits = parse_tres_limits(tres);
  limits.time = parse_time(time);
  return limits;
}

/// What both set, and of that the larger.
SlurmLimits laxer_of(const SlurmLimits& a, const SlurmLimits& b) {
  const auto larger = [](const auto& one, const auto& other) { return one && other ? std::max(one, other) : std::nullopt; };
  SlurmLimits both;
  both.nodes = larger(a.nodes, b.nodes);
  both.cpus = larger(a.cpus, b.cpus);
  if (a.time && b.time) both.time = Seconds{std::max(a.time->value, b.time->value)};
  for (const auto& [name, most] : a.gres)
    if (const auto other = b.gres.find(name); other != b.gres.end()) both.gres[name] = std::max(most, other->second);
  return both;
}

}  // namespace

SlurmLimits parse_tres_limits(const std::string& words) {
  SlurmLimits limits;
  for (const auto& entry : split(words, ',')) {
    if (entry.empty()) continue;
    const auto equals = entry.find('=');
    FLOTILLA_REQUIRE(equals != entry.npos && equals > 0, ErrorKind::bad_input, in_quotes(entry), ": expected NAME=COUNT");
    const auto name = lower(entry.substr(0, equals));  // Slurm compares them so
    const bool gres = name.starts_with("gres/");
    if (name != "node" && name != "cpu" && !gres) continue;
    const auto number = count_of(std::string_view{entry}.substr(equals + 1));
    FLOTILLA_REQUIRE(number >= 0, ErrorKind::bad_input, in_quotes(entry), ": expected a number");
    const int count = static_cast<int>(std::min<std::int64_t>(number, std::numeric_limits<int>::max()));
    if (name == "node") limits.nodes = count;
    if (name == "cpu") limits.cpus = count;
    if (gres) limits.gres[name.substr(5)] = count;
  }
  return limits;
}

std::vector<AccountLimits> read_account_limits(const std::string& answer) {
  auto rows = read_table(answer, 8, "sacctmgr show user", [](const std::vector<std::string>& row) {
    AccountLimits a;
    a.account = row[1];
    a.standard = row[0] == row[1];
    a.partition = row[2];
    a.standard_qos = row[3];
    a.job = limits_of(row[4], row[5]);
    if (const int nodes = number_of(row[6]); nodes >= 0 && !a.job.nodes) a.job.nodes = nodes;
    a.all = limits_of(row[7], "");
    return a;
  });
  // An answer that was recorded without the cluster's name holds an account once for each cluster: nobody can tell which is this one, and
  // sbatch holds a job to the stricter limit anyway.
  std::vector<AccountLimits> once;
  for (auto& row : rows) {
    const auto same = std::ranges::find_if(once, [&](const auto& a) { return a.account == row.account && a.partition == row.partition; });
    if (same == once.end())
      once.push_back(std::move(row));
    else
      same->job = laxer_of(same->job, row.job), same->all = laxer_of(same->all, row.all);
  }
  return once;
}

std::vector<QosLimits> read_qos_limits(const std::string& answer) {
  return read_table(answer, 5, "sacctmgr show qos", [](const std::vector<std::string>& row) {
    // What one user may have at a time bounds a run as what all may have does.
    auto all = first_of(limits_of(row[3], ""), limits_of(row[4], ""));
    return QosLimits{row[0], limits_of(row[1], row[2]), std::move(all)};
  });
}

SlurmLimits first_of(const SlurmLimits& first, const SlurmLimits& then) {
  SlurmLimits both = first;
  if (!both.nodes) both.nodes = then.nodes;
  if (!both.cpus) both.cpus = then.cpus;
  if (!both.time) both.time = then.time;
  both.gres.insert(then.gres.begin(), then.gres.end());
  return both;
}

}  // namespace flotilla::slurm
