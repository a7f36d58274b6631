#include "fuzz/inputs.hpp"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <sstream>

#include "app/command_table.hpp"
#include "flotilla/base/foreign_text.hpp"
#include "flotilla/options/table.hpp"
#include "fuzz/hostile.hpp"

namespace flotilla::fuzz {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

/// One of the commands that read the inputs; JSON half of the time.
Invocation one_of(const fs::path& folder, Dice& dice, const Words& inputs, const std::vector<Words>& commands) {
  Invocation invocation{dice.one_of(commands), {}, folder, inputs};
  const auto& command = invocation.arguments.front();
  if (command != "tokens" && command != "weights" && command != "train" && dice.chance(0.5))
    invocation.arguments.push_back("--format=json");
  return invocation;
}

/// How messages name a folder, and what is below it.
Words names_of(const std::string& folder) { return {folder + "/", folder + ":", in_quotes(folder)}; }

Invocation job(const fs::path& folder, Dice& dice) {
  damage_file(folder / "job.toml", dice);
  return one_of(folder, dice, {"job.toml"}, {{"plan", "job.toml"}, {"submit", "job.toml", "--dry-run", "--submit.answers=site"}});
}

Invocation plan(const fs::path& folder, Dice& dice) {
  damage_file(folder / "plan.json", dice);
  return one_of(folder, dice, {"plan.json"},
                {{"simulate", "plan.json"},
                 {"simulate", "plan.json", "--timeline=timeline.json"},
                 {"inspect", "plan.json"},
                 {"export", "sailor-plan", "plan.json"}});
}

Invocation profile(const fs::path& folder, Dice& dice) {
  damage_file(folder / "profile.json", dice);
  return one_of(folder, dice, {"profile.json"},
                {{"inspect", "profile.json"},
                 {"simulate", "plan.json", "--profiles=profile.json"},
                 {"plan", "--model.name=gpt2-tiny", "--training.global-batch=4", "--profiles=profile.json"}});
}

Invocation library(const fs::path& folder, Dice& dice) {
  damage_file(folder / "library.json", dice);
  return one_of(folder, dice, {"library.json"},
                {{"inspect", "library.json"},
                 {"plan", "--training.global-batch=4", "--profiles=library.json", "--pool=A100-40=4/4"},
                 {"import", "sailor-plan", "published.json", "--profiles=library.json", "--training.global-batch=8"}});
}

Invocation config(const fs::path& folder, Dice& dice) {
  damage_file(folder / "config.json", dice);
  return one_of(folder, dice, {"config.json"},
                {{"plan", "--model.config=config.json", "--training.global-batch=4", "--training.length=16", "--pool=A100-40=2/2"}});
}

Invocation manifest(const fs::path& folder, Dice& dice) {
  damage_file(folder / "run/step-4/manifest.json", dice);
  return one_of(folder, dice, {"manifest.json"},
                {{"inspect", "run"}, {"inspect", "--verify", "run/step-4"}, {"inspect", "run/step-4/manifest.json"}, {"report", "run"}});
}

Invocation state(const fs::path& folder, Dice& dice) {
  damage_file(folder / "run/step-4/state.h5", dice);
  return one_of(folder, dice, {"state.h5", "step-4: "},
                {{"inspect", "run/step-4"}, {"inspect", "--verify", "run/step-4"}, {"inspect", "run/step-4/state.h5"}});
}

Invocation tokens(const fs::path& folder, Dice& dice) {
  damage_entry_below(folder / "tokens", dice);
  static const Words files{"tokens/intact.bin", "tokens/llmc",  "tokens/llmc-auto", "tokens/megatron",
                           "tokens/npy-1",      "tokens/npy-2", "tokens/text"};
  return one_of(folder, dice, names_of("tokens"), {{"tokens", dice.one_of(files)}});
}

/// A tokenizer.json, or the texts that it is for.
Invocation tokenizer(const fs::path& folder, Dice& dice) {
  static const Words files{"tokenizer.json", "tokenizer.json", "lines.jsonl", "words.txt"};
  damage_file(folder / dice.one_of(files), dice);
  return one_of(folder, dice, files,
                {{"tokenize", "--tokenizer=tokenizer.json", "lines.jsonl", "words.txt", "-o", "made"},
                 {"tokenize", "--tokenizer=tokenizer.json", "--append-eod", "--threads=3", "lines.jsonl", "-o", "made"}});
}

Invocation run_directory(const fs::path& folder, Dice& dice) {
  damage_entry_below(folder / "run", dice);
  return one_of(folder, dice, names_of("run"),
                {{"report", "run"},
                 {"inspect", "run"},
                 {"inspect", "run", "--verify"},
                 {"control", "run", "--plan=plan.json", "--wait=0s"},
                 {"simulate", "plan.json", "--measured=run"},
                 {"simulate", "plan.json", "--profiles=run/profile.json"}});
}

Invocation site(const fs::path& folder, Dice& dice) {
  damage_entry_below(folder / "site", dice);
  return one_of(folder, dice, names_of("site"),
                {{"submit", "job.toml", "--dry-run", "--submit.answers=site"},
                 {"submit", "job.toml", "--dry-run", "--submit.answers=site", "--submit.wait", "--submit.partitions=a100,v100"}});
}

Invocation published_plan(const fs::path& folder, Dice& dice) {
  damage_file(folder / "published.json", dice);
  return one_of(folder, dice, {"published.json", ".: "},
                {{"import", "sailor-plan", "published.json", "--model.name=gpt2-tiny", "--training.global-batch=8"},
                 {"import", "sailor-plan", "published.json", "--profiles=library.json"},
                 {"import", "sailor-profiles", "."},
                 {"simulate", "plan.json", "--measured=published.json"}});
}

/// What other programs measured.
Invocation measurements(const fs::path& folder, Dice& dice) {
  const auto import = dice.one_of<Words>({{"nccl-tests", "nccl.json"}, {"nvbandwidth", "nvbandwidth.json"}, {"osu", "osu.txt"}});
  damage_file(folder / import[1], dice);
  return one_of(folder, dice, {import[1]}, {{"import", import[0], import[1]}, {"import", import[0], import[1], "--hosts=n1,n2"}});
}

Invocation imports(const fs::path& folder, Dice& dice) {
  return dice.chance(0.5) ? published_plan(folder, dice) : measurements(folder, dice);
}

/// A job with several sources and phases, or what it names: conversations, their template, a packed file with documents and a mask. Only
/// an intact job is trained: a damaged one may ask for steps without end.
Invocation mixture(const fs::path& folder, Dice& dice) {
  if (dice.chance(0.3)) {
    damage_file(folder / "mixture.toml", dice);
    return one_of(folder, dice, {"mixture.toml"}, {{"plan", "mixture.toml", "--pool=A100-40=2/2"}});
  }
  static const Words files{"conversations.jsonl", "chat.jinja", "packed.bin", "packed.idx", "packed.mask"};
  damage_file(folder / dice.one_of(files), dice);
  return one_of(folder, dice, files,
                {{"train", "mixture.toml"},
                 {"tokenize", "--tokenizer=tokenizer.json", "--chat-template=chat.jinja", "conversations.jsonl", "-o", "made"}});
}

void write(const fs::path& file, const std::string& text) { std::ofstream{file, std::ios::binary} << text; }

std::string content(const fs::path& file) {
  std::ostringstream all;
  all << std::ifstream{file, std::ios::binary}.rdbuf();
  return all.str();
}

/// A template that is understood; damaged ones belong to `mixture`.
Invocation chat_template(const fs::path& folder, Dice& dice) {
  write(folder / "chat.jinja", hostile_template(dice));
  const auto all = content(folder / "conversations.jsonl");
  write(folder / "conversations.jsonl", all.substr(0, all.rfind('\n', 400) + 1));
  return one_of(
      folder, dice, {"chat.jinja"},
      {{"tokenize", "--tokenizer=tokenizer.json", "--chat-template=chat.jinja", "--threads=1", "conversations.jsonl", "-o", "made"}});
}

/// Patterns and normalizers that are understood; damaged ones belong to `tokenizer`.
Invocation patterns(const fs::path& folder, Dice& dice) {
  write(folder / "tokenizer.json", hostile_tokenizer(content(folder / "tokenizer.json"), dice));
  write(folder / "words.txt", hostile_text(dice));
  return one_of(folder, dice, {"tokenizer.json", "words.txt"},
                {{"tokenize", "--tokenizer=tokenizer.json", "--threads=1", "words.txt", "-o", "made"}});
}

Invocation checksums(const fs::path& folder, Dice& dice) {
  const auto file = folder / "run/step-4/manifest.json", state = folder / "run/step-4/state.h5";
  if (dice.chance(0.5)) {
    write(file, hostile_manifest(content(file), dice));
  } else {
    auto bytes = content(state);
    write(file, sign_damaged_structure(content(file), bytes, dice));
    write(state, bytes);
  }
  return one_of(folder, dice, {"manifest.json", "state.h5"},
                {{"inspect", "run"}, {"inspect", "run/step-4"}, {"inspect", "--verify", "run/step-4"}, {"report", "run"}});
}

/// What a job script reads of a run, by the functions that read it.
Invocation job_script(const fs::path& folder, Dice& dice) {
  fs::create_directories(folder / "run");
  if (dice.chance(0.9)) write(folder / "run/launches", hostile_counts(dice));
  if (dice.chance(0.9)) write(folder / "run/outcome.json", hostile_outcome(dice));
  if (dice.chance(0.2)) damage_entry_below(folder / "run", dice);
  return {{"job-script"}, {}, folder, {}};
}

/// Damages the header of a safetensors file as text; most of the time its length is told as it is then.
void damage_header(const fs::path& file, Dice& dice) {
  const std::string bytes = content(file);
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof length);
  const auto header = damaged_bytes(bytes.substr(sizeof length, length), dice);
  const auto data = bytes.substr(sizeof length + length);
  if (dice.chance(0.9)) length = header.size();
  std::ofstream out{file, std::ios::binary};
  out.write(reinterpret_cast<const char*>(&length), sizeof length);
  out << header << data;
}

