#include "app/generate/generate.hpp"

#include <algorithm>

#include "app/common/job_table.hpp"
#include "app/common/live_line.hpp"
#include "app/common/on_all_ranks.hpp"
#include "app/common/terminal.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/base/foreign_text.hpp"
#include "flotilla/base/log.hpp"
#include "flotilla/chat/chat_format.hpp"
#include "flotilla/comm/agree.hpp"
#include "flotilla/files/json.hpp"
#include "flotilla/inference/codec.hpp"
#include "flotilla/unicode/utf8.hpp"

namespace flotilla::app {
namespace {

/// What every rank reads by itself, alike.
struct Generation {
  GenerateCommandOptions options;
  inference::Subject subject;
  std::optional<inference::Codec> codec;
  std::string text;
  std::vector<std::int32_t> prompt;
  inference::GenerateOptions generate;

  int room() const { return static_cast<int>(prompt.size()) + generate.tokens; }
};

std::vector<std::int32_t> prompt_of(const Generation& work, inference::Codec& codec) {
  const auto& given = work.options.prompt_tokens;
  for (const int token : given)
    FLOTILLA_REQUIRE(token >= 0 && token < work.subject.model.vocabulary, ErrorKind::usage, "--generate.prompt-tokens: token ", token,
                     "; expected 0 to ", work.subject.model.vocabulary - 1);
  if (!given.empty()) return {given.begin(), given.end()};
  auto prompt = codec.encode(work.text);
  const auto begin = codec.end_of_document();
  if (prompt.empty() && begin) prompt.push_back(*begin);  // as between the documents that it was trained on
  FLOTILLA_REQUIRE(!prompt.empty(), ErrorKind::usage, "the text to go on with is empty; give at least one character");
  return prompt;
}

/// A conversation: that of a file, or one message of a user.
files::Json conversation_of(const GenerateCommandOptions& o) {
  if (o.messages.empty()) {
    const auto message = files::JsonLine{}.add("role", "user").add("content", o.chat).text();
    return files::Json::parse("{\"messages\": [" + message + "]}", "--generate.chat");
  }
  const auto document = files::Json::read(o.messages);
  return document.is_array() ? files::Json::parse("{\"messages\": " + document.one_line() + "}", o.messages) : document;
}

/// As the model was taught to read it, by the template that was named, or the one beside its tokenizer.
std::string chat_prompt(const GenerateCommandOptions& o, const std::filesystem::path& tokenizer) {
  const auto format =
      o.chat_template.empty() ? chat::ChatFormat::beside(tokenizer) : std::optional{chat::ChatFormat::read(o.chat_template)};
  FLOTILLA_REQUIRE(format, ErrorKind::bad_input, tokenizer.empty() ? std::string{"the model has no tokenizer"} : tokenizer.string(),
                   tokenizer.empty() ? "" : ": has no chat template beside it",
                   "; name tokenizer_config.json or a .jinja file: --chat-template FILE");
  return format->prompt(conversation_of(o));
}

/// What is gone on with is said in one way.
bool is_text_given(const GenerateCommandOptions& o, std::size_t operands) {
  const auto others = (o.prompt_tokens.empty() ? 0 : 1) + (o.chat.empty() ? 0 : 1) + (o.messages.empty() ? 0 : 1);
  FLOTILLA_REQUIRE((operands == 2 && others == 0) || (operands == 1 && others == 1), ErrorKind::usage,
                   "expected: flotilla generate MODEL TEXT, or flotilla generate MODEL with one of --chat TEXT, --messages FILE and "
                   "--prompt-tokens N,...");
  FLOTILLA_REQUIRE(o.chat_template.empty() || !o.chat.empty() || !o.messages.empty(), ErrorKind::usage,
                   "--generate.chat-template has no effect without --chat or --messages; say one of them, or remove this");
  return operands == 2;
}

inference::GenerateOptions generate_options_of(const Generation& work, const inference::Codec& codec) {
  const auto& o = work.options;
  inference::GenerateOptions generate{o.sampling, o.tokens, {o.stop_tokens.begin(), o.stop_tokens.end()}};
  generate.sampling.seed = static_cast<std::uint64_t>(o.seed);
  const auto end = codec.end_of_document();
  if (end && !o.past_end) generate.stops.push_back(*end);
  const auto prompt = static_cast<int>(work.prompt.size()), positions = work.subject.model.positions;
  FLOTILLA_REQUIRE(prompt < positions, ErrorKind::usage, "the text has ", prompt, " tokens; the model has ", positions,
                   " positions, and one at least must be left");
  generate.tokens = std::min(o.tokens, positions - prompt);
  return generate;
}

Generation read_generation(std::span<const std::string> arguments) {
  Generation work;
  auto& o = work.options;
  auto table = generate_table(o);
  Job job;
  table.pass_over(job_table(job));  // a batch script may have set them for the training before
  const auto operands = table.read_command_line(arguments);
  table.read_environment(options::environment());
  log::set_level(o.output.log_level);
  const bool has_text = is_text_given(o, operands.size());
  work.subject = inference::find_subject(operands.front());
  const auto tokenizer = tokenizer_of(o.model, work.subject);
  if (has_text) work.text = operands.back();
  if (!o.chat.empty() || !o.messages.empty()) work.text = chat_prompt(o, tokenizer);
  work.codec.emplace(tokenizer, work.subject.model.vocabulary);
  work.prompt = prompt_of(work, *work.codec);
  work.generate = generate_options_of(work, *work.codec);
  if (work.generate.tokens < o.tokens)
    log::info("at most ", work.generate.tokens, " new tokens: the model has ", work.subject.model.positions, " positions");
  return work;
}

/// Writes a text as its tokens come: whole characters, and on a terminal none that control it.
class Stream {
 public:
  Stream(const inference::Codec& codec, bool shows) : codec_{codec}, shows_{shows}, terminal_{output_is_terminal()} {}

