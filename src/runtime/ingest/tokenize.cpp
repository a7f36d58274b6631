#include "flotilla/ingest/tokenize.hpp"

#include <algorithm>
#include <memory>
#include <optional>
#include <thread>

#include "encoding.hpp"
#include "flotilla/base/clock.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/base/foreign_text.hpp"
#include "flotilla/base/hash.hpp"
#include "flotilla/data/megatron_writer.hpp"
#include "flotilla/files/look.hpp"
#include "flotilla/files/text_file.hpp"
#include "flotilla/signals/stop_signals.hpp"
#include "flotilla/tokenizer/tokenizer.hpp"
#include "ordered_workers.hpp"
#include "partial_output.hpp"
#include "text_reader.hpp"

namespace flotilla::ingest {
namespace {

namespace fs = std::filesystem;

constexpr Seconds commit_every{5};

std::optional<std::int32_t> eod_of(const TokenizeOptions& options, const tokenizer::Tokenizer& tokenizer) {
  if (!options.append_eod) return std::nullopt;
  const auto eod = options.eod.empty() ? tokenizer.end_of_document() : tokenizer.id_of(options.eod);
  FLOTILLA_REQUIRE(eod, ErrorKind::bad_input, options.tokenizer.string(), ": ",
                   options.eod.empty()
                       ? std::string{"says of no token that it ends a document; name one: --eod TOKEN (flotilla train: --data.eod TOKEN)"}
                       : text("has no token ", in_quotes(options.eod)));
  return eod;
}

}  // namespace

Chat chat_of(const fs::path& tokenizer, const fs::path& named) {
  const bool reads_special_tokens = tokenizer.extension() != ".model";
  const auto why =
      text(tokenizer.string(),
           ": a SentencePiece model reads no special tokens in a text, and chat templates write them; take the model's tokenizer.json");
  FLOTILLA_REQUIRE(reads_special_tokens || named.empty(), ErrorKind::bad_input, why);
  if (!reads_special_tokens) return {std::nullopt, why};
  if (!named.empty()) return {chat::ChatFormat::read(named), {}};
  try {
    return {chat::ChatFormat::beside(tokenizer),
            "messages need a chat template: name tokenizer_config.json or a .jinja file, --chat-template FILE (flotilla train: "
            "--data.chat-template)"};
  } catch (const Error& error) {
    return {std::nullopt, error.what()};
  }
}

namespace {

/// What the output depends on: the tokenizer's bytes, the options, and the inputs by content or by name, size and time of change.
OutputIdentity identity_of(const TokenizeOptions& options, const Encoding& how) {
  auto hash = fnv1a(files::read_text(options.tokenizer));
  const auto add = [&](const std::string& part) { hash = fnv1a(text(part.size(), ":", part), hash); };
  add(how.field);
  if (how.chat.format) add(how.chat.identity());
  add(text(static_cast<int>(options.format), " ", how.eod.value_or(-1)));
  OutputIdentity identity{hex(hash), {}, options.bad_lines};
  if (!options.content.empty()) identity.inputs.push_back(options.content);
  for (const auto& input : options.content.empty() ? options.inputs : std::vector<fs::path>{}) {
    std::error_code unknown;  // what is wrong with a file is said when it is opened
    identity.inputs.push_back(text(fs::absolute(input, unknown).lexically_normal().string(), " ", fs::file_size(input, unknown), " ",
                                   fs::last_write_time(input, unknown).time_since_epoch().count()));
  }
  return identity;
}

/// Before hours of work, and before anything is written.
void require_present(const std::vector<fs::path>& inputs) {
  for (const auto& input : inputs) files::require_there(input, "a file with texts");
}

/// Where text comes from, if only the first of the inputs is told of: "a.jsonl and 2 more, rendered by chat.jinja".
std::string sources_in_words(const TokenizeOptions& options) {
  auto words = options.inputs.front().string();
  if (options.inputs.size() > 1) words += text(" and ", options.inputs.size() - 1, " more");
  if (!options.chat_template.empty()) words += text(", rendered by ", options.chat_template.string());
  return words;
}

std::int64_t total_size(const std::vector<fs::path>& inputs) {
  std::int64_t sum = 0;
  for (const auto& input : inputs) {
    std::error_code unknown;
    const auto size = fs::file_size(input, unknown);
    if (!unknown) sum += static_cast<std::int64_t>(size);
  }
  return sum;
}

TokenizeReport report_of(const Counts& counts, const tokenizer::Tokenizer& tokenizer, int token_bytes) {
  return {.documents = counts.documents,
          .empty_documents = counts.empty_documents,
          .sequences = counts.sequences,
          .tokens = counts.tokens,
          .text_bytes = counts.text_bytes,
          .uncounted_tokens = counts.uncounted,
          .repaired_sequences = counts.repaired_sequences,
          .bad_lines = counts.bad_lines,
          .vocabulary = tokenizer.vocabulary(),
          .token_bytes = token_bytes};
}

using GoOn = std::function<bool(const TokenizeProgress&)>;

/// Everything that is not committed yet; false where it was stopped. Changes `counts`.
bool encode_inputs(const TokenizeOptions& options, const Encoding& how, const tokenizer::Tokenizer& tokenizer, PartialOutput& output,
                   Counts& counts, const GoOn& go_on) {
  TextReader reader{options.inputs, options.format, output.committed().position};
  const auto input_bytes = total_size(options.inputs);
  const int threads = options.threads > 0 ? options.threads : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  OrderedWorkers workers{threads, tokenizer, [&] { return reader.next(); },
                         [&](const Batch& batch, tokenizer::Encoder& encoder) { return encode(batch, how, encoder); }};
  for (auto next_commit = now() + commit_every;;) {
    std::optional<EncodedBatch> batch;
    try {
      batch = workers.next();
    } catch (const signals::Stopped&) {
      return false;
    }
    if (!batch) break;
    output.append(*batch);
    counts.add(batch->counts);
    if (!go_on({batch->read_bytes, input_bytes, counts.documents, counts.tokens})) return false;
    if (now() < next_commit) continue;
    output.commit();
    next_commit = now() + commit_every;
  }
  return true;
}

/// Nobody trains on nothing.
void require_content(const TokenizeOptions& options, const Counts& counts) {
  FLOTILLA_REQUIRE(counts.sequences > 0, ErrorKind::bad_input, sources_in_words(options), ": no text",
                   counts.bad_lines.by_reason.empty()
                       ? std::string{}
                       : text("; ", counts.bad_lines.in_words(), ", the first: ", counts.bad_lines.places.front()),
                   "; nothing is written");
  FLOTILLA_REQUIRE(counts.uncounted < counts.tokens, ErrorKind::bad_input, sources_in_words(options), ": none of ", counts.tokens,
                   " tokens counts in the loss: expected completions, or messages with an answer of the assistant; nothing is written");
}

/// In a handler. A bad line is mended, or left out, and the same command goes on; so it does after what only failed. Nothing can go on from
/// what has no output of its own.
[[noreturn]] void leave(PartialOutput& output, const Error& error) {
  const bool in_line = error.kind() == ErrorKind::bad_input && output.begun();
  if (in_line) output.commit();
  if ((error.kind() != ErrorKind::bad_input || in_line) && output.resumable())
    throw Error{error.kind(), text(error.what(), "; what is done is kept in ", output.folder().string(),
                                   ", and the same command goes on from there", in_line ? ", also once the line is mended" : "")};
  output.discard();
  throw;
}

}  // namespace

TokenizeReport tokenize(const TokenizeOptions& options, const GoOn& go_on) {
  std::unique_ptr<const tokenizer::Tokenizer> tokenizer;
  try {
    tokenizer = tokenizer::open(options.tokenizer);
  } catch (const signals::Stopped&) {
    return {};  // nothing is begun
  }
  const Encoding how{options.field, eod_of(options, *tokenizer), chat_of(options.tokenizer, options.chat_template),
                     data::megatron_token_bytes(tokenizer->vocabulary()), options.bad_lines};
  require_present(options.inputs);
  PartialOutput output{options.output, identity_of(options, how), how.token_bytes};
  auto counts = output.committed().counts;
  bool finished = output.complete();
  try {
    finished = finished || encode_inputs(options, how, *tokenizer, output, counts, go_on);
  } catch (const Error& error) {
    leave(output, error);
  }
  try {
    if (finished) require_content(options, counts);
  } catch (const Error&) {
    output.discard();
    throw;
  }
  finished ? output.publish() : output.commit();
  auto report = report_of(counts, *tokenizer, how.token_bytes);
  report.finished = finished;
  return report;
}

}  // namespace flotilla::ingest
