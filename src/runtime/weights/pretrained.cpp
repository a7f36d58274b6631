#include "flotilla/weights/pretrained.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <set>

#include "families.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/base/foreign_text.hpp"
#include "flotilla/base/hash.hpp"
#include "flotilla/base/magnitudes.hpp"
#include "flotilla/safetensors/folder.hpp"
#include "sources.hpp"

namespace flotilla::weights {
namespace {

using safetensors::Found;

/// What was read of a tensor of the files.
enum class Seen : char { nothing = '0', zeros, values };

/// A part of one of our tensors, and where it is.
struct Piece {
  TensorSource source;
  Found found;
  Seen seen = Seen::nothing;
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

/// What has no place in the model, in the files' order. Nobody trains a model of which a part was left behind.
std::vector<Found> others(const safetensors::Folder& folder, const std::set<const safetensors::Entry*>& known,
                          const model::Config& config) {
  std::vector<Found> found;
  for (const auto& file : folder.files())
    for (const auto& entry : file.entries()) {
      if (known.contains(&entry)) continue;
      FLOTILLA_REQUIRE(is_computed(entry.name) || (config.tied_head && is_head(entry.name)), ErrorKind::bad_input, file.path().string(),
                       ": tensor ", in_quotes(entry.name), " has no place in the ", config.family,
                       " model that its config.json describes; the files belong to another model");
      found.push_back({&file, &entry});
    }
  return found;
}

/// "model.layers.*.self_attn.rotary_emb.inv_freq": one name for all blocks'.
std::string of_all_blocks(std::string name) {
  for (std::size_t at = 0; (at = name.find_first_of("0123456789", at)) != std::string::npos; ++at)
    name.replace(at, name.find_first_not_of("0123456789", at) - at, "*");
  return name;
}

constexpr std::int64_t most_resident = (64 << 20) / 4, most_at_once = 1 << 16;  // elements; what is read is checked while the cache has it

/// All elements of a tensor in their order, some at a time, with the greatest magnitude among them.
template <class Take>
void read_all(const Found& found, const Take& take) {
  std::vector<float> values(static_cast<std::size_t>(std::min(most_at_once, found.entry->elements())));
  found.file->require_whole();
  for (std::int64_t first = 0; first < found.entry->elements(); first += most_at_once) {
    const auto some = std::span{values}.first(static_cast<std::size_t>(std::min(most_at_once, found.entry->elements() - first)));
    const float greatest = found.file->read(*found.entry, first, 1, some);
    take(some, greatest);
    if ((first + most_at_once) % most_resident == 0) found.file->forget();
  }
  found.file->forget();
}

/// Some element is wrong: counts them all.
[[noreturn]] void refuse(const Found& found, Precision precision) {
  ValueCheck check{precision};
  read_all(found, [&](std::span<const float> values, float) { check.add(values); });
  throw Error{ErrorKind::bad_input,
              text(found.file->path().string(), ": tensor ", in_quotes(found.entry->name), ": ", check.in_words(),
                   "; the file is damaged or its training diverged: take another copy, or a precision that holds it")};
}

/// The piece that holds a row of ours; `row` becomes the row of theirs.
Piece& piece_of(std::vector<Piece>& pieces, std::int64_t& row, std::int64_t& rows_to_end) {
  for (auto& piece : pieces) {
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
    unused = others(folder, known, config);
  }

  /// A head that is tied is the embedding, and a file that holds another one says two things.
  void require_tied() const {
    const auto& word = pieces.front().front().found;  // the first of a model's tensors is its embedding
    for (const auto& head : unused) {
      if (!is_head(head.entry->name)) continue;
      const auto where = text(head.file->path().string(), ": tensor ", in_quotes(head.entry->name));
      const auto differs =
          text(" is not the embedding, ", in_quotes(word.entry->name),
               ", and config.json says that the two are one; write \"tie_word_embeddings\": false there to keep it, or take "
               "it out of the file");
      FLOTILLA_REQUIRE(head.entry->precision && head.entry->shape == word.entry->shape, ErrorKind::bad_input, where, differs);
      std::vector<float> same(static_cast<std::size_t>(std::min(most_at_once, word.entry->elements())));
      std::int64_t first = 0, different = 0;
      read_all(head, [&](std::span<const float> values, float) {
        const auto ours = std::span{same}.first(values.size());
        word.file->read(*word.entry, first, 1, ours);
        for (std::size_t i = 0; i < values.size(); ++i) different += static_cast<std::int64_t>(values[i] != ours[i]);
        first += std::ssize(values);
      });
      FLOTILLA_REQUIRE(different == 0, ErrorKind::bad_input, where, ": ", different, " of ", first, " elements differ: it", differs);
    }
  }

  /// What follows element `element` of our tensor in the same file, `values.size()` elements at most; returns how many were read.
  std::int64_t read_run(std::size_t tensor, std::int64_t element, std::span<float> values, Precision precision) {
    const auto columns = columns_of(tensors[tensor]), column = element % columns;
    std::int64_t row = element / columns, rows = 0;
    auto& [source, found, seen] = piece_of(pieces[tensor], row, rows);
    const auto count = std::min(std::ssize(values), (source.transposed ? 1 : rows) * columns - column);
    const auto run = values.first(static_cast<std::size_t>(count));
    const float greatest = source.transposed ? found.file->read(*found.entry, column * source.shape.back() + row, source.shape.back(), run)
                                             : found.file->read(*found.entry, row * columns + column, 1, run);
    if (!(greatest <= largest_held(precision))) refuse(found, precision);
    seen = std::max(seen, greatest == 0 ? Seen::zeros : Seen::values);
    return count;
  }

  void forget() const {
    for (const auto& file : folder.files()) file.forget();
  }

  safetensors::Folder folder;
  std::vector<model::Tensor> tensors;
  std::vector<std::vector<Piece>> pieces;  ///< by tensor
  std::vector<Found> unused;               ///< computed tensors, and a tied head
};

Pretrained::Pretrained(const std::filesystem::path& folder, const model::Config& config)
    : state_{std::make_unique<State>(folder, config)} {}
Pretrained::~Pretrained() = default;
Pretrained::Pretrained(Pretrained&&) noexcept = default;

void Pretrained::read(int tensor, const std::vector<plan::Box>& boxes, std::span<float> values, Precision precision) {
  for (const auto& file : state_->folder.files()) file.require_whole();
  std::int64_t resident = 0;
  for (const auto& box : boxes)
    for (std::int64_t o = 0; o < box.outer; ++o)
      for (std::int64_t i = 0; i < box.inner;) {
        const auto count = std::min(box.inner - i, most_at_once);
        const auto run =
            values.subspan(static_cast<std::size_t>(box.local_offset + o * box.local_stride + i), static_cast<std::size_t>(count));
        const auto read = state_->read_run(static_cast<std::size_t>(tensor), box.global_offset + o * box.global_stride + i, run, precision);
        i += read;
        resident += read;
        if (resident < most_resident) continue;
        state_->forget();
        resident = 0;
      }
  state_->forget();
}

std::vector<std::string> Pretrained::scan() const {
  state_->require_tied();
  std::vector<std::string> zero;
  for (const auto& file : state_->folder.files())
    for (const auto& entry : file.entries()) {
      if (!entry.precision) continue;
      const Found found{&file, &entry};
      bool empty = true;
      read_all(found, [&](std::span<const float>, float greatest) {
        if (!std::isfinite(greatest)) refuse(found, Precision::fp32);
        empty = empty && greatest == 0;
      });
      if (empty && entry.shape.size() > 1) zero.push_back(entry.name);
    }
  return zero;
}

std::string Pretrained::seen() const {
  std::string seen;
  for (const auto& parts : state_->pieces)
    for (const auto& piece : parts) seen += static_cast<char>(piece.seen);
  return seen;
}

std::vector<std::string> Pretrained::all_zero(const std::vector<std::string>& seen) const {
  std::map<std::string, char> most;  // a tensor may have pieces in several of ours
  std::size_t number = 0;
  for (const auto& parts : state_->pieces)
    for (const auto& piece : parts) {
      auto& of_tensor = most[piece.found.entry->name];
      for (const auto& of_rank : seen) of_tensor = std::max(of_tensor, of_rank.at(number));
      ++number;
    }
  std::vector<std::string> zero;
  for (const auto& file : state_->folder.files())
    for (const auto& entry : file.entries())
      if (const auto found = most.find(entry.name);
          entry.shape.size() > 1 && found != most.end() && found->second == static_cast<char>(Seen::zeros))
        zero.push_back(entry.name);
  return zero;
}

void Pretrained::require_tied() const { state_->require_tied(); }

std::vector<std::string> Pretrained::unused() const {
  std::map<std::string, int> names;
  for (const auto& found : state_->unused) ++names[of_all_blocks(found.entry->name)];
  std::vector<std::string> all;
  for (const auto& [name, count] : names) all.push_back(count == 1 ? name : text(name, " (", count, ")"));
  std::ranges::copy(state_->folder.other_files(), std::back_inserter(all));
  return all;
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
