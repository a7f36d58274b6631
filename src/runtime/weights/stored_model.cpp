#include "stored_model.hpp"

#include <algorithm>
#include <future>

#include "flotilla/base/error.hpp"
#include "flotilla/files/plan_file.hpp"

namespace flotilla::weights {
namespace {

namespace fs = std::filesystem;

plan::Plan plan_of(const checkpoint::Manifest& manifest, const fs::path& step) {
  const auto source = (step / "manifest.json").string() + ": /plan";
  FLOTILLA_REQUIRE(!manifest.plan.empty(), ErrorKind::bad_input, source, ": this checkpoint does not say its model");
  auto plan = files::plan_from_json(manifest.plan, source);
  model::require_executable(plan.model, source);
  return plan;
}

/// Where rows of theirs, a transposed tensor, are in ours: they are our columns.
std::vector<plan::Box> boxes_of_columns(const TensorSource& s, std::int64_t columns, std::int64_t first, std::int64_t last) {
  std::vector<plan::Box> boxes;
  for (auto column = first; column < last; ++column)
    boxes.push_back({.outer = s.block_rows,
                     .inner = 1,
                     .global_offset = column,
                     .global_stride = columns,
                     .local_offset = (column - first) * s.block_rows,
                     .local_stride = 1});
  return boxes;
}

}  // namespace

std::vector<Target> targets_of(const model::Config& config) {
  std::vector<Target> targets;
  const auto all = sources(config.fully_trained());  // adapters' tensors are the last
  for (std::size_t t = 0; t < all.size(); ++t)
    for (std::size_t number = 0; number < all[t].size(); ++number)
      targets.push_back({static_cast<int>(t), static_cast<int>(number), all[t][number]});
  return targets;
}

StoredModel::StoredModel(const fs::path& step)
    : step_{step},
      manifest_{checkpoint::read_manifest(step)},
      plan_{plan_of(manifest_, step)},
      tensors_{model::tensors(plan_.model)},
      parameters_{step, tensors_} {}

void StoredModel::read(const Target& target, const std::function<void(std::span<const float>)>& rows_read) {
  constexpr std::int64_t most_elements = (32 << 20) / 4;
  const auto& s = target.source;
  const auto& ours = tensors_[static_cast<std::size_t>(target.tensor)];
  const auto columns = columns_of(ours);
  const auto rows = s.shape.front(), row_elements = s.transposed ? s.block_rows : columns;
  const auto each = std::max<std::int64_t>(1, most_elements / row_elements);
  const auto adapter = adapter_of(plan_.model, tensors_, target.tensor, target.number);
  std::future<void> behind;  // its end waits for what it still does
  for (std::int64_t first = 0; first < rows; first += each) {
    const auto last = std::min(rows, first + each);
    const auto boxes = s.transposed ? boxes_of_columns(s, columns, first, last) : boxes_of_rows(s, columns, first, last);
    ahead_.resize(static_cast<std::size_t>((last - first) * row_elements));
    parameters_.read(target.tensor, boxes, ahead_);
    if (adapter) merge(parameters_, *adapter, s, static_cast<float>(plan_.model.lora.scale()), first, last, ahead_);
    if (behind.valid()) behind.get();
    values_.swap(ahead_);
    behind = std::async(std::launch::async, [&] { rows_read(values_); });
  }
  behind.get();
}

}  // namespace flotilla::weights
