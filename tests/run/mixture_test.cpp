// Several sources of data, text among them: on any number of ranks, through kills, and when there are more of it.
#include "run/training.hpp"

namespace flotilla::tests {
namespace {

constexpr int steps = 24;

/// Words as in text_file(), as JSON Lines.
std::string lines(unsigned seed, int count) {
  std::string all;
  for (int i = 0; i < count; ++i) all += "{\"text\": \"" + random_text(seed + static_cast<unsigned>(i), 700) + "\"}\n";
  return all;
}

/// A folder with three sources, and the job that mixes them.
class Mixture {
 public:
  explicit Mixture(const std::string& name) : folder_{folder() / name} {
    fs::create_directory(folder_);
    write(folder_ / "tokenizer.json", byte_tokenizer());
    write(folder_ / "web-1.jsonl", lines(1, 20));
    write(folder_ / "web-2.jsonl", lines(100, 20));
    write(folder_ / "code.txt", random_text(5, 9000));
    write(folder_ / "books.jsonl", lines(200, 9));
    write(folder_ / "books.txt", "# the shards\n\nbooks.jsonl\n");
    write(folder_ / "job.toml",
          text("[data]\ntokenizer = \"", (folder_ / "tokenizer.json").string(), "\"\n", source("web", "web-*.jsonl", 0.6),
               source("code", "code.txt", 0.3), "[[data.source]]\nname = \"books\"\nweight = 0.1\nepochs = 1\nmanifest = \"",
               (folder_ / "books.txt").string(), "\"\n"));
  }

  fs::path path(const std::string& name) const { return folder_ / name; }
  Words train(const fs::path& run, int ranks, const Words& more = {}) const {
    auto words = tests::train(run, ranks,
                              {path("job.toml").string(), text("--training.steps=", steps), "--training.warmup-steps=2",
                               "--training.evaluate-every=12", "--training.evaluate-sequences=4", "--checkpoint.every=6"});
    std::erase_if(words, [](const std::string& word) { return word.starts_with("--data."); });
    return words + more;
  }

 private:
  std::string source(const std::string& name, const std::string& files, double weight) const {
    return text("[[data.source]]\nname = \"", name, "\"\nfiles = [\"", (folder_ / files).string(), "\"]\nweight = ", weight, "\n");
  }
  /// A token for each printable character, and one that ends documents.
  static std::string byte_tokenizer() {
    std::string vocabulary;
    for (char c = 'a'; c <= 'z'; ++c) vocabulary += text("\"", c, "\": ", c - 'a', ", ");
    return text(
        R"({"added_tokens": [{"id": 28, "content": "</s>", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false,
      "special": true}], "model": {"type": "BPE", "unk_token": "?", "vocab": {)",
        vocabulary, R"("?": 26, " ": 27}, "merges": []}})");
  }