/// A Hugging Face model, or a model file of llm.c.
Invocation weights(const fs::path& folder, Dice& dice) {
  if (dice.chance(0.3)) {
    damage_file(folder / "llmc.bin", dice);
    return one_of(folder, dice, {"llmc.bin"}, {{"import", "llmc", "llmc.bin", "-o", "made"}});
  }
  static const Words shards{"model/model-00001-of-00003.safetensors", "model/model-00002-of-00003.safetensors"};
  if (dice.chance(0.6))
    damage_header(folder / dice.one_of(shards), dice);
  else
    damage_entry_below(folder / "model", dice);
  return one_of(folder, dice, {"model"}, {{"import", "hf", "model"}, {"weights", "model"}});
}

/// Commands that read what they are given and end; `train`, `probe`, `bench` and `doctor` measure the machine or start others' programs.
std::vector<app::Command> quick_commands() {
  auto all = app::command_table();
  std::erase_if(all,
                [](const app::Command& c) { return c.name == "train" || c.name == "probe" || c.name == "bench" || c.name == "doctor"; });
  return all;
}

std::string option_value(const options::Setting& option, Dice& dice) {
  if (!option.choices.empty() && dice.chance(0.5)) return dice.one_of(option.choices);
  if (dice.chance(0.4)) return option.default_value;
  return awkward_value(dice);
}

