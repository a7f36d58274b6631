#include "flotilla/data/corpus.hpp"

#include <cmath>

#include "content_hash.hpp"
#include "flotilla/base/error.hpp"

namespace flotilla::data {
namespace {

std::shared_ptr<const TokenFile> open_shared(const std::filesystem::path& path, Format format) {
  return std::make_shared<const TokenFile>(TokenFile::open(path, format));
}

std::int64_t tail_tokens(std::int64_t size, double fraction) {
  return std::min(size, static_cast<std::int64_t>(std::floor(static_cast<double>(size) * fraction)));
}

void check(const CorpusOptions& options) {
  FLOTILLA_REQUIRE(!options.training.empty(), ErrorKind::bad_input, "no training data; expected at least one token file in data.train");
  FLOTILLA_REQUIRE(options.validation_fraction >= 0 && options.validation_fraction < 1, ErrorKind::bad_input, "validation fraction ",
                   options.validation_fraction, "; expected at least 0 and less than 1");
}

}  // namespace

std::int64_t Corpus::tokens() const {
  std::int64_t sum = 0;
  for (const auto& section : sections_) sum += section.size();
  return sum;
}

std::vector<std::uint64_t> Corpus::file_fingerprints() const {
  std::vector<std::uint64_t> files;
  for (const auto& section : sections_) files.push_back(section.file->fingerprint());
  return files;
}

std::uint64_t Corpus::fingerprint(std::span<const std::uint64_t> files) const {
  auto hash = combine(0, sections_.size());
  for (std::size_t i = 0; i < sections_.size(); ++i) {
    hash = combine(hash, files[i]);
    hash = combine(hash, static_cast<std::uint64_t>(sections_[i].first));
    hash = combine(hash, static_cast<std::uint64_t>(sections_[i].last));
  }
  return hash;
}

std::uint64_t Corpus::fingerprint(const CorpusSection& section, std::uint64_t file) {
  return combine(combine(combine(0, file), static_cast<std::uint64_t>(section.first)), static_cast<std::uint64_t>(section.last));
}

void Corpus::scan(int vocabulary) const {
  for (const auto& section : sections_) section.file->scan(section.first, section.last, vocabulary);
}

Corpora open_corpora(const CorpusOptions& options) {
  check(options);
  std::vector<CorpusSection> training, validation;
  const double fraction = options.validation.empty() ? options.validation_fraction : 0;
  for (const auto& path : options.training) {
    const auto file = open_shared(path, options.format);
    const auto cut = file->size() - tail_tokens(file->size(), fraction);
    training.push_back({file, 0, cut});
    if (cut < file->size()) validation.push_back({file, cut, file->size()});
  }
  for (const auto& path : options.validation) {
    const auto file = open_shared(path, options.format);
    validation.push_back({file, 0, file->size()});
  }
  return {Corpus{std::move(training)}, Corpus{std::move(validation)}};
}

}  // namespace flotilla::data
