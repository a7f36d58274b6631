#pragma once
#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

/// A model file as llm.c's train_gpt2.py writes it (write_model), by its description alone.
namespace flotilla::tests {

struct LlmcExtents {
  int positions = 16, vocabulary = 100, blocks = 3, heads = 2, channels = 8, padded = 128;
};

/// fp32 (version 3) or bf16 (5). Every element has other bits.
inline std::string llmc_bytes(const LlmcExtents& e, int version) {
  std::vector<std::int32_t> header(256);
  header = {20240326, version, e.positions, e.vocabulary, e.blocks, e.heads, e.channels, e.padded};
  header.resize(256);
  std::string bytes(reinterpret_cast<const char*>(header.data()), 1024);
  std::uint32_t drawn = 12345;
  const auto add = [&](std::int64_t count, bool zero = false) {
    for (std::int64_t i = 0; i < count; ++i) {
      drawn = drawn * 1664525u + 1013904223u;
      const std::uint32_t bits = zero ? 0 : std::bit_cast<std::uint32_t>(static_cast<float>(static_cast<std::int32_t>(drawn)) * 0x1p-36f);
      const std::size_t size = version == 3 ? 4 : 2;
      bytes.append(reinterpret_cast<const char*>(&bits) + (4 - size), size);
    }
  };
  const std::int64_t c = e.channels, l = e.blocks;
  add(e.vocabulary * c);  // wte
  add((e.padded - e.vocabulary) * c, true);
  add(e.positions * c);                                                                                            // wpe
  for (const auto each : {c, c, 3 * c * c, 3 * c, c * c, c, c, c, 4 * c * c, 4 * c, 4 * c * c, c}) add(l * each);  // ln1w ... fcprojb
  add(2 * c);                                                                                                      // lnfw, lnfb
  return bytes;
}

inline std::filesystem::path write_llmc(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream{path, std::ios::binary} << bytes;
  return path;
}

}  // namespace flotilla::tests
