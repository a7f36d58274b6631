#include "state_file.hpp"

#include <algorithm>
#include <bit>
#include <set>

#include "directory.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/base/foreign_text.hpp"
#include "flotilla/base/hash.hpp"
#include "flotilla/checkpoint/checkpoint.hpp"
#include "flotilla/store/disk.hpp"
#include "structure.hpp"

namespace flotilla::checkpoint {
namespace {

/// Those of the tensors, kind by kind.
std::vector<store::Dataset> create_datasets(const store::File& file, const std::vector<model::Tensor>& tensors, const ChecksumIndex& index,
                                            std::vector<std::uint32_t>& checksums) {
  std::vector<store::Dataset> datasets;
  for (auto kind : kinds)
    for (std::size_t t = 0; t < tensors.size(); ++t) {
      if (!is_kept(kind, tensors[t])) continue;
      datasets.push_back(file.create_dataset(dataset_name(kind, tensors[t].name), tensors[t].shape, store::Datatype::fp32));
      const auto numbers = index.part(checksums, kind, t);
      file.create_dataset(checksum_name(kind, tensors[t].name), {std::ssize(numbers)}, store::Datatype::uint32).write_all(numbers);
    }
  return datasets;
}

static_assert(std::endian::native == std::endian::little, "the file's numbers are those of memory");

/// Each run of the box, from `values` to its place in the tensor that begins at byte `offset`.
void write_box(const store::PlainFile& file, std::int64_t offset, std::span<const float> values, const plan::Box& box) {
  for (std::int64_t o = 0; o < box.outer; ++o)
    file.write(std::as_bytes(
                   values.subspan(static_cast<std::size_t>(box.local_offset + o * box.local_stride), static_cast<std::size_t>(box.inner))),
               offset + (box.global_offset + o * box.global_stride) * element_bytes);
}

}  // namespace

std::string hex8(std::uint32_t value) { return hex(value).substr(8); }

std::string_view group_of(StateKind kind) {
  switch (kind) {
    case StateKind::parameters: return "parameters";
    case StateKind::moment1: return "adamw/moment1";
    case StateKind::moment2: return "adamw/moment2";
  }
  FLOTILLA_ASSERT(false, "kind ", static_cast<int>(kind));
}

std::string dataset_name(StateKind kind, const std::string& tensor) { return text(group_of(kind), "/", tensor); }
std::string checksum_name(StateKind kind, const std::string& tensor) { return "checksums/" + dataset_name(kind, tensor); }

std::string fingerprint(const std::vector<model::Tensor>& tensors) {
  std::string lines;
  for (const auto& tensor : tensors) {
    lines += tensor.name;
    for (auto extent : tensor.shape) lines += text(" ", extent);
    lines += "\n";
  }
  return hex(fnv1a(lines));
}

std::vector<std::string> frozen_names(const std::vector<model::Tensor>& tensors) {
  std::vector<std::string> names;
  for (const auto& tensor : tensors)
    if (!tensor.trained) names.push_back(tensor.name);
  return names;
}

std::vector<model::Tensor> as_saved(std::vector<model::Tensor> tensors, const Manifest& manifest) {
  std::set<std::string> frozen{manifest.frozen.begin(), manifest.frozen.end()};
  for (auto& tensor : tensors) tensor.trained = frozen.erase(tensor.name) == 0;
  FLOTILLA_REQUIRE(frozen.empty(), ErrorKind::bad_input, manifest_name, ": /frozen: ", in_quotes(*frozen.begin()),
                   " is no tensor of the checkpoint's model");
  return tensors;
}

NewStateFile create_state_file(const std::filesystem::path& path, const std::vector<model::Tensor>& tensors, const ChecksumIndex& index,
                               std::vector<std::uint32_t>& checksums, std::int64_t step) {
  const auto image = store::PlainFile::in_memory({});
  NewStateFile result{{std::string{state_name}, {}, checksum_of_table(checksums)}, {}};
  auto structure = store::File::create(image.path(), path.string() + " in memory");
  structure.write_attribute("format", std::string{"flotilla-checkpoint"});
  structure.write_attribute("version", 1);
  structure.write_attribute("step", step);
  const auto place = [&](const std::vector<store::Dataset>& datasets) {
    result.facts.tensor_ranges = ranges_of(datasets);
    std::size_t next = 0;
    for (auto kind : kinds)
      for (const auto& tensor : tensors) result.offsets.push_back(is_kept(kind, tensor) ? datasets.at(next++).file_offset().count : -1);
  };
  place(create_datasets(structure, tensors, index, checksums));
  structure.close();
  result.facts.size = image.size();
  add_structure_checksums(image.path(), result.facts);
  const auto file = store::PlainFile::create(path);
  store::reserve(path, result.facts.size);
  copy_structure(image, result.facts, file);
  file.flush();
  return result;
}

void write_owned(const store::PlainFile& file, const std::vector<std::int64_t>& offsets, const LocalState& state) {
  for (auto kind : kinds)
    for (const auto& part : state.parts) {
      if (!part.owner) continue;
      const auto number = static_cast<std::size_t>(part.tensor);
      if (!is_kept(kind, (*state.tensors)[number])) continue;
      const auto offset = offsets[static_cast<std::size_t>(kind) * state.tensors->size() + number];
      for (const auto& box : part.boxes_in((*state.tensors)[number])) write_box(file, offset, part.values(kind), box);
    }
}

store::Dataset open_tensor(const store::File& file, StateKind kind, const std::string& name, const std::vector<std::int64_t>& shape) {
  auto data = file.dataset(dataset_name(kind, name));
  FLOTILLA_REQUIRE(data.element() == store::Datatype::fp32, ErrorKind::bad_input, file.name(), ": ", data.name(),
                   ": expected elements of type float");
  if (data.shape() == shape) return data;
  const auto spell = [](const std::vector<std::int64_t>& extents) {
    std::string word;
    for (auto extent : extents) word += text(word.empty() ? "" : " x ", extent);
    return word;
  };
  throw Error{ErrorKind::bad_input,
              text(file.name(), ": ", data.name(), ": the shape is ", spell(data.shape()), ", expected ", spell(shape))};
}

std::vector<std::uint32_t> read_checksums(const store::File& file, StateKind kind, const std::string& name,
                                          const std::vector<std::int64_t>& shape) {
  const auto data = file.dataset(checksum_name(kind, name));
  const std::int64_t expected = Segments{shape}.count();
  FLOTILLA_REQUIRE(data.shape().size() == 1 && data.elements() == expected, ErrorKind::bad_input, file.name(), ": ", data.name(),
                   ": expected ", expected, " checksums, found ", data.elements());
  return data.read_all();
}

std::vector<std::uint32_t> read_all_checksums(const store::File& file, const std::vector<model::Tensor>& tensors,
                                              const ChecksumIndex& index, const StateFile& expected) {
  std::vector<std::uint32_t> checksums(index.size());
  for (auto kind : kinds)
    for (std::size_t t = 0; t < tensors.size(); ++t) {
      if (!is_kept(kind, tensors[t])) continue;
      open_tensor(file, kind, tensors[t].name, tensors[t].shape);
      std::ranges::copy(read_checksums(file, kind, tensors[t].name, tensors[t].shape), index.part(checksums, kind, t).begin());
    }
  FLOTILLA_REQUIRE(checksum_of_table(checksums) == expected.checksum, ErrorKind::bad_input, file.name(),
                   ": checksums: they are not those that the manifest was made for");
  return checksums;
}

std::uint32_t read_segment(const store::PlainFile& file, std::int64_t offset, const Segments& segments, std::int64_t segment,
                           std::span<float> values) {
  const auto run = segments.run(segment);
  const auto found = std::as_writable_bytes(values.first(static_cast<std::size_t>(run.count)));
  file.read(found, offset + run.first * element_bytes);
  return crc32c(found);
}

std::string describe_mismatch(const std::string& file, const std::string& dataset, const Segments& segments, std::int64_t segment,
                              std::uint32_t found, std::uint32_t expected) {
  const std::int64_t row = segment * segments.rows_each();
  return text(file, ": ", dataset, ": segment ", segment, " (from row ", row, " on) has checksum ", hex8(found), ", expected ",
              hex8(expected));
}

}  // namespace flotilla::checkpoint
