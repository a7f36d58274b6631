#include "flotilla/session/training_data.hpp"

#include <algorithm>
#include <map>
#include <span>

#include "flotilla/base/error.hpp"
#include "flotilla/base/figures.hpp"
#include "flotilla/base/foreign_text.hpp"
#include "flotilla/base/hash.hpp"
#include "flotilla/session/phases.hpp"

namespace flotilla::session {
namespace {

data::SamplerOptions sampler_options(const RunConfig& config) {
  data::SamplerOptions options;
  options.seed = static_cast<std::uint64_t>(config.training.seed);
  options.length = config.training.length;
  options.global_batch = config.training.global_batch;  // phases may have others
  options.vocabulary = config.architecture.vocabulary;
  if (config.data.document_end >= 0) options.document_end = config.data.document_end;
  return options;
}

/// Every token is checked when it is read, hours into a run and on one rank alone; the wrong tokenizer shows at once, to all.
void scan_beginnings(const std::vector<const data::Corpus*>& corpora, int vocabulary) {
  constexpr std::int64_t budget = 64 << 20;  // tokens; a tenth of a second
  std::int64_t sections = 0;
  for (const auto* corpus : corpora) sections += std::ssize(corpus->sections());
  for (const auto* corpus : corpora)
    for (const auto& section : corpus->sections())
      section.file->scan(section.first, std::min(section.last, section.first + budget / sections), vocabulary);
}

/// Training on data in which nothing counts would be silent: every step would be one without a loss.
void require_counted(const std::vector<data::Source>& sources) {
  const auto counts = [](const data::CorpusSection& section) {
    const auto* mask = section.file->mask();
    return mask == nullptr || mask->any(section.first + 1, section.last);  // the first token is never predicted
  };
  for (const auto& source : sources) {
    const auto& sections = source.corpus.sections();
    if (std::ranges::any_of(sections, counts)) continue;
    FLOTILLA_REQUIRE(sections.empty(), ErrorKind::bad_input, sections.front().file->path().string(),
                     sections.size() > 1 ? text(" and ", sections.size() - 1, " more") : "", ": no token of ",
                     source.name.empty() ? std::string{"the data"} : "source " + in_quotes(source.name),
                     " counts in the loss: expected completions, or messages with an answer of the assistant");
  }
}

/// What is evaluated is the same every time: without a token that counts it never has a loss.
void require_counted(const data::Sampler& validation, int sequences) {
  for (std::size_t i = 0; i < validation.sources().size(); ++i)
    for (const auto& phase : validation.phases()) {
      const auto& source = validation.sources()[i];
      if (std::ranges::none_of(source.corpus.sections(), [](const auto& section) { return section.file->mask() != nullptr; })) break;
      std::vector<std::int32_t> tokens(static_cast<std::size_t>(phase.length) + 1);
      const auto counts = [&](int sequence) {
        validation.read(validation.locate_evaluation(sequence, static_cast<int>(i), phase.length), tokens);
        return std::any_of(tokens.begin() + 1, tokens.end(), [](std::int32_t token) { return token >= 0; });
      };
      bool any = false;
      for (int sequence = 0; sequence < sequences && !any; ++sequence) any = counts(sequence);
      FLOTILLA_REQUIRE(any, ErrorKind::bad_input, "no token of the ", sequences, " sequences of validation data",
                       source.name.empty() ? std::string{} : " of source " + in_quotes(source.name), " of ", phase.length,
                       " tokens counts in the loss; ask for more (--training.evaluate-sequences), or give data with answers");
    }
}

/// Whose ends are known.
void require_documents(const std::vector<const data::Corpus*>& corpora, const RunConfig::Data& data) {
  if (!data.separate_documents || data.document_end >= 0) return;
  for (const auto* corpus : corpora)
    for (const auto& section : corpus->sections())
      FLOTILLA_REQUIRE(section.file->has_documents(), ErrorKind::bad_input, section.file->path().string(), ": a ",
                       to_string(section.file->format()),
                       " file does not say where documents end, which data.documents = \"separate\" needs; name the token at their end: "
                       "--data.document-end ID, or give a Megatron .bin and .idx");
}

/// Bytes need 256 rows of the embedding, and the others cost memory and time.
std::string remark_on(const std::vector<data::Source>& sources, int vocabulary) {
  constexpr int bytes = 256;
  for (const auto& source : sources)
    for (const auto& section : source.corpus.sections())
      if (section.file->format() == data::Format::text && vocabulary > 4 * bytes)
        return text(section.file->path().string(), ": raw bytes are ", bytes, " different tokens, and the model's vocabulary has ",
                    vocabulary, ": the others are never trained; name the model's tokenizer: --data.tokenizer FILE");
  return "";
}

data::Corpora corpora_of(const RunConfig& config, const SourceFiles& files) {
  data::CorpusOptions options;
  options.training = files.training;
  options.validation = files.validation;
  options.format = config.data.format;
  options.validation_fraction = config.data.validation_fraction;  // evaluated or not, so that switching evaluation on keeps the samples
  return data::open_corpora(options);
}

SourceRecord record_of(const data::Source& source, std::span<const std::uint64_t> files) {
  SourceRecord record{source.name, source.weight, source.epochs, {}, {}, source.corpus.sections().size()};
  for (std::size_t i = 0; i < files.size(); ++i)
    record.files.push_back(hex(data::Corpus::fingerprint(source.corpus.sections()[i], files[i])));
  return record;
}

/// Of a mixture, everything that decides its sequences; of an only source without a name, its corpus's, as ever.
std::string fingerprint_of(const std::vector<data::Source>& sources, const std::vector<std::vector<std::uint64_t>>& files) {
  if (sources.size() == 1 && sources[0].name.empty()) return hex(sources[0].corpus.fingerprint(files[0]));
  auto hash = fnv1a("mixture");
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const auto& source = sources[i];
    hash = fnv1a(
        text(source.name, " ", formatted("%.17g", source.weight), " ", source.epochs, " ", hex(source.corpus.fingerprint(files[i])), "\n"),
        hash);
  }
  return hex(hash);
}

data::Sampler validation_of(const RunConfig& config, std::vector<data::Source> sources) {
  FLOTILLA_REQUIRE(!sources.empty(), ErrorKind::bad_input, "there is no held-out data of any source for training.evaluate-every");
  auto phases = sampling(phases_of(config));
  for (auto& phase : phases) phase.weights.clear();  // all sources are evaluated in every phase
  data::Sampler validation{std::move(sources), sampler_options(config), std::move(phases)};
  for (std::size_t i = 0; i < validation.sources().size(); ++i)
    for (const auto& phase : validation.phases()) {
      const auto there = validation.sequences_per_epoch(static_cast<int>(i), phase.length);
      const auto& name = validation.sources()[i].name;
      FLOTILLA_REQUIRE(there >= config.training.evaluate_sequences, ErrorKind::bad_input, "--training.evaluate-sequences is ",
                       config.training.evaluate_sequences, ", the validation data", name.empty() ? "" : " of source " + in_quotes(name),
                       " holds ", there, " sequences of ", phase.length, " tokens; ask for fewer or give more data");
    }
  require_counted(validation, config.training.evaluate_sequences);
  return validation;
}

void require_enough(const data::Sampler& training, const RunConfig& config) {
  FLOTILLA_REQUIRE(training.steps() >= config.training.steps, ErrorKind::bad_input, "the epochs of all sources end after step ",
                   training.steps(), ", and training.steps is ", config.training.steps,
                   "; allow a source more epochs, or ask for fewer steps");
}

/// The sections of a source in the order of the record, which has the same ones.
data::Source arranged(const data::Source& source, const SourceRecord& now, const SourceRecord& record) {
  std::multimap<std::string, data::CorpusSection> present;
  for (std::size_t i = 0; i < now.files.size(); ++i) present.emplace(now.files[i], source.corpus.sections()[i]);
  std::vector<data::CorpusSection> sections;
  for (const auto& file : record.files) {
    const auto found = present.find(file);
    FLOTILLA_REQUIRE(found != present.end(), ErrorKind::bad_input, "the training data have changed since the job began to start");
    sections.push_back(found->second);
    present.erase(found);
  }
  auto result = source;
  result.corpus = data::Corpus{std::move(sections)};
  result.growth = record.growth;
  result.files_at_start = record.files_at_start;
  return result;
}

}  // namespace

