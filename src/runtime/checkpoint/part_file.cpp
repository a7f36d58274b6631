#include "part_file.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <span>

#include "checksums.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/base/hash.hpp"
#include "flotilla/files/json.hpp"
#include "flotilla/store/disk.hpp"

namespace flotilla::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view part_format = "flotilla-part", part_unfinished = ".tmp";
constexpr int part_version = 1;
constexpr std::size_t magic_bytes = 64;  // "flotilla-part 1 <bytes of the header> <its CRC-32C>", blanks, a line end
constexpr std::int64_t largest_header = 256 << 20, data_alignment = 4096;

std::string magic_of(std::string_view header) {
  auto line = text(part_format, " ", part_version, " ", hex(header.size()), " ", hex8(crc32c(std::as_bytes(std::span{header}))));
  line.resize(magic_bytes - 1, ' ');
  return line + "\n";
}

std::int64_t data_begin(std::size_t header) {
  const auto end = static_cast<std::int64_t>(magic_bytes + header);
  return (end + data_alignment - 1) / data_alignment * data_alignment;
}

std::int64_t elements_in(const plan::Box& box) { return box.outer * box.inner; }

std::vector<StateKind> kept_kinds(const model::Tensor& tensor) {
  std::vector<StateKind> kept;
  for (auto kind : kinds)
    if (is_kept(kind, tensor)) kept.push_back(kind);
  return kept;
}

std::string header_text(const PartHeader& header) {
  std::vector<std::int64_t> numbers;
  for (const auto& [tensor, box] : header.blocks)
    numbers.insert(numbers.end(), {tensor, box.outer, box.inner, box.global_offset, box.global_stride});
  files::JsonLine line;
  line.add("step", header.name.step).add("incarnation", header.name.incarnation);
  line.add("rank", header.name.rank).add("ranks", header.name.ranks).add_json("hosts", files::json_array(header.hosts));
  line.add("remainders_crc32c", hex8(header.remainders)).add_json("blocks", files::json_array(numbers));
  line.add("manifest", header.manifest);
  return line.text();
}

constexpr std::int64_t most_elements = std::int64_t{1} << 48;  // of a tensor: so that sums of places stay numbers

PartHeader header_of(const files::Json& json) {
  json.expect_keys({"step", "incarnation", "rank", "ranks", "hosts", "remainders_crc32c", "blocks", "manifest"});
  PartHeader header;
  header.name = {json.get_int64("step", 0), json.get_int("incarnation", 0), json.get_int("rank", 0), json.get_int("ranks", 1)};
  for (const auto& host : json.at("hosts").items()) header.hosts.push_back(host.as_string());
  const auto digits = json.get_string("remainders_crc32c");
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), header.remainders, 16);
  if (error != std::errc{} || end != digits.data() + digits.size()) json.at("remainders_crc32c").refuse("expected hexadecimal digits");
  const auto numbers = json.at("blocks").items();
  if (numbers.size() % 5 != 0) json.at("blocks").refuse("expected five numbers for each block");
  for (std::size_t i = 0; i < numbers.size(); i += 5) {
    PartBlock block{numbers[i].as_int(0), {}};
    block.box.outer = numbers[i + 1].as_int64(1, largest_block);
    block.box.inner = block.box.local_stride = numbers[i + 2].as_int64(1, largest_block);
    block.box.global_offset = numbers[i + 3].as_int64(0, most_elements);
    block.box.global_stride = numbers[i + 4].as_int64(0, most_elements);
    if (elements_in(block.box) > largest_block) numbers[i + 1].refuse(text("expected blocks of at most ", largest_block, " elements"));
    header.blocks.push_back(block);
  }
  header.manifest = json.get_string("manifest");
  return header;
}

/// Damaged or gone, a local copy is one that does not count: whoever asked has others.
template <class Work>
auto or_damaged(Work&& work) -> decltype(work()) {
  try {
    return work();
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::internal) throw;
    throw Error{ErrorKind::bad_input, error.what()};
  }
}

