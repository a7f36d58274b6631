#include "app/evaluate/evaluate.hpp"

#include <algorithm>

#include "app/common/forecast_basis.hpp"
#include "app/common/job_table.hpp"
#include "app/common/live_line.hpp"
#include "app/common/on_all_ranks.hpp"
#include "app/common/table.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/base/figures.hpp"
#include "flotilla/base/log.hpp"
#include "flotilla/comm/agree.hpp"
#include "flotilla/files/json.hpp"
#include "flotilla/inference/evaluate.hpp"

namespace flotilla::app {
namespace {

using inference::ContinuationScore;
using inference::TextScore;

constexpr int longest_unasked = 2048;  // tokens: some models name positions that no memory holds

options::Choice<data::Format> data_formats() {
  return {data::format_names(), [](const std::string& name) { return data::parse_format(name); },
          [](const data::Format& format) { return data::to_string(format); }};
}

std::string as_text(const std::vector<TextScore>& scores) {
  TextTable table{{{"file"}, {"tokens", Align::right}, {"loss", Align::right}, {"perplexity", Align::right}, {"bits/byte", Align::right}}};
  for (const TextScore& s : scores) {
    const auto bits = s.bits_per_byte();
    table.add({s.name, std::to_string(s.tokens), formatted("%.6f", s.loss()), formatted("%.6g", s.perplexity()),
               bits ? formatted("%.6f", *bits) : "-"});
  }
  return table.print(output_style());
}

std::string as_json(const TextScore& s) {
  files::JsonLine line;
  line.add("file", s.name).add("tokens", s.tokens).add("log_probability", s.log_probability).add("loss", s.loss());
  line.add("perplexity", s.perplexity());
  if (!s.bytes) return line.text();
  line.add("bytes", *s.bytes);
  if (const auto bits = s.bits_per_byte()) line.add("bits_per_byte", *bits).add("byte_perplexity", *s.byte_perplexity());
  return line.text();
}

std::string as_json(const std::vector<TextScore>& scores, const inference::Subject& subject, int length) {
  std::string list;
  for (const TextScore& s : scores) list += (list.empty() ? "" : ", ") + as_json(s);
  files::JsonLine line;
  line.add("model", subject.name).add("length", length).add_json("files", "[" + list + "]");
  return line.text() + "\n";
}

/// As lm-evaluation-harness calls them.
std::string as_lines(const std::vector<ContinuationScore>& scores) {
  std::string lines;
  for (const ContinuationScore& s : scores) {
    files::JsonLine line;
    line.add("loglikelihood", s.log_likelihood).add("is_greedy", s.is_greedy).add("tokens", s.tokens);
    lines += line.text() + "\n";
  }
  return lines;
}

/// What every rank reads by itself, alike.
struct Evaluation {
  EvaluateOptions options;
  inference::Subject subject;
  std::optional<inference::Codec> codec;
  std::vector<inference::Text> texts;
  std::vector<inference::Continuation> continuations;
  int length = 0;
};

int pass_length(const Evaluation& work) {
  const int positions = work.subject.model.positions, asked = work.options.length;
  FLOTILLA_REQUIRE(asked <= positions, ErrorKind::usage, "--evaluate.length is ", asked, "; the model has ", positions, " positions");
  if (!work.continuations.empty()) return inference::length_for(work.continuations, asked > 0 ? asked : positions);
  if (asked > 0) return asked;
  return work.subject.plan ? work.subject.plan->length : std::min(positions, longest_unasked);
}

void check_documents(const Evaluation& work) {
  const auto& o = work.options;
  FLOTILLA_REQUIRE(o.document_end < 0 || o.separate_documents, ErrorKind::usage,
                   "--evaluate.document-end has no effect unless --evaluate.documents is separate; say that too, or remove this");
  FLOTILLA_REQUIRE(o.document_end < work.subject.model.vocabulary, ErrorKind::usage, "--evaluate.document-end is ", o.document_end,
                   "; the model's vocabulary has ", work.subject.model.vocabulary);
  FLOTILLA_REQUIRE(!o.separate_documents || o.requests.empty(), ErrorKind::usage,
                   "--evaluate.documents is of files; a context and its continuation are one document");
  if (!o.separate_documents || o.document_end >= 0) return;
  for (const auto& text : work.texts)
    FLOTILLA_REQUIRE(
        text.has_documents(), ErrorKind::bad_input, text.name(),
        ": does not say where documents end; name the token at their end: --evaluate.document-end ID, or give a Megatron .bin and .idx");
}

std::int64_t sequences_of(const Evaluation& work) {
  return work.continuations.empty() ? inference::sequences_of(work.texts, work.length) : std::ssize(work.continuations);
}

Evaluation read_evaluation(std::span<const std::string> arguments) {
  Evaluation work;
  auto& o = work.options;
  auto table = evaluate_table(o);
  Job job;
  table.pass_over(job_table(job));  // a batch script may have set them for the training before
  const auto operands = table.read_command_line(arguments);
  table.read_environment(options::environment());
  log::set_level(o.output.log_level);
  if (!operands.empty()) o.data.insert(o.data.end(), operands.begin() + 1, operands.end());
  FLOTILLA_REQUIRE(!operands.empty() && o.data.empty() != o.requests.empty(), ErrorKind::usage,
                   "expected: flotilla evaluate MODEL --data FILE..., or flotilla evaluate MODEL --requests FILE");
  work.subject = inference::find_subject(operands.front());
  const int vocabulary = work.subject.model.vocabulary;
  work.codec.emplace(tokenizer_of(o.model, work.subject), vocabulary);
  for (const auto& file : o.data) work.texts.push_back(inference::Text::open(file, o.format, *work.codec));
  if (!o.requests.empty()) work.continuations = inference::read_continuations(o.requests, *work.codec, vocabulary);
  check_documents(work);
  work.length = pass_length(work);
  return work;
}

std::string result_of(Evaluation& work, inference::LoadedModel& model, const inference::TellProgress& progress) {
  if (!work.continuations.empty()) return as_lines(inference::evaluate(model, work.continuations, progress));
  const int end = work.options.document_end;
  const auto scores = inference::evaluate(model, work.texts, *work.codec, progress, end < 0 ? std::nullopt : std::optional{end});
  return work.options.output.json ? as_json(scores, work.subject, work.length) : as_text(scores);
}

int evaluate_together(const comm::World& world, std::span<const std::string> arguments) {
  auto work = comm::agree_on(
      world, "reading what to evaluate", [&] { return read_evaluation(arguments); }, ranks_start_deadline);
  const bool speaks = world.rank() == Rank{0};
  std::string result;
  {
    LiveLine line;
    if (speaks) line.show("evaluate: loading " + work.subject.name);
    inference::LoadedModel model{world,
                                 work.subject,
                                 {{work.length}, 0, sequences_of(work), work.options.separate_documents},
                                 load_options(world, work.options.model)};
    inference::TellProgress progress;
    if (speaks) progress = [&](std::int64_t done, std::int64_t all) { line.show(text("evaluate: ", done, " of ", all, " sequences")); };
    result = result_of(work, model, progress);
  }
  comm::agree_on(
      world, "writing the scores",
      [&] {
        if (speaks) write_output(work.options.output, result);
      },
      work.options.model.load.deadline);
  return static_cast<int>(ExitCode::done);
}

}  // namespace

options::Table evaluate_table(EvaluateOptions& o) {
  options::Table t;
  t.section("evaluate", "Evaluating");
  t.add("evaluate.data", &o.data, "text or token files whose loss and perplexity are wanted",
        {.value = "FILE", .unset = "none", .alias = "data"});
  t.add("evaluate.format", &o.format, "format of these files", data_formats());
  t.add("evaluate.requests", &o.requests, "JSON lines of contexts and continuations whose log-likelihoods are wanted",
        {.value = "FILE", .unset = "none", .alias = "requests"});
  add_documents(t, o.separate_documents, "evaluate");
  t.add("evaluate.document-end", &o.document_end,
        "number of the token behind which a document ends, in addition to what a Megatron .idx says",
        {.minimum = -1, .maximum = 1 << 24, .unset = "none", .example = "50256"});
  t.add("evaluate.length", &o.length, "tokens in a sequence",
        {.minimum = 0,
         .maximum = 1 << 24,
         .unset = "the run's; else the model's positions, at most 2048",
         .example = "512",
         .alias = "length"});
  add_model(t, o.model);
  add_output(t, o.output);
  return t;
}

BoundTable evaluate_options() {
  auto options = std::make_shared<EvaluateOptions>();
  auto table = evaluate_table(*options);
  return {options, std::move(table)};
}

int evaluate(std::span<const std::string> arguments) {
  return on_all_ranks([&](const comm::World& world) { return evaluate_together(world, arguments); });
}

}  // namespace flotilla::app