void TrainingData::continue_from(std::vector<SourceRecord> from, const RunConfig& config) {
  std::vector<data::Source> sources;
  for (std::size_t i = 0; i < from.size(); ++i) sources.push_back(arranged(training.sources()[i], record[i], from[i]));
  training = data::Sampler{std::move(sources), training.options(), training.phases()};
  record = std::move(from);
  require_enough(training, config);
}

TrainingData open_data(const RunConfig& config, const std::vector<SourceFiles>& files) {
  const auto named = sources_of(config);
  std::vector<data::Source> training, validation;
  for (std::size_t i = 0; i < named.size(); ++i) {
    auto corpora = corpora_of(config, files.at(i));
    training.push_back({named[i].name, std::move(corpora.training), named[i].weight, named[i].epochs});
    if (!corpora.validation.empty()) validation.push_back({named[i].name, std::move(corpora.validation), named[i].weight});
  }
  std::vector<const data::Corpus*> corpora;
  for (const auto* sources : {&training, &validation})
    for (const auto& source : *sources) corpora.push_back(&source.corpus);
  require_documents(corpora, config.data);
  scan_beginnings(corpora, config.architecture.vocabulary);
  require_counted(training);
  std::vector<std::vector<std::uint64_t>> fingerprints;
  std::vector<SourceRecord> record;
  for (const auto& source : training) {
    fingerprints.push_back(source.corpus.file_fingerprints());
    record.push_back(record_of(source, fingerprints.back()));
  }
  TrainingData data{{training, sampler_options(config), sampling(phases_of(config))},
                    {},
                    fingerprint_of(training, fingerprints),
                    std::move(record),
                    remark_on(training, config.architecture.vocabulary)};
  require_enough(data.training, config);
  if (config.training.evaluate_every > 0) data.validation = validation_of(config, std::move(validation));
  return data;
}

}  // namespace flotilla::session
