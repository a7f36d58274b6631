#include "flotilla/slurm/job_billing.hpp"

#include <string_view>

#include "answer_fields.hpp"
#include "flotilla/base/foreign_text.hpp"

namespace flotilla::slurm {
namespace {

constexpr std::string_view billing = "billing=";

/// "cpu=4,mem=2G,node=2,billing=48": 48.
std::optional<double> billing_in(const std::string& resources) {
  for (const auto& one : split(resources, ','))
    if (one.starts_with(billing))
      if (const int units = number_of(std::string_view{one}.substr(billing.size())); units > 0) return units;
  return std::nullopt;
}

}  // namespace

std::optional<double> billing_of_a_node(const std::string& answer) {
  const auto lines = lines_of(answer);
  const auto record = lines.empty() ? std::map<std::string, std::string>{} : record_of(lines.front());
  const int nodes = number_of(split(field(record, "NumNodes"), '-').front());
  FLOTILLA_REQUIRE(record.contains("JobId") && nodes > 0, ErrorKind::bad_input, "scontrol show job: expected JobId=... NumNodes=..., got ",
                   in_quotes(answer));
  auto units = billing_in(field(record, "AllocTRES"));
  if (!units) units = billing_in(field(record, "TRES"));
  if (units) *units /= nodes;
  return units;
}

}  // namespace flotilla::slurm
