#include "token_layout.hpp"

namespace flotilla::data {
namespace {

constexpr std::int32_t llmc_magic = 20240520;
constexpr std::int32_t llmc_version = 1;
constexpr std::int64_t header_bytes = 256 * 4;

}  // namespace

bool is_llmc(FileBytes bytes) { return bytes.size() >= 4 && load<std::int32_t>(bytes, 0) == llmc_magic; }

TokenLayout llmc_layout(FileBytes bytes, const std::filesystem::path& path) {
  require_header(bytes, path, header_bytes, "llm.c's header");
  const auto found_magic = load<std::int32_t>(bytes, 0);
  if (found_magic != llmc_magic) refuse(path, 0, "expected llm.c's magic number ", llmc_magic, ", found ", found_magic);
  const auto found_version = load<std::int32_t>(bytes, 4);
  if (found_version != llmc_version) refuse(path, 4, "expected version ", llmc_version, " of llm.c's token file, found ", found_version);
  const auto count = load<std::int32_t>(bytes, 8);
  if (count <= 0) refuse(path, 8, "expected a token count of at least 1, found ", count);
  const TokenLayout layout{Element::uint16, header_bytes, count};
  require_exact_size(bytes, path, layout, 8);
  return layout;
}

}  // namespace flotilla::data