  void begin(const std::string& prompt) { write(prompt); }
  void take(std::int32_t token) {
    held_ += codec_.bytes_of(token);
    text_ += codec_.bytes_of(token);
    constexpr std::size_t longest_character = 4;
    auto whole = unicode::valid_prefix(held_);
    if (held_.size() - whole >= longest_character) whole = held_.size();  // no character will come of it
    write(held_.substr(0, whole));
    held_.erase(0, whole);
  }
  void end() {
    write(held_);
    write("\n");
  }
  const std::string& text() const { return text_; }

 private:
  void write(const std::string& bytes) const {
    if (!shows_ || bytes.empty()) return;
    write_bytes(terminal_ ? printable_lines(bytes) : bytes);
  }

  const inference::Codec& codec_;
  const bool shows_, terminal_;
  std::string held_, text_;
};

std::vector<std::int64_t> numbers(const std::vector<std::int32_t>& tokens) { return {tokens.begin(), tokens.end()}; }

std::string as_json(const Generation& work, const std::vector<std::int32_t>& tokens, const std::string& text) {
  files::JsonLine line;
  line.add("model", work.subject.name).add("text", text).add_json("tokens", files::json_array(numbers(tokens)));
  line.add_json("prompt_tokens", files::json_array(numbers(work.prompt)));
  return line.text() + "\n";
}

int generate_together(const comm::World& world, std::span<const std::string> arguments) {
  auto work = comm::agree_on(
      world, "reading what to go on with", [&] { return read_generation(arguments); }, ranks_start_deadline);
  const auto& output = work.options.output;
  const bool speaks = world.rank() == Rank{0};
  const auto passes = inference::growing_text(work.room());
  std::optional<LiveLine> line;
  if (speaks) line.emplace().show("generate: loading " + work.subject.name);
  inference::LoadedModel model{world, work.subject, passes, load_options(world, work.options.model)};
  line.reset();
  Stream stream{*work.codec, speaks && !output.json && output.file.empty()};
  if (!work.options.quiet) stream.begin(work.text);
  const auto tokens = inference::generate(model, work.prompt, work.generate, [&](std::int32_t token) {
    stream.take(token);
    return true;
  });
  stream.end();
  comm::agree_on(
      world, "writing the text",
      [&] {
        if (!speaks || (!output.json && output.file.empty())) return;
        write_output(output, output.json ? as_json(work, tokens, stream.text())
                                         : (work.options.quiet ? std::string{} : work.text) + stream.text() + "\n");
      },
      work.options.model.load.deadline);
  return static_cast<int>(ExitCode::done);
}

}  // namespace

options::Table generate_table(GenerateCommandOptions& o) {
  options::Table t;
  t.section("generate", "Generating");
  t.add("generate.tokens", &o.tokens, "new tokens, at most", {.minimum = 1, .maximum = 1 << 24, .alias = "tokens"});
  t.add("generate.temperature", &o.sampling.temperature, "logits are divided by it before a token is drawn",
        {.minimum = 0, .unset = "the likeliest token", .example = "0.8", .alias = "temperature"});
  t.add("generate.top-k", &o.sampling.top_k, "draw from so many of the likeliest tokens",
        {.minimum = 0, .maximum = 1 << 24, .unset = "all", .example = "40", .alias = "top-k"});
  t.add("generate.top-p", &o.sampling.top_p, "draw from the fewest likeliest tokens that have this probability together",
        {.maximum = 1, .above = 0, .alias = "top-p"});
  t.add("generate.seed", &o.seed, "of what is drawn", {.minimum = 0, .alias = "seed"});
  t.add("generate.prompt-tokens", &o.prompt_tokens, "tokens to go on with, in place of a text",
        {.minimum = 0, .value = "N", .unset = "the text's", .example = "464,995", .alias = "prompt-tokens"});
  t.add("generate.chat", &o.chat, "what a user says, in place of a text; the model's chat template writes it",
        {.value = "TEXT", .unset = "none", .alias = "chat"});
  t.add("generate.messages", &o.messages, "JSON file with messages, in place of a text; the assistant goes on",
        {.value = "FILE", .unset = "none", .alias = "messages"});
  t.add("generate.chat-template", &o.chat_template, "tokenizer_config.json or .jinja file with the template of messages",
        {.value = "FILE", .unset = "the one beside the tokenizer", .alias = "chat-template"});
  t.add("generate.quiet", &o.quiet, "write what is new alone, not what it goes on from", {.alias = "quiet"});
  t.add("generate.stop-tokens", &o.stop_tokens, "tokens that end the text, beside the tokenizer's own",
        {.minimum = 0, .value = "N", .unset = "none", .example = "50256", .alias = "stop-tokens"});
  t.add("generate.past-end", &o.past_end, "go on behind the token that ends documents");
  add_model(t, o.model);
  add_output(t, o.output);
  return t;
}

BoundTable generate_options() {
  auto options = std::make_shared<GenerateCommandOptions>();
  auto table = generate_table(*options);
  return {options, std::move(table)};
}

int generate(std::span<const std::string> arguments) {
  return on_all_ranks([&](const comm::World& world) { return generate_together(world, arguments); });
}

}  // namespace flotilla::app