/// Where values of a block stand in memory, row by row, behind each other.
void gather(const plan::Box& box, std::span<const float> values, std::vector<float>& into) {
  for (std::int64_t o = 0; o < box.outer; ++o) {
    const auto row = values.subspan(static_cast<std::size_t>(box.local_offset + o * box.local_stride), static_cast<std::size_t>(box.inner));
    into.insert(into.end(), row.begin(), row.end());
  }
}

void add_blocks(int tensor, const plan::Box& box, std::vector<PartBlock>& blocks) {
  if (box.inner <= 0) return;
  const std::int64_t width = std::min(box.inner, largest_block),
                     rows = width < box.inner ? 1 : std::max<std::int64_t>(1, largest_block / width);
  for (std::int64_t o = 0; o < box.outer; o += rows)
    for (std::int64_t i = 0; i < box.inner; i += width)
      blocks.push_back({tensor,
                        {std::min(rows, box.outer - o), std::min(width, box.inner - i), box.global_offset + o * box.global_stride + i,
                         box.global_stride, box.local_offset + o * box.local_stride + i, box.local_stride}});
}

const model::Tensor& tensor_of(const PartBlock& block, const std::vector<model::Tensor>& tensors, const fs::path& path) {
  FLOTILLA_REQUIRE(block.tensor < std::ssize(tensors), ErrorKind::bad_input, path.string(), ": holds tensor ", block.tensor, " of ",
                   tensors.size());
  const auto& tensor = tensors[static_cast<std::size_t>(block.tensor)];
  const auto last = block.box.global_offset + (block.box.outer - 1) * block.box.global_stride + block.box.inner;
  FLOTILLA_REQUIRE(last <= tensor.elements(), ErrorKind::bad_input, path.string(), ": holds element ", last - 1, " of ", tensor.name,
                   ", which has ", tensor.elements());
  return tensor;
}

PartHeader read_header(const store::PlainFile& file, std::int64_t& data) {
  std::string magic(magic_bytes, ' ');
  file.read(std::as_writable_bytes(std::span{magic}), 0);
  const auto expected = text(part_format, " ", part_version, " ");
  FLOTILLA_REQUIRE(magic.starts_with(expected), ErrorKind::bad_input, file.path().string(), ": does not begin with \"", expected, "\"");
  std::int64_t bytes = -1;
  std::from_chars(magic.data() + expected.size(), magic.data() + expected.size() + 16, bytes, 16);
  FLOTILLA_REQUIRE(bytes >= 0 && bytes <= largest_header && bytes <= file.size().count, ErrorKind::bad_input, file.path().string(),
                   ": its header is damaged");
  std::string words(static_cast<std::size_t>(bytes), ' ');
  file.read(std::as_writable_bytes(std::span{words}), magic_bytes);
  FLOTILLA_REQUIRE(magic_of(words) == magic, ErrorKind::bad_input, file.path().string(), ": its header is damaged");
  data = data_begin(words.size());
  return header_of(files::Json::parse(words, file.path().string()));
}

}  // namespace

std::string to_string(const PartName& name) {
  return text("step-", name.step, ".incarnation-", name.incarnation, ".part-", name.rank, "-of-", name.ranks);
}

std::optional<PartName> part_name_of(std::string_view name, bool& unfinished) {
  unfinished = name.ends_with(part_unfinished);
  if (unfinished) name.remove_suffix(part_unfinished.size());
  std::array<std::int64_t, 4> numbers{};
  std::string_view rest = name;
  constexpr std::array<std::string_view, 4> before{"step-", ".incarnation-", ".part-", "-of-"};
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (!rest.starts_with(before[i])) return std::nullopt;
    rest.remove_prefix(before[i].size());
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), numbers[i]);
    const bool fits = error == std::errc{} && numbers[i] >= 0 && (i == 0 || numbers[i] < 1'000'000'000);
    if (!fits) return std::nullopt;
    rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
  }
  const PartName part{numbers[0], static_cast<int>(numbers[1]), static_cast<int>(numbers[2]), static_cast<int>(numbers[3])};
  constexpr int most_ranks = 1'000'000;
  return to_string(part) == name && part.rank < part.ranks && part.ranks <= most_ranks ? std::optional{part} : std::nullopt;
}

