#include "flotilla/data/token_file.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>

#include "content_hash.hpp"
#include "flotilla/base/hash.hpp"
#include "flotilla/store/mapped_file.hpp"
#include "token_layout.hpp"

namespace flotilla::data {

struct TokenFile::State {
  Format format = Format::text;
  store::MappedFile tokens;
  store::MappedFile index;  ///< Megatron's, else unmapped
  std::optional<LossMask> mask;
  TokenLayout layout;
};

namespace {

TokenLayout layout_of(const store::MappedFile& file, Format format) {
  switch (format) {
    case Format::llmc: return llmc_layout(file.bytes(), file.path());
    case Format::npy: return npy_layout(file.bytes(), file.path());
    case Format::raw_uint16: return raw_layout(file.bytes(), file.path(), Element::uint16);
    case Format::raw_uint32: return raw_layout(file.bytes(), file.path(), Element::uint32);
    case Format::text: return text_layout(file.bytes(), file.path());
    case Format::automatic:
    case Format::megatron: break;
  }
  FLOTILLA_ASSERT(false, "format ", to_string(format), " has its own way in");
  return {};
}

/// Copies tokens of type T and returns the position of the first that is outside the vocabulary, or -1.
template <class T>
std::int64_t copy_tokens(const std::byte* source, std::span<std::int32_t> tokens, std::uint64_t vocabulary) {
  bool outside = false;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    T value{};
    std::memcpy(&value, source + i * sizeof(T), sizeof(T));
    // A negative value becomes a huge one.
    outside |= static_cast<std::uint64_t>(value) >= vocabulary;
    tokens[i] = static_cast<std::int32_t>(value);
  }
  if (!outside) return -1;
  for (std::size_t i = 0;; ++i) {
    T value{};
    std::memcpy(&value, source + i * sizeof(T), sizeof(T));
    if (static_cast<std::uint64_t>(value) >= vocabulary) return static_cast<std::int64_t>(i);
  }
}

std::int64_t copy_tokens(Element element, const std::byte* source, std::span<std::int32_t> tokens, std::uint64_t vocabulary) {
  switch (element) {
    case Element::uint8: return copy_tokens<std::uint8_t>(source, tokens, vocabulary);
    case Element::int8: return copy_tokens<std::int8_t>(source, tokens, vocabulary);
    case Element::uint16: return copy_tokens<std::uint16_t>(source, tokens, vocabulary);
    case Element::int16: return copy_tokens<std::int16_t>(source, tokens, vocabulary);
    case Element::uint32: return copy_tokens<std::uint32_t>(source, tokens, vocabulary);
    case Element::int32: return copy_tokens<std::int32_t>(source, tokens, vocabulary);
    case Element::uint64: return copy_tokens<std::uint64_t>(source, tokens, vocabulary);
    case Element::int64: return copy_tokens<std::int64_t>(source, tokens, vocabulary);
  }
  return -1;
}

std::string spelled_token(const TokenLayout& layout, FileBytes bytes, std::int64_t at) {
  switch (layout.element) {
    case Element::uint8: return std::to_string(load<std::uint8_t>(bytes, at));
    case Element::int8: return std::to_string(load<std::int8_t>(bytes, at));
    case Element::uint16: return std::to_string(load<std::uint16_t>(bytes, at));
    case Element::int16: return std::to_string(load<std::int16_t>(bytes, at));
    case Element::uint32: return std::to_string(load<std::uint32_t>(bytes, at));
    case Element::int32: return std::to_string(load<std::int32_t>(bytes, at));
    case Element::uint64: return std::to_string(load<std::uint64_t>(bytes, at));
    case Element::int64: return std::to_string(load<std::int64_t>(bytes, at));
  }
  return {};
}

}  // namespace

TokenFile::TokenFile(std::unique_ptr<State> state) : state_{std::move(state)} {}
TokenFile::TokenFile(TokenFile&&) noexcept = default;
TokenFile& TokenFile::operator=(TokenFile&&) noexcept = default;
TokenFile::~TokenFile() = default;

