#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <functional>
#include <span>
#include <string_view>

#include "flotilla/base/error.hpp"

namespace flotilla::data {

/// How one token is stored, little-endian.
enum class Element { uint8, int8, uint16, int16, uint32, int32, uint64, int64 };
constexpr std::int64_t width(Element element) { return std::int64_t{1} << (static_cast<int>(element) / 2); }

/// Where the tokens lie in a file.
struct TokenLayout {
  Element element = Element::uint8;
  std::int64_t offset = 0;  ///< bytes before the first token
  std::int64_t count = 0;   ///< tokens
};

using FileBytes = std::span<const std::byte>;

/// What the files of this room should be, in errors.
inline constexpr const char* token_file = "a token file";

// Each takes a whole file and throws Error{bad_input} naming `path`, the byte and what was expected there.
TokenLayout text_layout(FileBytes, const std::filesystem::path&);
TokenLayout raw_layout(FileBytes, const std::filesystem::path&, Element);
TokenLayout llmc_layout(FileBytes, const std::filesystem::path&);
TokenLayout npy_layout(FileBytes, const std::filesystem::path&);

/// What a Megatron index begins with.
inline constexpr std::string_view megatron_magic{"MMIDIDX\0\0", 9};
/// `index` is the .idx, `tokens` the .bin; the pointers are checked at both ends only.
TokenLayout megatron_layout(FileBytes index, const std::filesystem::path& index_path, FileBytes tokens,
                            const std::filesystem::path& tokens_path);
/// Every length, pointer and document of the index.
void check_megatron_index(FileBytes index, const std::filesystem::path& index_path);
/// Calls `visit` with the first token of every document of the index that begins in (first, last), ascending. Takes logarithmic time.
void each_document(FileBytes index, const std::filesystem::path& index_path, std::int64_t first, std::int64_t last,
                   const std::function<void(std::int64_t token)>& visit);
struct MegatronPaths {
  std::filesystem::path index, tokens;
};
/// From the .idx, the .bin or their common prefix.
MegatronPaths megatron_paths(const std::filesystem::path&);

bool is_llmc(FileBytes);
bool is_npy(FileBytes);
bool is_megatron_index(FileBytes);

template <class... Parts>
[[noreturn]] void refuse(const std::filesystem::path& path, std::int64_t byte, const Parts&... parts) {
  throw Error{ErrorKind::bad_input, text(path.string(), ": byte ", byte, ": ", parts...)};
}

/// The little-endian number at `offset`, which must lie inside.
template <class T>
T load(FileBytes bytes, std::int64_t offset) {
  T value{};
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

inline std::int64_t byte_count(FileBytes bytes) { return static_cast<std::int64_t>(bytes.size()); }

/// Refuses a file that ends before `size` bytes of header.
inline void require_header(FileBytes bytes, const std::filesystem::path& path, std::int64_t size, const char* what) {
  if (byte_count(bytes) < size) refuse(path, byte_count(bytes), "the file ends here; expected ", what, " of ", size, " bytes");
}

/// Refuses a file whose size is not what its header promises. `where` is the byte that holds the count.
void require_exact_size(FileBytes, const std::filesystem::path&, const TokenLayout&, std::int64_t where);

}  // namespace flotilla::data
