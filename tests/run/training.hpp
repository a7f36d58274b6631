#pragma once
#include <algorithm>
#include <array>
#include <random>
#include <set>

#include "flotilla/checkpoint/checkpoint.hpp"
#include "flotilla/files/plan_file.hpp"
#include "flotilla/files/text_file.hpp"
#include "flotilla/journal/metrics.hpp"
#include "flotilla/model/config.hpp"
#include "run/process.hpp"

/// `flotilla train` as a user starts it, on a model so small that a step takes milliseconds.
namespace flotilla::tests {

using Words = std::vector<std::string>;
namespace fs = std::filesystem;

inline Words operator+(Words a, const Words& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

/// On a disk, which the nodes of a cluster share, and which has room for the checkpoints of real models.
inline const fs::path& folder() {
  static const TemporaryFolder one{fs::temp_directory_path()};
  return one.path();
}

inline fs::path write(const fs::path& file, const std::string& text) {
  std::ofstream{file, std::ios::binary} << text;
  return file;
}

/// Words of a small vocabulary, some much more often than others. Letters that say nothing of the next one will not do where losses are
/// compared over hundreds of steps: the model learns to pass over its input, its layer norms then divide by next to nothing, and sums in
/// another order show as 1e-4 to 3e-3 of the loss where batches differ by 7e-3 (of words, over 1,500 steps: 3e-7; batches by 5e-2).
inline std::string random_text(unsigned seed, std::size_t bytes) {
  std::mt19937 random{seed};
  std::array<std::string, 300> vocabulary;
  for (auto& word : vocabulary)
    for (auto letters = 2 + random() % 6; letters > 0; --letters) word += static_cast<char>('a' + std::min(random() % 26, random() % 26));
  std::string out;
  while (out.size() < bytes) {
    const auto often = std::min({random() % vocabulary.size(), random() % vocabulary.size(), random() % vocabulary.size()});
    out += vocabulary[often] + ' ';
  }
  out.resize(bytes);
  return out;
}

inline const fs::path& text_file() {
  static const fs::path file = write(folder() / "text.txt", random_text(7, 50000));
  return file;
}

/// Where there are stand-ins for GPUs (tests/standin), which compute for seconds where a CPU does for milliseconds, sequences are short.
inline const int length = std::getenv("FLOTILLA_STANDIN_KERNELS") == nullptr ? 32 : 8;
constexpr int global_batch = 8;

inline fs::path plan_file(int data, int pipeline, int tensor, int microbatch = 2) {
  const auto file = folder() / text("plan-", data, "-", pipeline, "-", tensor, ".json");
  files::write_plan(
      file, plan::even_plan(model::built_in("gpt2-tiny"), length, global_batch, Precision::fp32, data, pipeline, tensor, microbatch));
  return file;
}

/// mpirun and its flags, N ranks, no program yet.
inline Words mpirun() {
  std::istringstream flags{FLOTILLA_MPIRUN};
  Words words;
  for (std::string word; flags >> word;) words.push_back(word);
  return words;
}
inline Words mpirun(int ranks) { return mpirun() + Words{"-n", std::to_string(ranks)}; }

/// FLOTILLA_TEST_DEVICE=gpu: the suites that start runs do so on GPUs, which two ranks share where there are too few.
inline bool on_gpus() {
  const char* const device = std::getenv("FLOTILLA_TEST_DEVICE");
  return device != nullptr && std::string{device} == "gpu";
}
/// Steps, or blows: a stand-in for a GPU takes a hundred times as long as a CPU.
inline int fewer_on_gpus(int on_cpus, int on_gpus_) { return on_gpus() ? on_gpus_ : on_cpus; }

/// Options of a run that is quick to start. One profile for each number of ranks serves a whole test program. Nobody is missed however slow
/// the machine is; where a rank falls silent on purpose, `with` sets other deadlines.
inline Words options(const fs::path& run, int ranks) {
  const Words device = on_gpus() ? Words{"--device=gpu", "--training.precision=fp32"} : Words{};  // as on CPUs
  return Words{"--model.name=gpt2-tiny",
               text("--training.length=", length),
               text("--training.global-batch=", global_batch),
               "--data.train=" + text_file().string(),
               "--data.format=text",
               "--run.directory=" + run.string(),
               "--run.threads=1",
               "--probe.budget=500ms",
               text("--watch.deadline=", hang_bound_option()),
               text("--comm.deadline=", hang_bound_option()),
               text("--probe.file=", (folder() / text("profile-", ranks, ".json")).string())} +
         device;
}

inline Words train(const fs::path& run, int ranks, const Words& more = {}) {
  return mpirun(ranks) + Words{FLOTILLA_BINARY, "train"} + options(run, ranks) + more;
}

inline Ended run(const Words& command, const Words& environment = {}) {
  Process process{command, folder(), environment};
  auto ended = process.wait();
  EXPECT_TRUE(ended.in_time) << "hung\n" << ended.left << ended.out << ended.err;
  EXPECT_TRUE(process.nothing_left()) << ended.err;
  return ended;
}

/// The command with another value of an option (or with the option).
inline Words with(Words command, const std::string& option, const std::string& value) {
  const auto found = std::find_if(command.begin(), command.end(), [&](const auto& word) { return word.rfind(option, 0) == 0; });
  if (found == command.end())
    command.push_back(option + value);
  else
    *found = option + value;
  return command;
}

/// The command with other values of some options, each as --NAME=VALUE.
inline Words with_all(Words command, const Words& others) {
  for (const auto& word : others) {
    const auto value = word.find('=') + 1;
    command = with(command, word.substr(0, value), word.substr(value));
  }
  return command;
}

/// The one line in which all ranks together said what was wrong; a failure of the test when there are more or none.
inline std::string the_error(const Ended& ended) {
  std::istringstream lines{ended.err};
  Words errors;
  for (std::string line; std::getline(lines, line);)
    if (line.find("flotilla: error: ") != std::string::npos) errors.push_back(line);
  EXPECT_EQ(errors.size(), 1u) << ended.err;
  return errors.empty() ? "" : errors[0];
}

/// Steps in the metrics so far, those done twice counted twice; none before the file is there.
inline std::int64_t steps_logged(const fs::path& run) {
  std::ifstream in{run / "metrics.jsonl"};
  std::int64_t count = 0;
  for (std::string line; std::getline(in, line);) count += line.find("\"event\"") == std::string::npos;
  return count;
}

/// Windows of the self-check that rank 0 has judged so far, of a run with --log-level=debug. The first three say how fast sums usually are:
/// a link that is slow from the start is no slower than it was.
inline int windows_judged(const Process& process) {
  const std::string line = "self-check, step ", of_rank = ", rank 0: ";
  const auto said = process.err();
  int count = 0;
  for (auto at = said.find(line); at != std::string::npos; at = said.find(line, at + 1))
    count += said.substr(at, said.find('\n', at) - at).find(of_rank) != std::string::npos;
  return count;
}

/// step -> loss of what counts in the end.
inline std::map<std::int64_t, double> losses(const fs::path& run) {
  std::map<std::int64_t, double> found;
  for (const auto& step : journal::effective_steps(journal::read_metrics(run))) found[step.step] = step.loss;
  return found;
}

/// step -> digest of its sequences, of what counts in the end: every step has one.
inline std::map<std::int64_t, std::string> digests(const fs::path& run) {
  std::map<std::int64_t, std::string> found;
  for (const auto& step : journal::effective_steps(journal::read_metrics(run))) {
    EXPECT_EQ(step.digest.size(), 16u) << "step " << step.step;
    found[step.step] = step.digest;
  }
  return found;
}

inline std::vector<std::int64_t> committed(const fs::path& run) {
  std::vector<std::int64_t> steps;
  for (const auto& step : checkpoint::list(run)) steps.push_back(step.step);
  return steps;
}

/// What an interrupted save or rename may leave: steps without a manifest and files that are neither a checkpoint's nor the journal's. In
/// the order of their names.
inline Words debris(const fs::path& run) {
  static const std::set<std::string> known{"metrics.jsonl", "outcome.json", "manifest.json",         "state.h5",
                                           "mark.json",     "local.json",   "profile-corrected.json"};
  Words found;
  std::error_code none;
  for (const auto& entry : fs::recursive_directory_iterator{run, none}) {
    const auto name = entry.path().filename().string(), parent = entry.path().parent_path().filename().string();
    if (entry.is_directory()) {
      const bool step = name.rfind("step-", 0) == 0 && fs::exists(entry.path() / "manifest.json");
      if (!step && name != "incarnations" && name != "outcomes") found.push_back(entry.path().string());
    } else if (!known.contains(name) && parent != "incarnations" && parent != "outcomes") {
      found.push_back(entry.path().string());
    } else if (name.find(".tmp") != std::string::npos) {
      found.push_back(entry.path().string());
    }
  }
  std::ranges::sort(found);
  return found;
}

/// The same without the outcomes that ranks were still writing when the launcher killed them, as it does once one rank has ended with an
/// error. The next start removes those (`run_directory_test`).
inline Words debris_beside_outcomes(const fs::path& run) {
  auto found = debris(run);
  std::erase_if(found, [](const fs::path& file) {
    return file.parent_path().filename() == "outcomes" && !files::stem_of_unfinished(file.filename().string()).empty();
  });
  return found;
}

/// Sets back the clocks of files that were being written when their process was killed: the next start removes those that are a minute
/// old, younger ones may be somebody's who is still writing.
inline void age_leftovers(const fs::path& run) {
  std::error_code none;
  for (const auto& entry : fs::recursive_directory_iterator{run, none})
    if (const auto end = entry.path().extension(); end == ".tmp" || end == ".own")
      fs::last_write_time(entry.path(), fs::last_write_time(entry.path()) - std::chrono::minutes{2}, none);
}

}  // namespace flotilla::tests
