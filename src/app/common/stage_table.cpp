#include "app/common/stage_table.hpp"

#include <algorithm>
#include <tuple>

#include "app/common/report_text.hpp"
#include "flotilla/base/figures.hpp"
#include "flotilla/base/text.hpp"
#include "flotilla/model/tensors.hpp"
#include "flotilla/plan/batch_partition.hpp"

namespace flotilla::app {
std::vector<AlikeReplicas> groups_of(const plan::Plan& plan, const plan::Stage& stage) {
  std::vector<AlikeReplicas> groups;
  for (const auto& replica : stage.replicas) {
    const auto key = [](const plan::Replica& r) { return std::tie(r.device_type, r.zone, r.tensor_parallel, r.quanta); };
    auto group = std::ranges::find_if(groups, [&](const AlikeReplicas& g) { return key(g.replica) == key(replica); });
    const int microbatches = replica.microbatches(plan.quantum);
    if (group == groups.end()) group = groups.insert(group, {replica, 0, 0, microbatches, microbatches, 0});
    ++group->count;
    group->sequences += replica.sequences;
    group->least = std::min(group->least, microbatches);
    group->most = std::max(group->most, microbatches);
    group->largest = std::max(group->largest, plan::largest_microbatch(plan, replica));
  }
  return groups;
}

std::string microbatches_in_words(const AlikeReplicas& g) {
  return text(g.least, g.least < g.most ? text("-", g.most) : "", " x ", g.largest);
}

std::string schedule_in_words(const plan::Plan& plan) {
  std::string words = plan::to_string(plan.schedule);
  if (plan.chunks > 1) words += text(" (", plan.chunks, " stages a device: 0 and ", plan::own_stages(plan), ", ...)");
  return words + (plan.sequence_parallel ? ", sequence parallel" : "") + (plan.shard_optimizer ? ", sharded optimizer" : "");
}

std::string layers_in_words(const plan::Stage& stage, const model::Config& model) {
  std::string words = text(stage.first_layer, "-", stage.last_layer - 1);
  if (stage.first_layer == 0) words += " +embedding";
  if (stage.last_layer == model.layers()) words += " +head";
  return words;
}

bool recomputes(const plan::Plan& plan) {
  return std::ranges::any_of(plan.stages, [](const auto& stage) { return stage.recompute != plan::Recompute::none; });
}

std::string experts_in_words(const model::Config& model) {
  if (!model.experts.on()) return {};
  const auto billions = [](std::int64_t parameters) { return formatted("%.3g billion", static_cast<double>(parameters) / 1e9); };
  return text(", ", model.experts.per_token, " of ", model.experts.count, " experts a token, ", billions(model::parameter_count(model)),
              " parameters, ", billions(model::active_parameter_count(model)), " active");
}

std::string stage_table(const plan::Plan& plan, const Style& style) {
  const bool recompute = recomputes(plan);
  std::vector<TextTable::Column> columns{{"stage", Align::right}, {"layers"}};
  if (recompute) columns.push_back({"recompute"});
  for (const auto& column : std::vector<TextTable::Column>{{"replicas", Align::right},
                                                           {"device"},
                                                           {"TP", Align::right},
                                                           {"micro batches", Align::right},
                                                           {"sequences", Align::right},
                                                           {"fraction", Align::right}})
    columns.push_back(column);
  TextTable table{columns};
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const auto& stage = plan.stages[s];
    bool first = true;
    for (const AlikeReplicas& group : groups_of(plan, stage)) {
      const auto& replica = group.replica;
      std::vector<std::string> row{first ? text(s) : "", first ? layers_in_words(stage, plan.model) : ""};
      if (recompute) row.push_back(first ? plan::to_string(stage.recompute) : "");
      row.push_back(text(group.count));
      row.push_back(replica.device_type + (replica.zone.empty() ? "" : " @ " + replica.zone));
      row.push_back(text(replica.tensor_parallel));
      row.push_back(microbatches_in_words(group));
      row.push_back(text(group.sequences));
      row.push_back(percent(static_cast<double>(group.sequences) / plan.global_batch));
      table.add(std::move(row));
      first = false;
    }
  }
  return table.print(style);
}

}  // namespace flotilla::app
