#include "app/common/tokenizing_lines.hpp"

#include <algorithm>

#include "flotilla/base/clock.hpp"
#include "flotilla/base/log.hpp"
#include "flotilla/base/text.hpp"

namespace flotilla::app {
namespace {

constexpr Seconds between_shows{0.2}, between_log_lines{30};

}  // namespace

TokenizingLine::TokenizingLine() : start_{now()}, next_{start_} {}

std::string TokenizingLine::words(const ingest::TokenizeProgress& progress) const {
  const Bytes read{progress.read_bytes - std::max<std::int64_t>(0, first_bytes_)};
  const auto rate = static_cast<std::int64_t>(static_cast<double>(read.count) / std::max(1e-3, (now() - start_).value));
  return text(Bytes{progress.read_bytes}, " of ", Bytes{progress.input_bytes}, ", ", Bytes{rate}, "/s, ", progress.documents,
              " documents, ", progress.tokens, " tokens");
}

void TokenizingLine::show(const ingest::TokenizeProgress& progress) {
  if (now() < next_) return;
  next_ = now() + between_shows;
  if (first_bytes_ < 0) first_bytes_ = progress.read_bytes;
  line_.show("tokenize: " + words(progress));
}

ingest::CacheEvents TokenizingLines::events() {
  return {[this](const auto& input) { begin(input); },
          [](const auto& input) { log::info(input.string(), ": another job tokenizes it; waiting for that"); },
          [this](const auto& progress) {
            show(progress);
            return true;
          },
          [this](const auto& input, const auto& report) { end(input, report); }};
}

void TokenizingLines::begin(const std::filesystem::path& input) {
  log::info(input.string(), ": tokenizing, once, with ", tokenizer_, "; the other ranks wait");
  line_.emplace();
  since_ = now();
  next_line_ = since_ + between_log_lines;
}

void TokenizingLines::show(const ingest::TokenizeProgress& progress) {
  if (!line_) return;
  line_->show(progress);
  if (now() < next_line_) return;
  next_line_ = now() + between_log_lines;
  log::info("tokenized ", line_->words(progress));
}

void TokenizingLines::end(const std::filesystem::path& input, const ingest::TokenizeReport& report) {
  line_.reset();
  log::info(input.string(), ": ", report.tokens, " tokens in ", report.documents, " documents, in ", now() - since_);
  if (const auto& bad = report.bad_lines; bad.total() > 0)
    log::warning(input.string(), ": ", bad.in_words(), "; the first: ", bad.places.front());
}

}  // namespace flotilla::app
