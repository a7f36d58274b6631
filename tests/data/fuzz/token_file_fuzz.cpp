// libFuzzer target: any bytes, read as every format, are read in bounds or refused. Build and run: docs/formats/tokens.md.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <span>
#include <vector>

#include "flotilla/base/error.hpp"
#include "flotilla/data/token_file.hpp"
#include "support/temporary_folder.hpp"

namespace {

using flotilla::data::Format;

const std::filesystem::path& folder() {
  static const flotilla::tests::TemporaryFolder one;
  return one;
}

void write(const std::filesystem::path& path, std::span<const unsigned char> bytes) {
  std::filesystem::remove(path);
  std::ofstream{path, std::ios::binary}.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
}

void read_or_refuse(const std::filesystem::path& path, Format format) {
  try {
    const auto file = flotilla::data::TokenFile::open(path, format);
    std::vector<std::int32_t> tokens(static_cast<std::size_t>(file.size()));
    file.scan(0, file.size(), 1 << 20);
    file.read(0, tokens, 1 << 20);
    if (std::ranges::any_of(tokens, [](std::int32_t token) { return token < 0 || token >= 1 << 20; })) std::abort();
    static_cast<void>(file.fingerprint());
  } catch (const flotilla::Error& error) {
    if (error.kind() != flotilla::ErrorKind::bad_input && error.kind() != flotilla::ErrorKind::no_input) std::abort();
    if (std::string_view{error.what()}.find('\n') != std::string_view::npos) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size);

/// The first byte chooses the format; for Megatron the second says how many of the bytes are the .bin.
extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  if (size < 2) return 0;
  constexpr std::array formats{Format::automatic,  Format::text,       Format::llmc,    Format::npy,
                               Format::raw_uint16, Format::raw_uint32, Format::megatron};
  const auto format = formats[data[0] % formats.size()];
  const std::span bytes{data + 2, size - 2};
  const auto tokens = format == Format::megatron ? std::min<std::size_t>(data[1], bytes.size()) : bytes.size();
  write(folder() / "tokens.bin", bytes.first(tokens));
  write(folder() / "tokens.idx", bytes.subspan(tokens));
  if (format != Format::megatron) std::filesystem::remove(folder() / "tokens.idx");
  read_or_refuse(folder() / "tokens.bin", format);
  return 0;
}