TokenFile TokenFile::open(const std::filesystem::path& path, Format format) {
  auto state = std::make_unique<State>();
  state->format = format == Format::automatic ? detect_format(path) : format;
  if (state->format == Format::megatron) {
    const auto paths = megatron_paths(path);
    state->index = store::MappedFile::open(paths.index, token_file);
    state->tokens = store::MappedFile::open(paths.tokens, token_file);
    state->layout = megatron_layout(state->index.bytes(), paths.index, state->tokens.bytes(), paths.tokens);
    if (const auto mask = LossMask::beside(paths.tokens); std::filesystem::exists(mask))
      state->mask = LossMask::open(mask, state->layout.count);
  } else {
    state->tokens = store::MappedFile::open(path, token_file);
    state->layout = layout_of(state->tokens, state->format);
  }
  return TokenFile{std::move(state)};
}

const std::filesystem::path& TokenFile::path() const { return state_->tokens.path(); }
Format TokenFile::format() const { return state_->format; }
std::int64_t TokenFile::size() const { return state_->layout.count; }
const LossMask* TokenFile::mask() const { return state_->mask ? &*state_->mask : nullptr; }

void TokenFile::read(std::int64_t first, std::span<std::int32_t> tokens, int vocabulary) const {
  const auto& layout = state_->layout;
  const auto count = static_cast<std::int64_t>(tokens.size());
  FLOTILLA_ASSERT(first >= 0 && count <= layout.count && first <= layout.count - count, "tokens ", first, " to ", first + count, " of ",
                  layout.count);
  state_->tokens.require_whole();
  const auto each = width(layout.element);
  const auto start = layout.offset + first * each;
  const auto bad = copy_tokens(layout.element, state_->tokens.bytes().data() + start, tokens, static_cast<std::uint64_t>(vocabulary));
  if (bad < 0) return;
  refuse(path(), start + bad * each, "token ", spelled_token(layout, state_->tokens.bytes(), start + bad * each),
         " is outside the model's vocabulary; expected 0 to ", vocabulary - 1, " (read as ", to_string(format()),
         "; is it the model's tokenizer, and the right data.format?)");
}

bool TokenFile::has_documents() const { return state_->format == Format::megatron; }

void TokenFile::document_starts(std::int64_t first, std::span<std::int32_t> starts, std::optional<std::int32_t> end) const {
  // First a flag for each token that begins a document.
  if (end) read(first, starts, std::numeric_limits<std::int32_t>::max());
  for (std::size_t i = starts.size(); i-- > 1;) starts[i] = end && starts[i - 1] == *end ? 1 : 0;
  if (has_documents()) {
    state_->index.require_whole();
    each_document(state_->index.bytes(), state_->index.path(), first, first + std::ssize(starts),
                  [&](std::int64_t token) { starts[static_cast<std::size_t>(token - first)] = 1; });
  }
  std::int32_t begin = 0;
  for (std::size_t i = 0; i < starts.size(); ++i) {
    if (i > 0 && starts[i] != 0) begin = static_cast<std::int32_t>(i);
    starts[i] = begin;
  }
}

void TokenFile::scan(std::int64_t first, std::int64_t last, int vocabulary) const {
  if (state_->format == Format::megatron) {
    state_->index.require_whole();
    check_megatron_index(state_->index.bytes(), state_->index.path());
  }
  std::array<std::int32_t, 16384> buffer{};
  while (first < last) {
    const auto count = std::min<std::int64_t>(last - first, static_cast<std::int64_t>(buffer.size()));
    read(first, std::span{buffer}.first(static_cast<std::size_t>(count)), vocabulary);
    first += count;
  }
}

std::uint64_t TokenFile::fingerprint() const {
  state_->tokens.require_whole();
  auto hash = combine(fnv1a(to_string(format())), content_hash(state_->tokens.bytes()));
  if (state_->format == Format::megatron) {
    state_->index.require_whole();
    hash = combine(hash, content_hash(state_->index.bytes()));
    if (state_->mask) hash = combine(hash, content_hash(state_->mask->bytes()));
  }
  return hash;
}

}  // namespace flotilla::data