/// `--name=value`, at times misspelt, without a value, or with the value in a word of its own.
void append_option(const options::Setting& option, Dice& dice, Words& words) {
  auto name = option.alias.empty() || dice.chance(0.5) ? option.name : option.alias;
  if (dice.chance(0.05)) name = damaged_bytes(name, dice);
  if (option.flag && dice.chance(0.8)) return words.push_back("--" + name);
  if (dice.chance(0.05)) return words.push_back("--" + name);
  words.push_back("--" + name + "=" + option_value(option, dice));
}

/// The files that options write lie in the folder: no value starts with a slash. What would wait is told not to.
Invocation command_line(const fs::path& folder, Dice& dice) {
  static const auto commands = quick_commands();
  static const Words operands{"job.toml", "plan.json",      "run",         "run/step-4", "profile.json",
                              "site",     "published.json", "sailor-plan", "absent",     ""};
  const auto& command = dice.one_of(commands);
  const auto table = command.options();
  const auto options = table.table.settings();
  Words words{command.name};
  for (int count = dice.pick(0, 2); count > 0; --count) words.push_back(dice.one_of(operands));
  for (int count = dice.pick(0, 4); count > 0; --count) append_option(dice.one_of(options), dice, words);
  if (dice.chance(0.1)) words.push_back(awkward_value(dice));
  if (command.name == "control") words.push_back("--wait=0s");
  if (command.name == "submit") words.insert(words.end(), {"--dry-run", "--submit.answers=site"});
  return {words, {}, folder};
}

