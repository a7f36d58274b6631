#include "flotilla/weights/pretrained.hpp"

#include <algorithm>
#include <set>

#include "families.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/base/foreign_text.hpp"
#include "flotilla/base/hash.hpp"
#include "flotilla/safetensors/folder.hpp"
#include "sources.hpp"

namespace flotilla::weights {
namespace {

using safetensors::Found;

/// A part of one of our tensors, and where it is.
struct Piece {
  TensorSource source;
  Found found;
};

std::string spelled(const std::vector<std::int64_t>& shape) {
  std::string words;
  for (const auto extent : shape) words += text(words.empty() ? "" : " x ", extent);
  return words.empty() ? "none" : words;
}

/// Under its name, or without the prefix that files of a model without head leave out.
Found find(const safetensors::Folder& folder, const std::string& name, std::string_view prefix) {
  if (const auto found = folder.find(name)) return found;
  return name.starts_with(prefix) ? folder.find(name.substr(prefix.size())) : Found{};
}

void check(const safetensors::Folder& folder, const TensorSource& source, const Found& found, const model::Config& config) {
  FLOTILLA_REQUIRE(found, ErrorKind::bad_input, folder.path().string(), ": tensor ", in_quotes(source.name),
                   " is missing; expected the weights of the ", config.family, " model that its config.json describes");
  const auto where = text(found.file->path().string(), ": tensor ", in_quotes(found.entry->name));
  FLOTILLA_REQUIRE(found.entry->precision, ErrorKind::bad_input, where, ": its elements are ", found.entry->type,
                   "; expected F32, BF16 or F16");
  FLOTILLA_REQUIRE(found.entry->shape == source.shape, ErrorKind::bad_input, where, ": its extents are ", spelled(found.entry->shape),
                   "; the model's config.json makes it ", spelled(source.shape));
}

/// Nobody trains a model of which a part was left behind.
void require_all_known(const safetensors::Folder& folder, const std::set<const safetensors::Entry*>& known, const model::Config& config) {
  for (const auto& file : folder.files())
    for (const auto& entry : file.entries())
      FLOTILLA_REQUIRE(known.contains(&entry) || is_no_weight(entry.name, config.tied_head), ErrorKind::bad_input, file.path().string(),
                       ": tensor ", in_quotes(entry.name), " has no place in the ", config.family,
                       " model that its config.json describes; the files belong to another model");
}

/// The piece that holds a row of ours; `row` becomes the row of theirs.
const Piece& piece_of(const std::vector<Piece>& pieces, std::int64_t& row, std::int64_t& rows_to_end) {
  for (const auto& piece : pieces) {
    const auto& s = piece.source;
    const auto behind = row - s.our_first;
    if (behind < 0 || behind / s.our_stride >= s.blocks || behind % s.our_stride >= s.block_rows) continue;
    row = s.their_first + behind / s.our_stride * s.their_stride + behind % s.our_stride;
    rows_to_end = s.block_rows - behind % s.our_stride;
    return piece;
  }
  FLOTILLA_ASSERT(false, "row ", row, " of a tensor has no source");
  return pieces.front();
}

}  // namespace

struct Pretrained::State {
  State(const std::filesystem::path& path, const model::Config& config)
      : folder{safetensors::Folder::open(path)}, tensors{model::tensors(config)} {
    const auto& family = family_named(config.family);
    std::set<const safetensors::Entry*> known;
    for (auto& parts : sources(config)) {
      auto& of_tensor = pieces.emplace_back();
      for (auto& source : parts) {
        const auto found = find(folder, source.name, family.prefix);
        check(folder, source, found, config);
        known.insert(found.entry);
        of_tensor.push_back({std::move(source), found});
      }
    }
    require_all_known(folder, known, config);
  }

  /// What follows element `element` of our tensor in the same file, `values.size()` elements at most; returns how many were read.
  std::int64_t read_run(std::size_t tensor, std::int64_t element, std::span<float> values) const {
    const auto columns = columns_of(tensors[tensor]), column = element % columns;
    std::int64_t row = element / columns, rows = 0;
    const auto& [source, found] = piece_of(pieces[tensor], row, rows);
    const auto count = std::min(std::ssize(values), (source.transposed ? 1 : rows) * columns - column);
    const auto run = values.first(static_cast<std::size_t>(count));
    if (source.transposed)
      found.file->read(*found.entry, column * source.shape.back() + row, source.shape.back(), run);
    else
      found.file->read(*found.entry, row * columns + column, 1, run);
    return count;
  }

  void forget() const {
    for (const auto& file : folder.files()) file.forget();
  }

  safetensors::Folder folder;
  std::vector<model::Tensor> tensors;
  std::vector<std::vector<Piece>> pieces;  ///< by tensor
};

Pretrained::Pretrained(const std::filesystem::path& folder, const model::Config& config)
    : state_{std::make_unique<State>(folder, config)} {}
Pretrained::~Pretrained() = default;
Pretrained::Pretrained(Pretrained&&) noexcept = default;

void Pretrained::read(int tensor, const std::vector<plan::Box>& boxes, std::span<float> values) const {
  constexpr std::int64_t most_resident = (64 << 20) / 4, most_at_once = 1 << 20;  // elements
  for (const auto& file : state_->folder.files()) file.require_whole();
  std::int64_t resident = 0;
  for (const auto& box : boxes)
    for (std::int64_t o = 0; o < box.outer; ++o)
      for (std::int64_t i = 0; i < box.inner;) {
        const auto count = std::min(box.inner - i, most_at_once);
        const auto run =
            values.subspan(static_cast<std::size_t>(box.local_offset + o * box.local_stride + i), static_cast<std::size_t>(count));
        const auto read = state_->read_run(static_cast<std::size_t>(tensor), box.global_offset + o * box.global_stride + i, run);
        i += read;
        resident += read;
        if (resident < most_resident) continue;
        state_->forget();
        resident = 0;
      }
  state_->forget();
}

std::size_t Pretrained::files() const { return state_->folder.files().size(); }

Bytes Pretrained::size() const {
  Bytes sum;
  for (const auto& file : state_->folder.files())
    for (const auto& entry : file.entries()) sum.count += entry.bytes;
  return sum;
}

std::string Pretrained::precisions() const {
  std::set<std::string> names;
  for (const auto& parts : state_->pieces)
    for (const auto& piece : parts) names.insert(to_string(*piece.found.entry->precision));
  std::string words;
  for (const auto& name : names) words += (words.empty() ? "" : " and ") + name;
  return words;
}

std::string Pretrained::fingerprint() const {
  std::string lines;
  for (const auto& file : state_->folder.files())
    for (const auto& entry : file.entries()) lines += text(entry.name, " ", entry.type, " ", spelled(entry.shape), "\n");
  return hex(fnv1a(lines));
}

}  // namespace flotilla::weights
