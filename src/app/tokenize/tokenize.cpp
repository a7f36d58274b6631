#include "app/tokenize/tokenize.hpp"

#include "app/common/job_table.hpp"
#include "app/common/tokenizing_lines.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/base/figures.hpp"
#include "flotilla/base/foreign_text.hpp"
#include "flotilla/base/key_values.hpp"
#include "flotilla/base/log.hpp"
#include "flotilla/files/json.hpp"
#include "flotilla/signals/stop_signals.hpp"

namespace flotilla::app {
namespace {

options::Choice<ingest::TextFormat> text_formats() {
  using ingest::TextFormat;
  return {{"auto", "jsonl", "text"},
          [](const std::string& name) {
            return name == "auto" ? TextFormat::automatic : name == "jsonl" ? TextFormat::jsonl : TextFormat::text;
          },
          [](const TextFormat& format) {
            return format == TextFormat::automatic ? "auto" : format == TextFormat::jsonl ? "jsonl" : "text";
          }};
}

std::string bad_lines_json(const ingest::BadLineCounts& bad) {
  files::JsonLine reasons;
  for (const auto& [reason, count] : bad.by_reason) reasons.add(reason, count);
  return reasons.text();
}

std::string as_json(const ingest::TokenizeReport& report, const std::string& output) {
  files::JsonLine line;
  line.add("tokens_file", output + ".bin").add("index_file", output + ".idx").add("documents", report.documents);
  line.add("empty_documents", report.empty_documents).add("sequences", report.sequences).add("tokens", report.tokens);
  if (report.uncounted_tokens > 0) line.add("mask_file", output + ".mask").add("uncounted_tokens", report.uncounted_tokens);
  line.add("text_bytes", report.text_bytes).add("repaired_sequences", report.repaired_sequences);
  line.add_json("bad_lines", bad_lines_json(report.bad_lines)).add_json("bad_places", files::json_array(report.bad_lines.places));
  line.add("vocabulary", report.vocabulary).add("token_bytes", report.token_bytes);
  return line.text() + "\n";
}

std::string as_text(const ingest::TokenizeReport& report, const std::string& output) {
  std::vector<std::pair<std::string, std::string>> lines{
      {"files", output + ".bin, " + output + ".idx" + (report.uncounted_tokens > 0 ? ", " + output + ".mask" : "")},
      {"documents",
       text(report.documents, report.empty_documents > 0 ? text(", and ", report.empty_documents, " empty ones left out") : "")},
      {"tokens", text(report.tokens, " of ", report.token_bytes, " bytes, vocabulary ", report.vocabulary,
                      report.uncounted_tokens > 0 ? text("; ", report.uncounted_tokens, " do not count in the loss") : "")},
      {"text",
       text(report.text_bytes, " bytes, ",
            formatted("%.3g", static_cast<double>(report.text_bytes) / static_cast<double>(std::max<std::int64_t>(1, report.tokens))),
            " a token")}};
  if (report.repaired_sequences > 0)
    lines.emplace_back("repaired", text(report.repaired_sequences, " with bytes that are no UTF-8, now U+FFFD"));
  if (const auto& bad = report.bad_lines; bad.total() > 0) {
    lines.emplace_back("bad lines", bad.in_words());
    for (const auto& place : bad.places) lines.emplace_back("", printable(place));
  }
  return key_values(lines);
}

}  // namespace

options::Table tokenize_table(TokenizeCommandOptions& o) {
  auto& t = o.tokenize;
  options::Table table;
  table.section("tokenize", "Tokenizing");
  table.add("tokenize.tokenizer", &o.tokenizer, "tokenizer.json of a Hugging Face model, or a SentencePiece .model",
            {.value = "FILE", .unset = "none", .alias = "tokenizer"});
  table.add("tokenize.field", &t.field, "key of the text in a JSON line",
            {.value = "KEY", .unset = "text, messages, conversations, prompt or instruction", .alias = "field"});
  table.add("tokenize.chat-template", &o.chat_template, "tokenizer_config.json or .jinja file with the template of messages",
            {.value = "FILE", .unset = "the one beside the tokenizer", .alias = "chat-template"});
  table.add("tokenize.input", &t.format, "jsonl: a document on each line; text: a document in each file; auto: by the name", text_formats(),
            {.alias = "input"});
  table.add("tokenize.append-eod", &t.append_eod, "end every document with a token", {.alias = "append-eod"});
  table.add("tokenize.eod", &t.eod, "that token", {.value = "TOKEN", .unset = "the tokenizer's own", .alias = "eod"});
  table.add("tokenize.threads", &t.threads, "threads",
            {.minimum = 0, .maximum = 4096, .unset = "as many as processors", .example = "8", .alias = "threads"});
  table.add("tokenize.bad-lines", &t.bad_lines,
            "JSON lines without a document: end with an error, leave them out, or repair those with lone surrogates, NaN, null texts or "
            "bytes that are no UTF-8",
            bad_lines_choice(), {.alias = "bad-lines"});
  add_output(table, o.output);
  return table;
}

BoundTable tokenize_options() {
  auto options = std::make_shared<TokenizeCommandOptions>();
  auto table = tokenize_table(*options);
  return {options, std::move(table)};
}

int tokenize(std::span<const std::string> arguments) {
  TokenizeCommandOptions o;
  auto table = tokenize_table(o);
  Job job;
  table.pass_over(job_table(job));  // a batch script may have set them for the training that follows
  const auto operands = table.read_command_line(arguments);
  table.read_environment(options::environment());
  FLOTILLA_REQUIRE(!operands.empty() && !o.tokenizer.empty() && !o.output.file.empty(), ErrorKind::usage,
                   "expected: flotilla tokenize --tokenizer FILE IN... -o OUT");
  log::set_level(o.output.log_level);
  o.tokenize.tokenizer = o.tokenizer;
  o.tokenize.chat_template = o.chat_template;
  o.tokenize.inputs.assign(operands.begin(), operands.end());
  o.tokenize.output = o.output.file;
  const signals::StopSignals stop;
  ingest::TokenizeReport report;
  {
    TokenizingLine line;
    report = ingest::tokenize(o.tokenize, [&](const ingest::TokenizeProgress& progress) {
      line.show(progress);
      return !stop.received();
    });
  }
  if (!report.finished) {
    log::info("stopped by ", signals::signal_name(stop.received()->number), " after ", report.documents,
              " documents, all saved; the same command goes on from there");
    return static_cast<int>(ExitCode::requeue);
  }
  auto shown = o.output;
  shown.file.clear();
  write_output(shown, o.output.json ? as_json(report, o.output.file) : as_text(report, o.output.file));
  return static_cast<int>(ExitCode::done);
}

}  // namespace flotilla::app
