#include "flotilla/session/training_data.hpp"

#include <algorithm>

#include "flotilla/base/error.hpp"
#include "flotilla/base/hash.hpp"

namespace flotilla::session {
namespace {

data::SamplerOptions sampler_options(const RunConfig& config) {
  data::SamplerOptions options;
  options.seed = static_cast<std::uint64_t>(config.training.seed);
  options.length = config.training.length;
  options.global_batch = config.training.global_batch;
  options.vocabulary = config.architecture.vocabulary;
  return options;
}

/// Every token is checked when it is read, hours into a run and on one rank alone; the wrong tokenizer shows at once, to all.
void scan_beginnings(const data::Corpus& corpus, int vocabulary) {
  constexpr std::int64_t budget = 64 << 20;  // tokens; a tenth of a second
  const auto& sections = corpus.sections();
  for (const auto& section : sections) {
    const auto share = budget / static_cast<std::int64_t>(sections.size());
    section.file->scan(section.first, std::min(section.last, section.first + share), vocabulary);
  }
}

/// Bytes need 256 rows of the embedding, and the others cost memory and time.
std::string remark_on(const data::Corpus& corpus, int vocabulary) {
  constexpr int bytes = 256;
  for (const auto& section : corpus.sections())
    if (section.file->format() == data::Format::text && vocabulary > 4 * bytes)
      return text(section.file->path().string(), ": raw bytes are ", bytes, " different tokens, and the model's vocabulary has ",
                  vocabulary, ": the others are never trained; give token files of the model's tokenizer");
  return "";
}

}  // namespace

TrainingData open_data(const RunConfig& config) {
  data::CorpusOptions options;
  options.training.assign(config.data.train.begin(), config.data.train.end());
  options.validation.assign(config.data.validation.begin(), config.data.validation.end());
  options.format = config.data.format;
  options.validation_fraction = config.data.validation_fraction;  // evaluated or not, so that switching evaluation on keeps the samples
  auto corpora = data::open_corpora(options);
  for (const auto* corpus : {&corpora.training, &corpora.validation}) scan_beginnings(*corpus, config.architecture.vocabulary);
  TrainingData samplers{{corpora.training, sampler_options(config)},
                        {},
                        hex(corpora.training.fingerprint()),
                        remark_on(corpora.training, config.architecture.vocabulary)};
  if (config.training.evaluate_every > 0) {
    samplers.validation.emplace(corpora.validation, sampler_options(config));
    FLOTILLA_REQUIRE(samplers.validation->sequences_per_epoch() >= config.training.evaluate_sequences, ErrorKind::bad_input,
                     "--training.evaluate-sequences is ", config.training.evaluate_sequences, ", the validation data holds ",
                     samplers.validation->sequences_per_epoch(), " sequences of ", config.training.length,
                     " tokens; ask for fewer or give more data");
  }
  return samplers;
}

}  // namespace flotilla::session