  fs::path folder_;
};

const Mixture& mixture() {
  static const Mixture one{"mixture"};
  return one;
}

/// The run that nothing disturbs, on one rank.
const fs::path& unbroken() {
  static const fs::path run = [] {
    const auto ended = tests::run(mixture().train(folder() / "alone", 1));
    EXPECT_EQ(ended.code, 0) << ended.err;
    for (const auto* file : {"web-1.jsonl", "web-2.jsonl", "code.txt", "books.jsonl"})
      EXPECT_NE(ended.err.find(text(file, ": tokenizing, once")), std::string::npos) << ended.err;
    return folder() / "alone";
  }();
  return run;
}

void expect_same(const fs::path& run) {
  const auto expected = losses(unbroken());
  const auto found = losses(run);
  ASSERT_EQ(found.size(), expected.size());
  for (const auto& [step, loss] : found) EXPECT_NEAR(loss, expected.at(step), 1e-4 * loss) << "step " << step;
  EXPECT_EQ(digests(run), digests(unbroken())) << "the tokens of each step, in their order";
  const auto theirs = journal::read_metrics(unbroken()), ours = journal::read_metrics(run);
  for (std::size_t i = 0; i < ours.steps.size(); ++i) {
    const auto& step = ours.steps[i];
    const auto& same = theirs.steps.at(static_cast<std::size_t>(step.step - 1));
    ASSERT_EQ(step.sources.size(), same.sources.size()) << "step " << step.step;
    for (std::size_t s = 0; s < step.sources.size(); ++s) {
      EXPECT_EQ(step.sources[s].source, same.sources[s].source);
      EXPECT_EQ(step.sources[s].tokens, same.sources[s].tokens);
      EXPECT_NEAR(step.sources[s].loss, same.sources[s].loss, 1e-3 * same.sources[s].loss) << "step " << step.step;
    }
  }
  EXPECT_EQ(ours.data.back().sources, theirs.data.back().sources);
  ASSERT_EQ(ours.evaluations.back().sources.size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(ours.evaluations.back().sources[i].source, theirs.evaluations.back().sources[i].source);
    EXPECT_NEAR(ours.evaluations.back().sources[i].loss, theirs.evaluations.back().sources[i].loss, 1e-3);
  }
}

TEST(MixtureRun, DrawsByWeight) {
  const auto metrics = journal::read_metrics(unbroken());
  ASSERT_EQ(metrics.data.back().step, steps);
  const auto& sources = metrics.data.back().sources;
  ASSERT_EQ(sources.size(), 3u);
  EXPECT_EQ(sources[0].source, "web");
  EXPECT_NEAR(static_cast<double>(sources[0].drawn), 0.6 * steps * global_batch, 1);
  EXPECT_NEAR(static_cast<double>(sources[1].drawn), 0.3 * steps * global_batch, 1);
  EXPECT_NEAR(static_cast<double>(sources[2].drawn), 0.1 * steps * global_batch, 1);
  const auto& evaluation = metrics.evaluations.back();
  const auto& by = evaluation.sources;
  EXPECT_NEAR(evaluation.loss, 0.6 * by.at(0).loss + 0.3 * by.at(1).loss + 0.1 * by.at(2).loss, 1e-9);
}

/// Together they are the step's; what no sequence came from is left out.
TEST(MixtureRun, TellsTheLossOfEachSource) {
  const auto metrics = journal::read_metrics(unbroken());
  std::map<std::string, std::int64_t> tokens;
  for (const auto& step : metrics.steps) {
    double sum = 0;
    std::int64_t all = 0;
    for (const auto& one : step.sources) {
      EXPECT_EQ(one.tokens % length, 0);
      sum += one.loss * static_cast<double>(one.tokens);
      all += one.tokens;
      tokens[one.source] += one.tokens;
    }
    EXPECT_EQ(all, global_batch * length) << "step " << step.step;
    EXPECT_NEAR(sum / static_cast<double>(all), step.loss, 1e-12 * step.loss);
  }
  for (const auto& source : metrics.data.back().sources) EXPECT_EQ(tokens[source.source], source.drawn * length) << source.source;
  const auto report = tests::run({FLOTILLA_BINARY, "report", unbroken().string()});
  EXPECT_NE(report.out.find("training    web "), std::string::npos) << report.out;
}

TEST(MixtureRun, IsTheSameOnAnyRanksThroughAKill) {
  for (const int ranks : {2, 3}) {
    const auto run = folder() / text("killed-on-", ranks);
    unbroken();
    Process process{mixture().train(run, ranks), folder()};
    EXPECT_TRUE(process.until([&] { return steps_logged(run) >= 8 || !process.running(); })) << process.err();
    for (const auto& [rank, pid] : process.ranks()) ::kill(pid, SIGKILL);
    process.wait();
    const auto ended = tests::run(mixture().train(run, ranks == 3 ? 5 : 3));
    ASSERT_EQ(ended.code, 0) << ended.err;
    EXPECT_EQ(ended.err.find("tokenizing"), std::string::npos) << "it is done: " << ended.err;
    expect_same(run);
  }
}

TEST(MixtureRun, GoesOnWithNewFilesAndWithNothingElse) {
  const Mixture growing{"growing"};
  const auto run = folder() / "grown";
  ASSERT_EQ(tests::run(with(growing.train(run, 1, {"--training.decay-steps=24"}), "--training.steps=", "12")).code, 0);
  write(growing.path("web-0.jsonl"), lines(300, 20));
  const auto grown = tests::run(growing.train(run, 1));
  EXPECT_EQ(grown.code, 0) << grown.err;
  EXPECT_NE(grown.err.find("source 'web' has 1 new file since step 12; what was seen stays seen"), std::string::npos) << grown.err;
  const auto saved = checkpoint::latest(run);
  ASSERT_TRUE(saved);
  auto record = saved->manifest.data;
  std::erase(record, ' ');
  EXPECT_NE(record.find("\"growth\":[{\"step\":12,\"files\":3}]"), std::string::npos) << record;
  fs::remove(growing.path("web-2.jsonl"));
  const auto lost = tests::run(with(growing.train(run, 1), "--training.steps=", "30"));
  EXPECT_EQ(lost.code, 65);
  EXPECT_NE(the_error(lost).find("source 'web' has lost or changed a file"), std::string::npos) << lost.err;
}

/// Sums whose prompts are longer than a sequence; `answer` counts.
std::string sums(const std::string& answer) {
  std::string all;
  for (int i = 0; i < 64; ++i)
    all += text(R"({"prompt": ")", random_text(static_cast<unsigned>(i), 90), R"(", "completion": ")", answer, "\"}\n");
  return all;
}

