#include "app/common/plan_drawing.hpp"

#include <algorithm>
#include <cmath>

#include "app/common/pool.hpp"
#include "app/common/stage_table.hpp"
#include "flotilla/base/figures.hpp"
#include "flotilla/base/foreign_text.hpp"
#include "flotilla/base/text.hpp"

namespace flotilla::app {
namespace {

std::string stages_named(std::size_t first, std::size_t last) {
  return first == last ? text("stage ", first) : text("stages ", first, "-", last);
}

std::string count_in_words(const AlikeReplicas& group) {
  return text(group.count, " x ", place_in_words(group.replica.device_type, group.replica.zone),
              group.replica.tensor_parallel > 1 ? text(", TP ", group.replica.tensor_parallel) : "");
}

std::string share_in_words(const AlikeReplicas& group, const plan::Plan& plan) {
  return text(percent(static_cast<double>(group.sequences) / plan.global_batch), " of the batch");
}

page::DrawnBox box_of(const AlikeReplicas& group, const plan::Plan& plan, page::Colour colour) {
  page::DrawnBox box;
  box.share = group.sequences;
  box.colour = colour;
  box.lines = {count_in_words(group), text("micro-batches ", microbatches_in_words(group)), share_in_words(group, plan)};
  return box;
}

/// "stage 0, recompute selective".
std::string label_of(const plan::Stage& stage, std::size_t index) {
  const auto label = stages_named(index, index);
  return stage.recompute == plan::Recompute::none ? label : text(label, ", recompute ", plan::to_string(stage.recompute));
}

/// The last of the stages from `first` on that differ from it in nothing but which layers they have.
std::size_t last_alike(const plan::Plan& plan, std::size_t first) {
  const auto shape = [&](std::size_t s) {
    const auto& stage = plan.stages[s];
    std::string words = text(stage.last_layer - stage.first_layer, plan::to_string(stage.recompute));
    for (const auto& group : groups_of(plan, stage))
      words += count_in_words(group) + text(" ", group.sequences, microbatches_in_words(group));
    return words;
  };
  std::size_t last = first;
  while (last + 1 < plan.stages.size() && shape(last + 1) == shape(first)) ++last;
  return last;
}

// ---- characters

std::size_t width_of(std::string_view words) {
  return static_cast<std::size_t>(std::ranges::count_if(words, [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

/// Centred, or cut with an ellipsis. Names are printable(): no control characters.
std::string cell(const std::string& words, std::size_t width) {
  std::string shown = printable(words, 200);
  if (width_of(shown) > width) {
    std::size_t bytes = 0, characters = 0;
    while (bytes < shown.size() && characters + 1 < width) {
      do ++bytes;
      while (bytes < shown.size() && (static_cast<unsigned char>(shown[bytes]) & 0xc0) == 0x80);
      ++characters;
    }
    shown = width == 0 ? "" : shown.substr(0, bytes) + "…";
  }
  const std::size_t room = width - std::min(width, width_of(shown));
  return std::string(room / 2, ' ') + shown + std::string(room - room / 2, ' ');
}

std::string repeated(const char* piece, std::size_t count) {
  std::string out;
  for (std::size_t i = 0; i < count; ++i) out += piece;
  return out;
}

/// Inner widths that add up to `room`, in proportion to the shares and none below 3.
std::vector<std::size_t> widths_of(const std::vector<AlikeReplicas>& groups, std::size_t room) {
  double sum = 0;
  for (const auto& group : groups) sum += group.sequences;
  std::vector<std::size_t> widths;
  std::size_t taken = 0;
  for (const auto& group : groups) {
    const double share = sum > 0 ? group.sequences / sum : 1.0 / static_cast<double>(groups.size());
    widths.push_back(std::max<std::size_t>(3, static_cast<std::size_t>(std::floor(share * static_cast<double>(room)))));
    taken += widths.back();
  }
  while (taken > room) {
    auto& widest = *std::ranges::max_element(widths);
    if (widest <= 3) break;
    --widest, --taken;
  }
  widths.back() += room > taken ? room - taken : 0;
  return widths;
}

/// Four lines: both frames and two of text.
std::string boxes_of(const std::vector<AlikeReplicas>& groups, const plan::Plan& plan, const std::string& label, const std::string& note,
                     std::size_t width, std::size_t left) {
  const auto widths = widths_of(groups, width - left - groups.size() - 1);
  std::string top = std::string(left, ' ') + "┌", first = label + std::string(left - width_of(label), ' ') + "│",
              second = note + std::string(left - width_of(note), ' ') + "│", bottom = std::string(left, ' ') + "└";
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const bool last = g + 1 == groups.size();
    top += repeated("─", widths[g]) + (last ? "┐" : "┬");
    bottom += repeated("─", widths[g]) + (last ? "┘" : "┴");
    first += cell(count_in_words(groups[g]), widths[g]) + "│";
    second += cell(text(microbatches_in_words(groups[g]), ", ", percent(static_cast<double>(groups[g].sequences) / plan.global_batch)),
                   widths[g]) +
              "│";
  }
  return top + "\n" + first + "\n" + second + "\n" + bottom + "\n";
}

}  // namespace

std::map<std::string, page::Colour> colours_of_types(const plan::Plan& plan) {
  std::map<std::string, page::Colour> colours;
  for (const auto& stage : plan.stages)
    for (const auto& replica : stage.replicas) colours.emplace(replica.device_type, page::colour_of(colours.size()));
  return colours;
}

page::BoxDrawing drawing_of(const plan::Plan& plan) {
  page::BoxDrawing drawing;
  drawing.caption = {"The plan", text("A row is a stage, the first one at the top. A box is its replicas on one type of device, as wide as "
                                      "their fraction of the global batch of ",
                                      plan.global_batch, " sequences.")};
  const auto colours = colours_of_types(plan);
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const auto& stage = plan.stages[s];
    page::BoxRow row{label_of(stage, s), "layers " + layers_in_words(stage, plan.model), {}};
    for (const auto& group : groups_of(plan, stage)) row.boxes.push_back(box_of(group, plan, colours.at(group.replica.device_type)));
    drawing.rows.push_back(std::move(row));
  }
  for (const auto& [type, colour] : colours) drawing.legend.push_back({colour, type});
  return drawing;
}

std::string plan_boxes(const plan::Plan& plan, int width) {
  constexpr std::size_t left = 18;
  constexpr std::size_t narrowest_box = 12;
  std::string out;
  for (std::size_t first = 0; first < plan.stages.size();) {
    const auto last = last_alike(plan, first);
    const auto groups = groups_of(plan, plan.stages[first]);
    if (groups.size() * narrowest_box > static_cast<std::size_t>(width) - left) return {};  // the table says it better
    const auto layers = text("layers ", plan.stages[first].first_layer, "-", plan.stages[last].last_layer - 1);
    out += boxes_of(groups, plan, stages_named(first, last), layers, static_cast<std::size_t>(width), left);
    first = last + 1;
  }
  return out;
}

}  // namespace flotilla::app