fs::path unfinished_part(const fs::path& part) { return part.string() + std::string{part_unfinished}; }

std::vector<PartBlock> blocks_of(const LocalState& state) {
  std::vector<PartBlock> blocks;
  for (const auto& part : state.parts)
    if (part.owner)
      for (const auto& box : part.boxes_in((*state.tensors)[static_cast<std::size_t>(part.tensor)])) add_blocks(part.tensor, box, blocks);
  return blocks;
}

store::PlainFile write_part(const fs::path& path, const PartHeader& header, const LocalState& state) {
  const auto words = header_text(header);
  std::int64_t at = data_begin(words.size()), size = at;
  for (const auto& [tensor, box] : header.blocks)
    size += elements_in(box) * 4 * std::ssize(kept_kinds((*state.tensors)[static_cast<std::size_t>(tensor)]));
  auto file = store::PlainFile::create(path);
  store::reserve(path, Bytes{size});
  const auto head = magic_of(words) + words;
  file.write(std::as_bytes(std::span{head}), 0);
  std::vector<float> values;
  values.reserve(static_cast<std::size_t>(largest_block) * kinds.size());
  std::size_t next = 0;
  for (const auto& part : state.parts) {
    if (!part.owner) continue;
    const auto& tensor = (*state.tensors)[static_cast<std::size_t>(part.tensor)];
    std::vector<PartBlock> blocks;
    for (const auto& box : part.boxes_in(tensor)) add_blocks(part.tensor, box, blocks);
    for (const auto& block : blocks) {
      FLOTILLA_ASSERT(header.blocks.at(next++).box == block.box, "a part is not of its header");
      values.clear();
      for (auto kind : kept_kinds(tensor)) gather(block.box, part.values(kind), values);
      file.write(std::as_bytes(std::span{values}), at);
      at += std::ssize(values) * 4;
    }
  }
  return file;
}

PartReader::PartReader(const fs::path& path, const PartName& name)
    : file_{or_damaged([&] { return store::PlainFile::open_for_reading(path); })}, header_{or_damaged([&] {
        return read_header(file_, data_);
      })} {
  FLOTILLA_REQUIRE(header_.name == name && std::ssize(header_.hosts) == name.ranks, ErrorKind::bad_input, path.string(),
                   ": its header is that of ", to_string(header_.name));
}

void PartReader::visit(const std::vector<model::Tensor>& tensors, const std::function<void(const LocalState&)>& take) const {
  std::vector<float> values;
  std::int64_t at = data_;
  for (const auto& block : header_.blocks) {
    const auto& tensor = tensor_of(block, tensors, path());
    const auto kept = kept_kinds(tensor);
    const auto count = static_cast<std::size_t>(elements_in(block.box));
    values.resize(count * kept.size());
    or_damaged([&] { file_.read(std::as_writable_bytes(std::span{values}), at); });
    at += std::ssize(values) * 4;
    LocalTensor part;
    part.tensor = block.tensor;
    part.trained = tensor.trained;
    part.owner = true;
    part.piece = 0;
    part.boxes = {block.box};
    std::span<float> rest{values};
    for (auto kind : kept) {
      (kind == StateKind::parameters ? part.parameters : kind == StateKind::moment1 ? part.moment1 : part.moment2) = rest.first(count);
      rest = rest.subspan(count);
    }
    take(LocalState{&tensors, {part}});
  }
}

}  // namespace flotilla::checkpoint
