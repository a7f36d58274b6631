#pragma once
#include <filesystem>
#include <vector>

#include "flotilla/comm/agree.hpp"
#include "flotilla/ingest/token_cache.hpp"
#include "flotilla/session/run_config.hpp"

namespace flotilla::session {

/// The files of one source: tokens, and text where its bytes are the tokens.
struct SourceFiles {
  std::vector<std::filesystem::path> training, validation;
};

/// The sources of a job; data.train and data.validation are the only one, without a name.
std::vector<RunConfig::DataSource> sources_of(const RunConfig&);

/// A signal came while text was tokenized. What is done is kept, and the same job goes on from there.
class StoppedBeforeStart : public comm::AgreedError {
 public:
  using AgreedError::AgreedError;
};

/// The files of each of sources_of(): patterns and manifests as rank 0 sees them; with a tokenizer, what is text is replaced by its tokens.
/// Rank 0 makes those, with all processors that it may use, and tells `events` of it (whose go_on() need not look for signals); the others
/// wait, however long it takes. Collective, the same on every rank. Throws AgreedError as ingest::cached_tokens() does and for patterns and
/// manifests without files, or StoppedBeforeStart.
std::vector<SourceFiles> find_data_files(const comm::World&, const RunConfig&, const ingest::CacheEvents& events);

}  // namespace flotilla::session
