#include "app/common/job.hpp"
#include "app/train/changed_options.hpp"
#include "flotilla/session/run_schedule.hpp"
#include "flotilla/session/same_run.hpp"
#include "support/refusal.hpp"
#include "support/temporary_folder.hpp"

namespace flotilla::app {
namespace {

using tests::error_of;
using tests::TemporaryFolder;

using Words = std::vector<std::string>;
const Words no_environment;

Job read(Words arguments, Need need = Need::data) { return read_job(arguments, no_environment, need); }

/// A job that is right, with some arguments more.
Error refused(Words arguments) {
  for (const char* word : {"--data.train", "a.txt"}) arguments.emplace_back(word);
  return error_of([&] { read(arguments); });
}

TEST(Job, DefaultsNeedOnlyData) {
  const auto job = read({"--data.train", "a.txt"});
  EXPECT_EQ(job.architecture.name, "gpt2-mini");
  EXPECT_EQ(job.training.length, job.architecture.positions);
  EXPECT_EQ(job.data.train, Words{"a.txt"});
  EXPECT_EQ(job.job_file, "");
  const auto error = error_of([] { read({}); });
  EXPECT_EQ(error.kind(), ErrorKind::usage);
  EXPECT_NE(std::string{error.what()}.find("--data.train FILE"), std::string::npos) << error.what();
  EXPECT_NO_THROW(read({}, Need::model));
}

/// Text is not trained on byte by byte where the model has a tokenizer, which the weights' folder or the run's copy of it holds.
TEST(Job, TheTokenizerIsTheOneOfTheWeights) {
  const TemporaryFolder folder;
  for (const char* of : {"model", "run/pretrained", "old/pretrained"}) {
    std::filesystem::create_directories(folder / of);
    folder.write(std::string{of} + "/config.json", R"({"model_type": "gpt2", "n_layer": 2, "n_embd": 48, "n_head": 4, "vocab_size": 256})");
    folder.write(std::string{of} + "/tokenizer.json", "{}");
  }
  const auto path = [&](const char* name) { return (folder / name).string(); };
  const auto tokenizer = [&](Words more) {
    more.insert(more.end(), {"--data.train", "a.jsonl", "--data.field", "text"});
    return read(std::move(more)).data.tokenizer;
  };
  EXPECT_EQ(tokenizer({"--model.weights", path("model"), "--run.directory", path("new")}), path("model/tokenizer.json"));
  EXPECT_EQ(tokenizer({"--model.weights", path("gone"), "--model.name", "gpt2-tiny", "--run.directory", path("run")}),
            path("run/pretrained/tokenizer.json"));
  EXPECT_EQ(tokenizer({"--run.from", path("old/step-3"), "--run.directory", path("new")}), path("old/pretrained/tokenizer.json"));
  EXPECT_EQ(tokenizer({"--run.directory", path("run")}), path("run/pretrained/tokenizer.json"));
  EXPECT_EQ(tokenizer({"--model.weights", path("model"), "--data.tokenizer", "mine.json"}), "mine.json");
  EXPECT_EQ(read({"--model.weights", path("model"), "--data.train", "a.jsonl", "--data.format", "text"}).data.tokenizer, "");
  EXPECT_NE(std::string{error_of([&] {
                          tokenizer({"--run.directory", path("new")});
                        }).what()}
                .find("has no effect without data.tokenizer"),
            std::string::npos);
}

TEST(Job, ReadsAFileAndLetsTheCommandLineOverride) {
  const TemporaryFolder folder;
  const auto file = folder.write("job.toml", R"(
[model]
name = "gpt2-tiny"
dropout = 0.25
[data]
train = ["a.txt"]
format = "text"
[training]
steps = 7
global-batch = 6
length = 16
precision = "bf16"
[plan]
schedule = "gpipe"
recompute = "full"
[checkpoint]
every-time = "10min"
)");
  const auto job = read({file, "--training.steps", "9", "--plan.schedule", "auto"});
  EXPECT_EQ(job.training.steps, 9);
  EXPECT_EQ(job.training.global_batch, 6);
  EXPECT_EQ(job.training.length, 16);
  EXPECT_EQ(job.training.precision, Precision::bf16);
  EXPECT_EQ(job.data.format, data::Format::text);
  EXPECT_FALSE(job.plan.schedule.has_value());
  EXPECT_EQ(job.plan.recompute, plan::Recompute::full);
  EXPECT_EQ(job.checkpoint.every_time, Seconds{600});
  EXPECT_EQ(job.architecture.dropout, 0.25);
  EXPECT_EQ(job.job_file, file);
  EXPECT_NE(job.configuration.find("steps = 9                               # command line"), std::string::npos) << job.configuration;
  EXPECT_NE(job.configuration.find(file + ":10:16"), std::string::npos) << job.configuration;
}

checkpoint::Loaded saved_by(const Job& job) {
  checkpoint::Loaded saved{"run/step-37", {}};
  saved.manifest.step = 37;
  saved.manifest.provenance = session::provenance_of(session::run_schedule(job, std::nullopt));
  saved.manifest.provenance.emplace_back("configuration", job.configuration);
  return saved;
}

TEST(ChangedOptions, OfTheUpdatesAreNamedOneByOne) {
  const Words job{"--data.train", "a.txt", "--training.steps", "60", "--training.learning-rate", "1e-3"};
  const auto saved = saved_by(read(job));
  const auto changed = [&](Words more) {
    more.insert(more.begin(), job.begin(), job.end() - 2);
    return changed_options(read(more), saved);
  };
  EXPECT_EQ(changed({"--training.learning-rate", "5e-4"}).accepted, "learning-rate 0.001 -> 0.0005");
  EXPECT_EQ(changed({"--training.learning-rate", "0.001"}).accepted, "") << "another spelling";
  const Words same{"--training.learning-rate", "1e-3"};
  const auto with = [&](Words more) {
    more.insert(more.begin(), same.begin(), same.end());
    return changed(more);
  };
  EXPECT_EQ(with({"--training.weight-decay", "0.2", "--training.warmup-steps", "10"}).accepted,
            "warmup-steps 0 -> 10, weight-decay 0.1 -> 0.2");
  EXPECT_EQ(with({"--training.precision", "bf16", "--model.dropout", "0.1", "--comm.reduction", "nccl"}).accepted,
            "comm.reduction ordered -> nccl, model.dropout unset -> 0.1, precision auto -> bf16");
  EXPECT_EQ(with({"--training.learning-rate-schedule", "wsd"}).accepted, "cooldown-steps 0 -> 6, learning-rate-schedule cosine -> wsd");
  EXPECT_EQ(with({"--training.learning-rate-schedule", "cosine"}).accepted, "") << "as it was";
  for (const char* option : {"--run.log-every", "--checkpoint.keep", "--run.threads", "--training.evaluate-every"})
    EXPECT_EQ(with({option, "7"}).accepted, "") << option;
}

TEST(ChangedOptions, ThatMakeAnotherRunAreNamedApart) {
  const auto saved = saved_by(read({"--data.train", "a.txt"}));
  const auto changed = changed_options(read({"--data.train", "b.txt", "--training.seed", "2", "--training.clip", "2"}), saved);
  EXPECT_EQ(changed.fixed, "data.train a.txt -> b.txt, seed 1 -> 2");
  EXPECT_EQ(changed.accepted, "clip 1 -> 2");
}

TEST(ChangedOptions, OfPhasesAreNamedByTheirNumber) {
  const TemporaryFolder folder;
  const std::string head = "[data]\ntrain = [\"a.txt\"]\n[[phase]]\nname = \"one\"\nsteps = 20\n[[phase]]\nname = \"two\"\nsteps = ";
  const auto saved = saved_by(read({folder.write("job.toml", head + "30\n")}));
  const auto changed = changed_options(read({folder.write("other.toml", head + "40\nglobal-batch = 8\n")}), saved);
  EXPECT_EQ(changed.accepted, "phase[2].global-batch 0 -> 8, phase[2].steps 30 -> 40, steps 50 -> 60");
}

TEST(ChangedOptions, OfAnotherVersionAreNotGuessed) {
  const auto job = read({"--data.train", "a.txt"});
  auto saved = saved_by(job);
  saved.manifest.provenance.back().second += "[later]\nkey = 1\n";
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(changed_options(read({"--data.train", "a.txt", "--training.clip", "2"}), saved).accepted, "");
  tests::expect_contains(::testing::internal::GetCapturedStderr(), "what changed since step 37 is not known: run/step-37/manifest.json");
}

TEST(Job, TokensSayHowManySteps) {
  const Words small{"--data.train", "a.txt", "--training.global-batch", "4", "--training.length", "16"};
  const auto job = [&](Words more) {
    more.insert(more.begin(), small.begin(), small.end());
    return read(more);
  };
  EXPECT_EQ(job({"--training.tokens", "1M"}).training.steps, 15'625);
  EXPECT_EQ(job({"--tokens", "65"}).training.steps, 2) << "rounded up";
  EXPECT_NE(std::string{refused({"--tokens", "1M", "--training.steps", "7"}).what()}.find("training.steps says it, too"),
            std::string::npos);
  EXPECT_NE(std::string{refused({"--tokens", "100000T", "--training.length", "16"}).what()}.find("iterations"), std::string::npos);
  EXPECT_NE(std::string{refused({"--tokens", "many"}).what()}.find("write for example 300B"), std::string::npos);
}

TEST(Job, TheConfigurationIsAJobFileThatReadsTheSame) {
  const TemporaryFolder folder;
  const auto first = read(
      {"--data.train", "a.txt", "--training.steps", "5", "--model.dropout", "0.1", "--plan.cuts", "0,2,6", "--model.name", "gpt2-mini"});
  const auto second = read({folder.write("again.toml", first.configuration)});
  EXPECT_EQ(shared_configuration(second), shared_configuration(first));
  EXPECT_EQ(second.architecture, first.architecture);
}

TEST(Job, AModelIsNamedOnce) {
  const TemporaryFolder folder;
  const auto both = folder.write("both.toml", "[model]\nname = \"gpt2-tiny\"\nconfig = \"x/config.json\"\n[data]\ntrain = [\"a.txt\"]\n");
  const std::string message = error_of([&] { read({both}); }).what();
  EXPECT_NE(message.find("both.toml:3:10: model.config"), std::string::npos) << message;
  const auto config = folder.write("config.toml", "[model]\nconfig = \"x/config.json\"\n[data]\ntrain = [\"a.txt\"]\n");
  for (const char* name : {"gpt2-tiny", "gpt2-mini"}) EXPECT_EQ(read({config, "--model.name", name}).architecture.name, name);
}

TEST(Job, ReadsAHuggingFaceConfig) {
  const TemporaryFolder folder;
  const auto file = folder.write("small.json", R"({"model_type": "gpt2", "n_layer": 2, "n_embd": 32, "n_head": 4, "n_positions": 64,
    "vocab_size": 300, "activation_function": "gelu_new", "layer_norm_epsilon": 1e-5})");
  const auto job = read({"--model.config", file, "--data.train", "a.txt", "--model.attention-dropout", "0.5"});
  EXPECT_EQ(job.architecture.blocks, 2);
  EXPECT_EQ(job.architecture.attention_dropout, 0.5);
  EXPECT_EQ(job.training.length, 64);
  const std::string message = refused({"--model.config", (folder.path() / "none.json").string()}).what();
  EXPECT_NE(message.find("none.json"), std::string::npos) << message;
}

/// Who trains is told what to do instead; a plan for the same job is another matter.
TEST(Job, ExpertsAreForecastOnly) {
  const TemporaryFolder folder;
  const auto file = folder.write("experts.json", R"({"model_type": "mixtral"})");
  for (const auto& [option, value] : {std::pair<std::string, std::string>{"--model.config", file}, {"--model.name", "qwen3-30b-a3b"}}) {
    const auto error = refused({option, value});
    EXPECT_EQ(error.kind(), ErrorKind::bad_input);
    const std::string message = error.what();
    EXPECT_NE(message.find(value + ": the model has a mixture of experts"), std::string::npos) << message;
    EXPECT_NE(message.find("use 'flotilla plan' and 'flotilla simulate'"), std::string::npos) << message;
  }
}

struct Case {
  Words arguments;
  std::string message;  ///< part of it
};

TEST(Job, SaysHowAPlanRuns) {
  const auto open = read({"--data.train", "a.txt"}).plan;
  EXPECT_EQ(open.chunks, 0);
  EXPECT_FALSE(open.sequence_parallel || open.shard_optimizer);
  const auto fixed = read({"--data.train", "a.txt", "--plan.chunks", "3", "--plan.schedule", "interleaved",
                           "--plan.sequence-parallel=false", "--plan.shard-optimizer"})
                         .plan;
  EXPECT_EQ(fixed.chunks, 3);
  EXPECT_EQ(fixed.schedule, plan::ScheduleKind::interleaved);
  EXPECT_EQ(fixed.sequence_parallel, false);
  EXPECT_EQ(fixed.shard_optimizer, true);
}

TEST(Job, RulesThatSpanOptions) {
  const std::vector<Case> cases{
      {{"--training.length", "100000"}, "--training.length 100000: longer than the"},
      {{"--training.minimum-learning-rate", "1"},
       "--training.minimum-learning-rate 1: the minimum learning rate 1 is above the peak 0.0003"},
      {{"--training.steps", "10", "--training.warmup-steps", "10"}, "does not end within the 10 of the run; write at most 9"},
      {{"--training.learning-rate-schedule", "inverse-sqrt"}, "the warm-up is this schedule's unit of time; write training.warmup-steps"},
      {{"--training.learning-rate-schedule", "constant", "--training.decay-steps", "9"},
       "constant has no end; remove training.decay-steps"},
      {{"--training.learning-rate-schedule", "linear", "--training.cooldown-steps", "9"}, "linear has no cool-down; write wsd or wsd-sqrt"},
      {{"--training.learning-rate-schedule", "wsd", "--training.steps", "20", "--training.warmup-steps", "5", "--training.cooldown-steps",
        "16"},
       "--training.cooldown-steps 16: the schedule has 15 iterations after the warm-up; write at most that"},
      {{"--plan.data", "17"}, "--plan.data 17: more replicas than the 16 sequences of a step"},
      {{"--plan.tensor", "1000"}, "attention heads; write at most that"},
      {{"--model.name", "llama-tiny", "--plan.tensor", "4"}, "llama-tiny has 3 key and value heads, each on one rank with its queries"},
      {{"--plan.pipeline", "1000"}, "layers; write at most that"},
      {{"--plan.microbatch", "9", "--plan.data", "2"}, "a replica handles 8 sequences of a step"},
      {{"--plan.cuts", "0,3,2,6"}, "expected rising layer numbers from 0 to 6"},
      {{"--plan.cuts", "1,6"}, "expected rising layer numbers from 0 to 6"},
      {{"--plan.cuts", "0,7"}, "expected rising layer numbers from 0 to 6"},
      {{"--plan.cuts", "0,3,6", "--plan.pipeline", "3"}, "makes 2 stages, but plan.pipeline = 3"},
      {{"--plan.chunks", "2", "--plan.schedule", "gpipe"}, "a device holds 2 stages under the interleaved schedule alone"},
      {{"--plan.chunks", "4", "--plan.pipeline", "2"}, "gpt2-mini has 6 layers for 2 devices in a row; write at most 3"},
      {{"--plan.cuts", "0,2,3,6", "--plan.chunks", "2"}, "makes 3 stages, which are not 2 for each device"},
      {{"--plan.cuts", "0,1,2,3,6", "--plan.schedule", "interleaved", "--plan.pipeline", "4"},
       "makes 4 stages, but plan.pipeline = 4 with 2 on each device"},
      {{"--plan", "p.json", "--plan.data", "2"}, "--plan.data 2: the plan of p.json says this already"},
      {{"--plan", "p.json", "--replan"}, "--replan would search for another plan"},
      {{"--data.validation", "a.txt"}, "'a.txt' is training data too"},
      {{"--data.validation", "b.txt", "--data.validation-fraction", "0.1"}, "has no effect with data.validation"},
      {{"--data.validation-fraction", "0", "--training.evaluate-every", "5"}, "there is no held-out data"},
      {{"--watch.interval", "5s"}, "write a watch.deadline of at least 15s"},
      {{"--model.name", "gpt2-tinny"},
       "--model.name gpt2-tinny: 'gpt2-tinny' is not a built-in model; the nearest known name is 'gpt2-tiny'"},
      {{"--max-time", "3h"}, "did you mean '--run.time-limit'?"},
      {{"--walltime", "3h"}, "did you mean '--run.time-limit'?"},
      {{"--train-samples", "3"}, "did you mean '--training.steps'?"},
      {{"a.toml", "b.toml"}, "expected one job file, got 2 operands ('a.toml', 'b.toml')"},
  };
  for (const auto& c : cases) {
    const auto error = refused(c.arguments);
    EXPECT_NE(std::string{error.what()}.find(c.message), std::string::npos) << error.what() << "\nexpected: " << c.message;
    EXPECT_EQ(error.kind(), ErrorKind::usage) << error.what();
  }
}

TEST(Job, RulesNameThePlaceInTheFile) {
  const TemporaryFolder folder;
  const auto file = folder.write("job.toml", "[training]\nlength = 100000\n[data]\ntrain = [\"a.txt\"]\n");
  const auto error = error_of([&] { read({file}); });
  EXPECT_EQ(error.kind(), ErrorKind::bad_input);
  EXPECT_EQ(std::string{error.what()}.rfind(file + ":2:10: training.length = 100000: longer than", 0), 0u) << error.what();
  const Words environment{"FLOTILLA_TRAINING_LENGTH=100000"};
  const auto other = error_of([&] { read_job(Words{"--data.train", "a.txt"}, environment); });
  EXPECT_EQ(std::string{other.what()}.rfind("FLOTILLA_TRAINING_LENGTH: training.length = 100000: longer than", 0), 0u) << other.what();
}

TEST(Job, APlanOnTheCommandLineOverridesTheSearchOfTheFile) {
  const TemporaryFolder folder;
  const auto file = folder.write("job.toml", "[plan]\ndata = 2\n[data]\ntrain = [\"a.txt\"]\n");
  EXPECT_EQ(read({file, "--plan", "p.json"}).plan.file, "p.json");
}

TEST(Job, DefaultsWrittenDownAskForNothing) {
  const TemporaryFolder folder;
  const auto printed = read({"--data.train", "a.txt", "--data.validation", "b.txt", "--plan", "p.json"}).configuration;
  EXPECT_EQ(read({folder.write("printed.toml", printed)}).plan.file, "p.json");
}

TEST(Job, ATrialMayEndWithinTheWarmUpOfItsFile) {
  const TemporaryFolder folder;
  const auto file = folder.write("job.toml", "[training]\nwarmup-steps = 20\n[data]\ntrain = [\"a.txt\"]\n");
  EXPECT_EQ(read({file, "--training.steps", "4"}).training.steps, 4);
}

TEST(Job, MissingFileIsNoInput) {
  const auto error = error_of([] { read({"/nonexistent/job.toml"}); });
  EXPECT_EQ(error.kind(), ErrorKind::no_input);
  EXPECT_NE(std::string{error.what()}.find("/nonexistent/job.toml: cannot be opened"), std::string::npos) << error.what();
}

TEST(TrainingIdentity, ChangesWithWhatASampleDependsOnAndNothingElse) {
  const Words base{"--data.train", "a.txt", "--training.length", "16"};
  const auto identity = [&](Words more) {
    more.insert(more.end(), base.begin(), base.end());
    return session::training_identity(read(more), 0);
  };
  const auto same = identity({});
  for (const Words& more : {Words{"--training.seed", "2"}, {"--training.global-batch", "8"}, {"--model.name", "opt-tiny"}})
    EXPECT_NE(identity(more), same) << more[0];
  for (const Words& more : {Words{"--training.steps", "5"},
                            {"--training.learning-rate", "1e-2"},
                            {"--plan.data", "2"},
                            {"--run.directory", "x"},
                            {"--model.dropout", "0.1"},
                            {"--training.precision", "bf16"},
                            {"--device.memory", "1GiB"}})
    EXPECT_EQ(identity(more), same) << more[0];
}

TEST(SharedConfiguration, LeavesOutWhatIsARanksOwn) {
  const auto of = [](const Words& more) {
    Words all{"--data.train", "a.txt"};
    all.insert(all.end(), more.begin(), more.end());
    return shared_configuration(read(all));
  };
  EXPECT_EQ(of({"--run.threads", "3", "--device.memory", "1GiB", "--log-level", "debug"}), of({}));
  EXPECT_NE(of({"--training.learning-rate", "1e-2"}), of({}));
  EXPECT_NE(of({"--plan.data", "2"}), of({}));
}

constexpr const char* mixture =
    "[[data.source]]\nname = \"web\"\nfiles = [\"web-*.jsonl\"]\nweight = 3\n[[data.source]]\nname = \"code\"\nmanifest = \"code.txt\"\n";

TEST(Job, MixesSources) {
  const TemporaryFolder folder;
  const auto file = folder.write("job.toml", mixture);
  const auto job = read({file});
  ASSERT_EQ(job.data.sources.size(), 2u);
  EXPECT_EQ(job.data.sources[0].weight, 3);
  EXPECT_EQ(job.data.sources[1].manifest, "code.txt");
  EXPECT_NE(shared_configuration(job).find("data.source[1].weight = 3\n"), std::string::npos) << "ranks must agree on it";
  EXPECT_NE(job.configuration.find("[[data.source]]"), std::string::npos);
  EXPECT_TRUE(read({file, "--data.train", "a.txt"}).data.sources.empty()) << "the command line counts";
}

TEST(Job, SourcesAreNamedAndHaveFiles) {
  const TemporaryFolder folder;
  const auto message = [&](const std::string& toml) {
    const auto file = folder.write("job.toml", toml);
    return std::string{error_of([&] { read({file}); }).what()};
  };
  EXPECT_NE(message("[[data.source]]\nfiles = [\"a\"]\n").find("[[data.source]] number 1: has no name"), std::string::npos);
  EXPECT_NE(message("[[data.source]]\nname = \"a\"\n").find("has no files"), std::string::npos);
  EXPECT_NE(message(std::string{mixture} + mixture).find("number 3: 'web' is the name of another one"), std::string::npos);
  EXPECT_NE(message(std::string{"[data]\ntrain = [\"a\"]\n"} + mixture).find("the job has [[data.source]] tables"), std::string::npos);
}

constexpr const char* phased =
    "[training]\nlength = 16\nglobal-batch = 4\n[[phase]]\nname = \"short\"\nsteps = 60\nsources = [\"web\"]\n"
    "[[phase]]\nname = \"long\"\nsteps = 40\nlength = 32\n";

TEST(Job, HasPhases) {
  const TemporaryFolder folder;
  const auto file = folder.write("job.toml", std::string{phased} + mixture);
  const auto job = read({file});
  ASSERT_EQ(job.phases.size(), 2u);
  EXPECT_EQ(job.training.steps, 100) << "the sum";
  EXPECT_EQ(job.phases[1].length, 32);
  EXPECT_NE(shared_configuration(job).find("phase[2].length = 32\n"), std::string::npos) << "ranks must agree on it";
  EXPECT_EQ(read({file, "--training.steps", "70"}).training.steps, 70) << "a trial may end earlier";
  const auto printed = folder.write("printed.toml", job.configuration);
  EXPECT_EQ(read({printed}).phases, job.phases);
  EXPECT_EQ(read({printed}).training.steps, 100);
}

TEST(Job, PhasesThatCannotBeAreRefused) {
  const TemporaryFolder folder;
  const auto message = [&](const std::string& toml, Words more = {}) {
    more.insert(more.begin(), folder.write("job.toml", toml + mixture));
    return std::string{error_of([&] { read(more); }).what()};
  };
  const auto phase = [](const std::string& keys) { return "[[phase]]\nname = \"a\"\nsteps = 20\n" + keys; };
  const std::pair<std::string, const char*> cases[] = {
      {"[[phase]]\nsteps = 5\n", "job.toml: [[phase]] number 1: has no name"},
      {"[[phase]]\nname = \"a\"\n", "[[phase]] number 1 ('a'): has no steps; write for example steps = 1000"},
      {phase("") + phase(""), "number 2 ('a'): another one has this name, too"},
      {phase("length = 100000\n"), "length 100000 is longer than the"},
      {phase("global-batch = 2\n") + "[plan]\ndata = 3\n", "plan.data is 3, and a step has 2 sequences"},
      {phase("global-batch = 2\n") + "[plan]\nmicrobatch = 4\n", "plan.microbatch is 4, and a replica handles 2 sequences of a step"},
      {phase("sources = [\"books\"]\n"), "('a'): sources: 'books' is the name of no [[data.source]]"},
      {phase("warmup-steps = 5\n"), "write learning-rate-schedule, too"},
      {phase("learning-rate-schedule = \"linear\"\nwarmup-steps = 20\n"), "do not fit into its 20 iterations"},
      {phase("learning-rate-schedule = \"linear\"\ncooldown-steps = 5\n"), "linear has no cool-down"},
      {phase("learning-rate-schedule = \"inverse-sqrt\"\n"), "write warmup-steps, too"},
      {phase("learning-rate-schedule = \"linear\"\nlearning-rate = 1e-4\nminimum-learning-rate = 1e-3\n"), "is above the peak 0.0001"},
      {"[training]\nsteps = 30\n" + phase(""), "the phases have 20 iterations in all"},
      {"[training]\nsteps = 10\n" + phase(""), "the phases have 20 iterations in all"},
      {"phase = 5\n", "expected tables, got 5; write [[phase]]"}};
  for (const auto& [toml, part] : cases) EXPECT_NE(message(toml).find(part), std::string::npos) << toml << message(toml);
  EXPECT_NE(message(phase(""), {"--training.steps", "21"}).find("the phases have 20 iterations in all"), std::string::npos);
  EXPECT_NE(message(phased, {"--plan", "p.json"}).find("a plan is of one length and one global batch, and phase 'long' has others"),
            std::string::npos);
}

TEST(Job, HasAdapters) {
  const auto job = read({"--data.train", "a.txt", "--model.name", "llama-tiny", "--lora.rank", "4"});
  const auto& lora = job.architecture.lora;
  EXPECT_EQ(lora, (model::Lora{4, 4, {model::linears.begin(), model::linears.end()}, 3, 2}));
  EXPECT_EQ(read({"--data.train", "a.txt", "--model.name", "gpt2-tiny", "--lora.rank", "2", "--lora.alpha", "8", "--lora.targets",
                  "feed_forward.up", "--lora.targets", "attention.qkv"})
                .architecture.lora,
            (model::Lora{2, 8, {model::Linear::qkv, model::Linear::up}, 1, 1}));
  EXPECT_EQ(read({"--data.train", "a.txt", "--lora.rank", "0"}).architecture.lora, model::Lora{});
}

TEST(Job, AdaptersThatCannotBeAreRefused) {
  const auto expect = [](Words words, const std::string& what) { tests::expect_contains(refused(std::move(words)).what(), what); };
  expect({"--lora.alpha", "8"}, "--lora.alpha 8: there are no adapters without lora.rank; write it, for example 8");
  expect({"--lora.targets", "attention.out"}, "there are no adapters without lora.rank");
  expect({"--lora.rank", "200"}, "--lora.rank 200: more than the 128 columns of gpt2-mini; write at most that");
  expect({"--lora.rank", "2", "--lora.targets", "q_proj"}, "'q_proj' is no linear layer of a block; expected attention.qkv, attention.out");
  expect({"--lora.rank", "2", "--lora.targets", "attention.out", "--lora.targets", "attention.out"}, "'attention.out' stands twice");
}

TEST(Job, StartsFromACheckpoint) {
  EXPECT_EQ(read({"--data.train", "a.txt", "--from", "run/step-5/"}).run.from, "run/step-5");
  EXPECT_NE(std::string{refused({"--run.from-optimizer"}).what()}.find("has no effect without run.from"), std::string::npos);
  EXPECT_NE(session::training_identity(read({"--data.train", "a.txt", "--from", "run/step-5"}), 0),
            session::training_identity(read({"--data.train", "a.txt"}), 0));
}

TEST(Job, TokenizersHaveTheirOptions) {
  EXPECT_EQ(read({"--data.train", "a.jsonl", "--data.tokenizer", "t.json", "--data.field", "body"}).data.field, "body");
  EXPECT_NE(std::string{refused({"--data.field", "body"}).what()}.find("without data.tokenizer"), std::string::npos);
  EXPECT_NE(std::string{refused({"--data.tokenizer", "t.json", "--data.format", "text"}).what()}.find("data.format"), std::string::npos);
}

}  // namespace
}  // namespace flotilla::app
