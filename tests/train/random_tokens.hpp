#pragma once
#include <cstdint>
#include <filesystem>
#include <random>
#include <span>
#include <vector>

#include "flotilla/data/corpus.hpp"
#include "flotilla/data/loss_mask.hpp"
#include "flotilla/data/megatron_writer.hpp"
#include "flotilla/store/plain_file.hpp"
#include "train/fixture.hpp"

/// Megatron files of random tokens below 256.
namespace flotilla::tests {

/// Writes BASE.bin and BASE.idx: documents of these lengths.
inline void write_random_tokens(const std::filesystem::path& base, std::span<const std::int32_t> documents, unsigned seed = 7) {
  const auto tokens = store::PlainFile::create(base.string() + ".bin"), lengths = store::PlainFile::create(base.string() + ".lengths");
  std::vector<std::uint16_t> ids;
  std::vector<std::int32_t> ends;
  std::mt19937 random{seed};
  for (const auto length : documents) {
    for (int i = 0; i < length; ++i) ids.push_back(static_cast<std::uint16_t>(std::uniform_int_distribution<int>{0, 255}(random)));
    ends.push_back(~length);  // as the writer marks the end of a document
  }
  tokens.write(std::as_bytes(std::span{ids}), 0);
  lengths.write(std::as_bytes(std::span{ends}), 0);
  data::write_megatron_index(base.string() + ".idx", store::PlainFile::open_for_reading(base.string() + ".lengths"), 2);
}

/// Writes BASE.mask for `count` tokens, of which counts(token) says whether it counts.
template <class Counts>
void write_mask(const std::filesystem::path& base, std::int64_t count, const Counts& counts) {
  std::int64_t token = 0;
  data::write_loss_mask(base.string() + ".mask", count, [&](data::TokenRun& run) {
    while (token < count && counts(token)) ++token;
    run = {token, token + 1};
    return token++ < count;
  });
}

/// All of BASE.bin, with its mask where there is one.
inline data::Corpus corpus_of(const std::filesystem::path& base) {
  data::CorpusOptions files;
  files.training = {base.string() + ".bin"};
  files.validation_fraction = 0;
  return data::open_corpora(files).training;
}

}  // namespace flotilla::tests