TEST(WhatCounts, AStepOfPromptsAloneHasNoLossAndIsCountedApart) {
  const Mixture data{"prompts"};
  write(data.path("sums.jsonl"), sums("abc"));
  const auto there = folder() / "prompts-run";
  const Words source{"--data.train=" + data.path("sums.jsonl").string(), "--data.tokenizer=" + data.path("tokenizer.json").string(),
                     "--data.validation-fraction=0"};
  auto command = train(there, 2, {"--training.steps=12"}) + source;
  std::erase_if(command,
                [](const std::string& word) { return word == "--data.format=text" || word == "--data.train=" + text_file().string(); });
  command = with_all(command, {"--training.global-batch=2", "--training.length=16"});
  const auto ended = tests::run(command);
  EXPECT_EQ(ended.code, 0) << ended.err;
  const auto metrics = journal::read_metrics(there);
  const auto empty = std::ranges::count_if(metrics.steps, [](const auto& step) { return step.empty(); });
  EXPECT_GT(empty, 0);
  EXPECT_LT(empty, 12);
  EXPECT_NE(ended.out.find("loss       -"), std::string::npos) << ended.out;
  const std::string warning = "no token of the batch counts in the loss";
  const auto first = ended.err.find(warning);
  EXPECT_NE(first, std::string::npos) << ended.err;
  EXPECT_EQ(ended.err.find(warning, first + 1), std::string::npos) << "once: " << ended.err;
  EXPECT_NE(ended.out.find(text("no loss     ", empty, " of 12 steps")), std::string::npos) << ended.out;
  const auto saved = checkpoint::latest(there);
  ASSERT_TRUE(saved);
  EXPECT_EQ(saved->manifest.optimizer_steps, 12 - empty);
  const auto report = tests::run({FLOTILLA_BINARY, "report", there.string(), "--format=json"});
  EXPECT_NE(report.out.find(text("\"empty_steps\": ", empty)), std::string::npos) << report.out;
}

/// A run keeps the tokenizer that it was taught with and its chat template, and is talked to by them.
TEST(Chat, ARunIsTalkedToAsItWasTaught) {
  const Mixture data{"talk"};
  write(data.path("talk.jsonl"), R"({"conversations": [{"from": "human", "value": "abc"}, {"from": "gpt", "value": "cab"}]})"
                                 "\n");
  write(
      data.path("chat.jinja"),
      "{% for m in messages %}{% if m.role == 'user' %}{{ m.content }}?{% else %}{% generation %}{{ m.content }}{% endgeneration %}{% endif "
      "%}{% endfor %}");
  const auto run = folder() / "talk-run";
  auto command = with_all(train(run, 1, {"--training.steps=2"}), {"--training.global-batch=1", "--training.length=4"});
  std::erase_if(command, [](const std::string& word) { return word.starts_with("--data."); });
  const auto trained = tests::run(command + Words{"--data.train=" + data.path("talk.jsonl").string(), "--data.validation-fraction=0",
                                                  "--data.tokenizer=" + data.path("tokenizer.json").string(),
                                                  "--data.chat-template=" + data.path("chat.jinja").string()});
  ASSERT_EQ(trained.code, 0) << trained.err;
  const Words generate{FLOTILLA_BINARY, "generate", run.string(), "--tokens=3"};
  const auto said = tests::run(generate + Words{"--chat", "ba", "--format=json"});
  EXPECT_NE(said.out.find("\"prompt_tokens\": [1, 0, 26]"), std::string::npos) << said.out << said.err;
  write(data.path("before.json"),
        R"([{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}, {"role": "user", "content": "c"}])");
  const auto going_on = tests::run(generate + Words{"--messages", data.path("before.json").string(), "--format=json"});
  EXPECT_NE(going_on.out.find("\"prompt_tokens\": [0, 26, 1, 2, 26]"), std::string::npos) << going_on.out << going_on.err;
  EXPECT_TRUE(tests::run(generate + Words{"ab"}).out.starts_with("ab"));
  const auto loud = tests::run(generate + Words{"--chat", "ba"}).out, quiet = tests::run(generate + Words{"--chat", "ba", "--quiet"}).out;
  EXPECT_EQ(loud, "ba?" + quiet);
  EXPECT_EQ(tests::run(generate + Words{"ab", "--chat", "ba"}).code, 64);
}

