#include "app/common/plan_text.hpp"
#include "app/common/stage_table.hpp"
#include "flotilla/base/text.hpp"
#include "flotilla/model/tensors.hpp"
#include "flotilla/plan/batch_partition.hpp"

namespace flotilla::app {
namespace {

/// "0-3", "0,2,5": runs of neighbours together.
std::string ranks_in_words(const std::vector<Rank>& ranks) {
  if (ranks.empty()) return "(not bound)";
  std::string words;
  for (std::size_t first = 0, last = 0; first < ranks.size(); first = last) {
    last = first + 1;
    while (last < ranks.size() && ranks[last].value == ranks[last - 1].value + 1) ++last;
    words += text(first == 0 ? "" : ",", ranks[first]);
    if (last - first > 1) words += text("-", ranks[last - 1]);
  }
  return words;
}

std::string shared_keys(const model::Config& model) {
  return model.shares_keys() ? text(" on ", model.groups(), " of keys and values") : std::string{};
}

std::string parameters(const model::Config& model) {
  std::string words = text(model::parameter_count(model), " parameters");
  if (model.experts.on())
    words += text(", ", model::active_parameter_count(model), " of them active (", model.experts.per_token, " of ", model.experts.count,
                  " experts)");
  return words;
}

}  // namespace

std::string plan_text(const plan::Plan& plan, const Style& style) {
  std::string out = key_values_within({{"model", text(plan.model.name, ", ", plan.model.blocks, " blocks, hidden ", plan.model.hidden, ", ",
                                                      plan.model.heads, " heads", shared_keys(plan.model), ", ", parameters(plan.model))},
                                       {"batch", text(plan.global_batch, " sequences of ", plan.length, " tokens")},
                                       {"precision", to_string(plan.precision)},
                                       {"schedule", schedule_in_words(plan)},
                                       {"plan", plan::summary(plan)}},
                                      table_width);
  const bool recompute = recomputes(plan);
  std::vector<TextTable::Column> columns{{"stage", Align::right}, {"layers"}};
  if (recompute) columns.push_back({"recompute"});
  for (const auto& column : std::vector<TextTable::Column>{{"replica", Align::right},
                                                           {"device"},
                                                           {"TP", Align::right},
                                                           {"ranks"},
                                                           {"sequences", Align::right},
                                                           {"micro batches", Align::right}})
    columns.push_back(column);
  TextTable table{columns};
  for (int s = 0; s < static_cast<int>(plan.stages.size()); ++s) {
    const auto& stage = plan.stages[static_cast<std::size_t>(s)];
    for (int r = 0; r < static_cast<int>(stage.replicas.size()); ++r) {
      const auto& replica = stage.replicas[static_cast<std::size_t>(r)];
      std::vector<std::string> row{text(s), r == 0 ? layers_in_words(stage, plan.model) : ""};
      if (recompute) row.push_back(r == 0 ? plan::to_string(stage.recompute) : "");
      for (auto& cell : std::vector<std::string>{text(r), replica.device_type + (replica.zone.empty() ? "" : " @ " + replica.zone),
                                                 text(replica.tensor_parallel), ranks_in_words(replica.devices), text(replica.sequences),
                                                 text(replica.microbatches(plan.quantum), " x ", plan::largest_microbatch(plan, replica))})
        row.push_back(std::move(cell));
      table.add(std::move(row));
    }
  }
  return out + "\n" + table.print(style);
}

}  // namespace flotilla::app
