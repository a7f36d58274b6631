#include "flotilla/slurm/script.hpp"

#include <gtest/gtest.h>

#include <cstdlib>

#include "flotilla/base/error.hpp"
#include "flotilla/slurm/run_program.hpp"

namespace flotilla::slurm {
namespace {

Script small() {
  Script s;
  s.name = "flotilla-run";
  s.components = {{"a100", 1, 4, 4, 8, "gpu:a100:4", "", {"cuda/12"}, true}, {"cpu", 1, 2, 1, 1, "", "rome", {}, false}};
  s.log = "flotilla-%j.log";
  s.folder = "/home/u";
  s.library = "/opt/flotilla.sh";
  s.program = "/opt/flotilla";
  s.arguments = {"train", "job.toml"};
  s.run_directory = "run";
  return s;
}

// A shell reads back what was quoted, byte for byte.
TEST(ShellWord, RoundTripsThroughBash) {
  const std::vector<std::string> words{"",     "plain",  "a b",  "it's",        "\"",       "$(touch x)", "`touch x`", "a\nb",
                                       "; rm", "\\",     "*",    "~",           "#x",       "!!",         "${HOME}",   "-n",
                                       "\t",   "'\\''x", "&& y", "caf\xc3\xa9", "\x01\x7f", "a=b",        "$'x'",      "\xff"};
  std::string command = "printf '%s\\0'";
  for (const auto& word : words) command += " " + shell_word(word);
  const auto output = run_program({"bash", "-c", command});
  ASSERT_TRUE(output.good()) << output.err;
  std::string expected;
  for (const auto& word : words) expected += word + '\0';
  EXPECT_EQ(output.out, expected);
  for (const auto& word : words) EXPECT_EQ(shell_word(word).find('\n'), std::string::npos) << word;
  EXPECT_THROW(shell_word(std::string("a\0b", 3)), Error);
}

TEST(Script, OnePartitionIsAPlainJob) {
  auto s = small();
  s.components.pop_back();
  const auto text = script_text(s);
  EXPECT_EQ(text.find("hetjob"), text.npos);
  EXPECT_NE(text.find("#SBATCH --no-kill\n"), text.npos);
  EXPECT_NE(text.find("module load cuda/12 ||"), text.npos) << text;
}

TEST(Script, ComponentsOfAHeterogeneousJob) {
  const auto text = script_text(small());
  EXPECT_EQ(text.find("--no-kill"), text.npos);
  EXPECT_NE(text.find("#SBATCH --nodes=1-4\n"), text.npos) << text;
  EXPECT_NE(text.find("#SBATCH hetjob\n#SBATCH --partition=cpu\n#SBATCH --nodes=2\n"), text.npos) << text;
  EXPECT_NE(text.find("FLOTILLA_SETUP_0='module load cuda/12'\n"), text.npos) << text;
  EXPECT_NE(text.find("FLOTILLA_TASKS_1=1\n"), text.npos) << text;
}

TEST(Script, DirectivesTakePlainWordsAlone) {
  for (const std::string evil : {"a b", "a;b", "$(x)", "a\n#SBATCH --x", "'", "\"", "-x", "a#b", "a\\b", "\xc3", "\u202e", "`x`"}) {
    auto s = small();
    s.components[0].partition = evil;
    EXPECT_THROW(script_text(s), Error) << evil;
    s = small();
    s.components[1].constraint = evil;
    EXPECT_THROW(script_text(s), Error) << evil;
    s = small();
    s.log = evil;
    EXPECT_THROW(script_text(s), Error) << evil;
    s = small();
    s.name = evil;
    s.remarks = {evil};
    const auto text = script_text(s);
    EXPECT_EQ(text.find("\n#SBATCH --x"), text.npos) << text;
  }
}

TEST(RunProgram, UsersSettingsChangeNoAnswer) {
  for (const char* name : {"SLURM_TIME_FORMAT", "SLURM_CLUSTERS", "SINFO_FORMAT", "SQUEUE_SORT", "SCONTROL_FUTURE", "SACCTMGR_X",
                           "SLURM_CONF", "SLURM_JWT", "OTHER"})
    ::setenv(name, "users", 1);
  const auto said = [](const std::string& name) { return run_program({"bash", "-c", "printf %s \"${" + name + "-unset}\""}).out; };
  EXPECT_EQ(said("SLURM_TIME_FORMAT"), "standard");
  for (const char* name : {"SLURM_CLUSTERS", "SINFO_FORMAT", "SQUEUE_SORT", "SCONTROL_FUTURE", "SACCTMGR_X"})
    EXPECT_EQ(said(name), "unset") << name;
  for (const char* name : {"SLURM_CONF", "SLURM_JWT", "OTHER"}) EXPECT_EQ(said(name), "users") << name;
}

TEST(RunProgram, GivesWordsAndExitCode) {
  EXPECT_EQ(run_program({"bash", "-c", "echo \"$1\"; echo err >&2; exit 3", "x", "$(echo no)"}).out, "$(echo no)\n");
  EXPECT_EQ(run_program({"bash", "-c", "exit 3"}).status, 3);
  EXPECT_THROW(answer_of({"bash", "-c", "echo why >&2; exit 3"}), Error);
  EXPECT_THROW(run_program({"no-such-program-here"}), Error);
  EXPECT_THROW(run_program({"sleep", "30"}, Seconds{0.05}), Error);
  EXPECT_THROW(run_program({"bash", "-c", "exec >&- 2>&-; exec sleep 3600"}, Seconds{0.05}), Error) << "it says nothing more and lives on";
}

}  // namespace
}  // namespace flotilla::slurm