TEST(WhatCounts, DataInWhichNothingDoesAreRefused) {
  const Mixture data{"unanswered"};
  write(data.path("questions.jsonl"), R"({"messages": [{"role": "user", "content": "a question"}]})"
                                      "\n");
  write(data.path("chat.jinja"), "{% for m in messages %}{{ m.content }}{% endfor %}");
  write(data.path("sums.jsonl"), sums("abc"));
  const auto tokenizer = data.path("tokenizer.json").string(), out = data.path("tokens").string();
  ASSERT_EQ(tests::run({FLOTILLA_BINARY, "tokenize", "--tokenizer", tokenizer, data.path("sums.jsonl").string(), "-o", out}).code, 0);
  auto mask = files::read_text(out + ".mask");
  mask.replace(24, std::string::npos, mask.size() - 24, '\0');  // behind its head: nothing counts
  write(out + ".mask", mask);
  const auto refused = [&](const Words& with_data) {
    auto command = train(folder() / "unanswered-run", 2, {"--training.steps=2", "--data.validation-fraction=0"}) + with_data;
    std::erase_if(command,
                  [](const std::string& word) { return word == "--data.format=text" || word == "--data.train=" + text_file().string(); });
    const auto ended = tests::run(command);
    EXPECT_EQ(ended.code, 65) << ended.err;
    EXPECT_NE(the_error(ended).find(" counts in the loss: expected completions, or messages with an answer"), std::string::npos)
        << ended.err;
  };
  refused({"--data.train=" + data.path("questions.jsonl").string(), "--data.tokenizer=" + tokenizer,
           "--data.chat-template=" + data.path("chat.jinja").string()});
  refused({"--data.train=" + out + ".bin"});
  const auto validation =
      train(folder() / "unanswered-run", 2,
            {"--training.steps=2", "--training.evaluate-every=1", "--training.evaluate-sequences=1", "--data.validation=" + out + ".bin"});
  auto command = validation;
  std::erase(command, "--data.format=text");
  const auto ended = tests::run(with(command, "--data.train=", text_file().string()));
  EXPECT_EQ(ended.code, 65) << ended.err;
  EXPECT_NE(the_error(ended).find("no token of the 1 sequences of validation data of 32 tokens counts in the loss"), std::string::npos)
      << ended.err;
}

TEST(MixtureRun, StoppedWhileItTokenizesGoesOnFromThere) {
  const Mixture large{"large"};
  write(large.path("web-1.jsonl"), lines(1, 60000));
  const auto run = folder() / "stopped-early";
  Process process{large.train(run, 2), folder()};
  EXPECT_TRUE(process.until([&] { return fs::exists(large.path("flotilla-tokens")) || !process.running(); })) << process.err();
  for (const auto& [rank, pid] : process.ranks()) ::kill(pid, SIGTERM);
  const auto stopped = process.wait();
  EXPECT_EQ(stopped.code, 75) << stopped.err;
  const auto ended = tests::run(with(large.train(run, 2), "--training.steps=", "3"));
  EXPECT_EQ(ended.code, 0) << ended.err;
}

}  // namespace
}  // namespace flotilla::tests
