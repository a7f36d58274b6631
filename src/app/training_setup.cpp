#include "app/training_setup.hpp"

#include <algorithm>

#include "flotilla/base/error.hpp"
#include "flotilla/base/hash.hpp"

namespace flotilla::app {
namespace {

data::SamplerOptions sampler_options(const Job& job) {
  data::SamplerOptions options;
  options.seed = static_cast<std::uint64_t>(job.training.seed);
  options.length = job.training.length;
  options.global_batch = job.training.global_batch;
  options.vocabulary = job.architecture.vocabulary;
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

}  // namespace

Samplers open_data(const Job& job) {
  data::CorpusOptions options;
  options.training.assign(job.data.train.begin(), job.data.train.end());
  options.validation.assign(job.data.validation.begin(), job.data.validation.end());
  options.format = job.data.format;
  options.validation_fraction = job.data.validation_fraction;  // evaluated or not, so that switching evaluation on keeps the samples
  auto corpora = data::open_corpora(options);
  for (const auto* corpus : {&corpora.training, &corpora.validation}) scan_beginnings(*corpus, job.architecture.vocabulary);
  Samplers samplers{{corpora.training, sampler_options(job)}, {}, hex(corpora.training.fingerprint())};
  if (job.training.evaluate_every > 0) {
    samplers.validation.emplace(corpora.validation, sampler_options(job));
    FLOTILLA_REQUIRE(samplers.validation->sequences_per_epoch() >= job.training.evaluate_sequences, ErrorKind::bad_input,
                     "--training.evaluate-sequences is ", job.training.evaluate_sequences, ", the validation data holds ",
                     samplers.validation->sequences_per_epoch(), " sequences of ", job.training.length,
                     " tokens; ask for fewer or give more data");
  }
  return samplers;
}

search::PlanRequest search_request(const Job& job) {
  search::PlanRequest request;
  request.model = job.architecture;
  request.length = job.training.length;
  request.global_batch = job.training.global_batch;
  request.precision = job.training.precision;
  request.constraints = constraints_of(job.plan);
  if (job.device.memory.count > 0) request.memory_limit = job.device.memory;
  return request;
}

probe::ProbeRequest probe_request(const Job& job) {
  probe::ProbeRequest request;
  request.model = job.architecture;
  request.length = job.training.length;
  request.precisions = {job.training.precision};
  request.threads = job.run.threads;
  request.memory_limit = job.device.memory;
  request.budget = job.probe.budget;
  request.deadline = job.comm.deadline;
  return request;
}

train::Options trainer_options(const Job& job, int threads) {
  const auto& t = job.training;
  train::Options options;
  options.seed = static_cast<std::uint64_t>(t.seed);
  options.learning_rate = {t.learning_rate, t.minimum_learning_rate, t.warmup_steps, t.steps};
  options.beta1 = t.beta1;
  options.beta2 = t.beta2;
  options.epsilon = t.epsilon;
  options.weight_decay = t.weight_decay;
  options.clip = t.clip;
  options.skip_non_finite = t.skip_non_finite;
  options.threads = threads;
  options.deadline = job.comm.deadline;
  return options;
}

void require_same_run(const Job& job, const std::string& data, const checkpoint::Loaded& saved) {
  const auto refuse = [&](const char* what, const std::string& theirs, const std::string& ours) {
    throw Error{ErrorKind::bad_input, text(saved.directory.string(), ": ", what, " differs: saved with '", theirs, "', the job says '",
                                           ours, "'; put it back or choose another --run.directory")};
  };
  const std::string ours = training_identity(job);
  if (saved.manifest.training != ours) {
    const auto [a, b] = std::mismatch(saved.manifest.training.begin(), saved.manifest.training.end(), ours.begin(), ours.end());
    const auto line = [](const std::string& all, std::string::const_iterator at) {
      const auto offset = static_cast<std::size_t>(at - all.begin());
      const auto begin = offset == 0 ? std::string::npos : all.rfind('\n', offset - 1);
      const auto first = begin == std::string::npos ? 0 : begin + 1;
      return all.substr(first, all.find('\n', first) - first);
    };
    refuse("the training", line(saved.manifest.training, a), line(ours, b));
  }
  if (saved.manifest.data_fingerprint != data) refuse("the training data (fingerprint)", saved.manifest.data_fingerprint, data);
}

}  // namespace flotilla::app