Invocation environment(const fs::path& folder, Dice& dice) {
  static const Words others{"SLURM_JOB_ID",
                            "SLURM_NTASKS",
                            "SLURM_JOB_NODELIST",
                            "SLURM_HET_SIZE",
                            "SLURM_JOB_END_TIME",
                            "SLURM_RESTART_COUNT",
                            "COLUMNS",
                            "TERM",
                            "LANG",
                            "LC_ALL",
                            "HOME",
                            "OMP_NUM_THREADS",
                            "FLOTILLA_MODEL_NAEM",
                            "FLOTILLA_"};
  static const auto commands = quick_commands();
  auto invocation = one_of(
      folder, dice, {},
      {{"plan", "job.toml"}, {"simulate", "plan.json"}, {"report", "run"}, {"submit", "job.toml", "--dry-run", "--submit.answers=site"}});
  const auto command = std::ranges::find(commands, invocation.arguments.front(), &app::Command::name);
  const auto options = command->options().table.settings();
  for (int count = dice.pick(1, 3); count > 0; --count) {
    const auto name = dice.chance(0.7) ? dice.one_of(options).environment : dice.one_of(others);
    const auto value = awkward_value(dice);
    invocation.environment[name] = value.substr(0, value.find('\0'));  // which no environment can hold
  }
  return invocation;
}

}  // namespace

const std::vector<InputKind>& input_kinds() {
  static const std::vector<InputKind> all{
      {"job", {"job.toml", "site"}, job},
      {"plan", {"plan.json"}, plan},
      {"profile", {"profile.json", "plan.json"}, profile},
      {"library", {"library.json", "published.json"}, library},
      {"config", {"config.json"}, config},
      {"manifest", {"run"}, manifest},
      {"state", {"run"}, state},
      {"tokens", {"tokens"}, tokens},
      {"weights", {"model", "llmc.bin"}, weights},
      {"tokenizer", {"tokenizer.json", "lines.jsonl", "words.txt"}, tokenizer},
      {"mixture",
       {"mixture.toml", "mixture-model.json", "mixture-profile.json", "tokenizer.json", "chat.jinja", "conversations.jsonl", "words.txt",
        "packed.bin", "packed.idx", "packed.mask"},
       mixture},
      {"template", {"tokenizer.json", "chat.jinja", "conversations.jsonl"}, chat_template, 20, 10'000},
      {"patterns", {"tokenizer.json"}, patterns, 20, 10'000},
      {"checksums", {"run"}, checksums, 100, 10'000},
      {"job-script", {}, job_script, 40, 10'000},
      {"run-directory", {"run", "plan.json"}, run_directory},
      {"site", {"site", "job.toml"}, site},
      {"imports", {"published.json", "library.json", "plan.json", "nccl.json", "nvbandwidth.json", "osu.txt"}, imports},
      {"command-line", {"job.toml", "plan.json", "profile.json", "run", "site", "published.json"}, command_line},
      {"environment", {"job.toml", "plan.json", "run", "site"}, environment}};
  return all;
}

}  // namespace flotilla::fuzz
