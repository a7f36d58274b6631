#include "sources.hpp"

#include <algorithm>
#include <optional>

#include "families.hpp"
#include "flotilla/base/error.hpp"

namespace flotilla::weights {
namespace {

/// `name` with the number of its block as '*', and that number.
struct Pattern {
  std::string text, block;
};
Pattern pattern_of(const std::string& name) {
  constexpr std::string_view start = "block.";
  if (!name.starts_with(start)) return {name, {}};
  const auto end = name.find('.', start.size());
  return {"block.*" + name.substr(end), name.substr(start.size(), end - start.size())};
}

/// Their name of our tensor by this row; nothing where the row is of other tensors.
std::optional<std::string> their_name(const NameRow& row, const Pattern& ours) {
  if (!ours.text.starts_with(row.ours)) return std::nullopt;
  const std::string ending = ours.text.substr(row.ours.size());
  if (!ending.empty() && ending.front() != '.') return std::nullopt;
  std::string name = std::string{row.theirs} + ending;
  if (const auto star = name.find('*'); star != std::string::npos) name.replace(star, 1, ours.block);
  return name;
}

/// Rows of the queries, keys or values in our qkv: group after group where it is grouped, else all of one kind together.
void place_in_qkv(const model::Config& c, TensorPart part, TensorSource& source) {
  const std::int64_t head = c.head_size(), groups = c.groups(), queries = c.queries_per_group();
  const std::int64_t each = part == TensorPart::queries ? queries * head : head;
  const std::int64_t before = part == TensorPart::queries ? 0 : part == TensorPart::keys ? queries : queries + 1;  // heads of the group
  source.blocks = groups;
  source.block_rows = source.their_stride = each;
  source.our_first = before * head * (c.grouped_qkv() ? 1 : groups);
  source.our_stride = c.grouped_qkv() ? (queries + 2) * head : head;
}

TensorSource source_of(const model::Config& c, const model::Tensor& ours, TensorPart part, std::string name) {
  TensorSource source;
  source.name = std::move(name);
  source.transposed = part == TensorPart::transposed && ours.shape.size() == 2;
  source.block_rows = source.their_stride = source.our_stride = rows_of(ours);
  switch (part) {
    case TensorPart::whole:
    case TensorPart::transposed: break;
    case TensorPart::queries:
    case TensorPart::keys:
    case TensorPart::values: place_in_qkv(c, part, source); break;
    case TensorPart::first_half:
    case TensorPart::second_half:
      source.block_rows = source.their_stride = source.our_stride = rows_of(ours) / 2;
      source.our_first = part == TensorPart::first_half ? 0 : source.block_rows;
      break;
  }
  source.shape = ours.shape;
  source.shape.front() = source.blocks * source.block_rows;
  if (source.transposed) std::ranges::reverse(source.shape);
  return source;
}

}  // namespace

std::int64_t rows_of(const model::Tensor& tensor) { return tensor.shape.front(); }
std::int64_t columns_of(const model::Tensor& tensor) { return tensor.elements() / rows_of(tensor); }

std::vector<std::vector<TensorSource>> sources(const model::Config& config) {
  const Family& family = family_named(config.family);
  std::vector<std::vector<TensorSource>> all;
  for (const auto& tensor : model::tensors(config)) {
    const auto pattern = pattern_of(tensor.name);
    auto& found = all.emplace_back();
    for (const auto& row : family.rows)
      if (auto name = their_name(row, pattern)) found.push_back(source_of(config, tensor, row.part, std::move(*name)));
    FLOTILLA_REQUIRE(!found.empty(), ErrorKind::unavailable, "models of the family ", family.name, " have no tensor ", tensor.name,
                     " in Hugging Face's files");
  }
  return all;
}

}  // namespace flotilla::weights
