#include "flotilla/options/documents.hpp"

#include <filesystem>
#include <fstream>
#include <sstream>

#include "fixture.hpp"
#include "support/child.hpp"
#include "support/temporary_folder.hpp"

namespace flotilla::options {
namespace {

std::size_t longest_line(const std::string& text) {
  std::size_t longest = 0;
  std::istringstream in{text};
  for (std::string line; std::getline(in, line);) longest = std::max(longest, line.size());
  return longest;
}

TEST(Help, FitsItsWidthAndNamesEveryOptionWithDefault) {
  Fields f;
  const auto t = table_of(f);
  for (const int width : {80, 96, 100}) {
    const auto text = help(t, width);
    EXPECT_LE(longest_line(text), static_cast<std::size_t>(width)) << text;
    for (const auto& s : t.settings()) EXPECT_NE(text.find("--" + s.name), std::string::npos) << s.name;
  }
  const auto text = help(t, 100);
  EXPECT_NE(text.find("The run [training]"), std::string::npos);
  EXPECT_NE(text.find("iterations to run (default 100)"), std::string::npos);
  EXPECT_NE(text.find("(default 0B: what the machine has)"), std::string::npos);
  EXPECT_NE(text.find("(default: the model's own)"), std::string::npos);
  EXPECT_NE(text.find("-p, --plan, --plan.file FILE"), std::string::npos);
  EXPECT_NE(text.find("red|green"), std::string::npos);
}

TEST(Help, WrapKeepsEveryWord) {
  EXPECT_EQ(wrap("aa bb cc", 2, 5), "aa bb\n  cc");
  EXPECT_EQ(wrap("aaaaaaaaaa b", 0, 4), "aaaaaaaaaa\nb");
  EXPECT_EQ(wrap("", 2, 5), "");
  EXPECT_EQ(wrap("a  b", 0, 9), "a  b");
}

TEST(Help, WrapLeavesAFigureItsUnitAndItsError) {
  EXPECT_EQ(wrap("takes 12.1 GiB; more", 0, 10), "takes\n12.1 GiB;\nmore");
  EXPECT_EQ(wrap("10.1 s +- 12 % of it", 0, 9), "10.1 s\n+- 12 %\nof it");
  EXPECT_EQ(wrap("(3.5 ms), 2 ranks", 0, 7), "(3.5 ms),\n2 ranks") << "longer than the line";
  EXPECT_EQ(wrap("on 2 ranks", 0, 5), "on 2\nranks");
}

TEST(Toml, SaysWhereEachValueCameFrom) {
  Fields f;
  auto t = table_of(f);
  t.read_toml("[training]\nsteps = 3\n", "job.toml");
  t.read_command_line(std::vector<std::string>{"--model.name", "x"});
  const auto text = to_toml(t);
  EXPECT_NE(text.find("steps = 3                               # job.toml:2:9\n"), std::string::npos) << text;
  EXPECT_NE(text.find("name = \"x\""), std::string::npos);
  EXPECT_NE(text.find("# command line\n"), std::string::npos);
  EXPECT_NE(text.find("# dropout is unset"), std::string::npos);
}

TEST(Markdown, HasARowForEveryOption) {
  Fields f;
  const auto t = table_of(f);
  const auto text = to_markdown(t);
  EXPECT_NE(text.find("| `steps` | an integer of at least 1 | `100` | iterations to run |\n"), std::string::npos) << text;
  EXPECT_NE(text.find("| `memory` |"), std::string::npos);
  EXPECT_NE(text.find("`0B` = what the machine has"), std::string::npos);
}

Manual manual(const Table& t) {
  return {"flotilla",
          "1.2.3",
          "trains .things",
          {".starts with a dot", "back\\slash - and dash"},
          {{"train", "train a model", "JOB", &t}, {"help", "say more", "", nullptr}},
          {{"0", "done"}, {"64", "usage"}}};
}

TEST(ManPage, HasSectionsOptionsAndNoAccidentalRequests) {
  Fields f;
  const auto t = table_of(f);
  const auto page = man_page(manual(t));
  for (const char* section : {"NAME", "SYNOPSIS", "DESCRIPTION", "COMMANDS", "OPTIONS", "EXIT STATUS"})
    EXPECT_NE(page.find(std::string{".SH "} + section + "\n"), std::string::npos) << section;
  EXPECT_NE(page.find("\\&.starts with a dot"), std::string::npos);
  EXPECT_NE(page.find("back\\eslash \\- and dash"), std::string::npos);
  EXPECT_NE(page.find("\\fB\\-\\-training.steps\\fR \\fIN\\fR"), std::string::npos);
  std::istringstream in{page};
  for (std::string line; std::getline(in, line);)
    if (line.starts_with(".")) {
      EXPECT_TRUE(line.starts_with(".T") || line.starts_with(".S") || line == ".PP" || line == ".ad l") << line;
    }
}

/// The words that bash offers after the line `words`, the last of which is being typed.
std::string complete(const std::string& script, const std::vector<std::string>& words) {
  const tests::TemporaryFolder folder;
  const auto file = folder / "script";
  std::string line;
  for (const auto& word : words) line += " '" + word + "'";
  std::ofstream{file} << script << "COMP_WORDS=(" << line << ")\nCOMP_CWORD=" << words.size() - 1
                      << "\n_flotilla\necho \"${COMPREPLY[*]}\"\n";
  const auto bash = tests::run_line("bash " + file.string());
  EXPECT_EQ(bash.exit_code, 0) << bash.output;
  return bash.output;
}

TEST(Completion, OffersCommandsOptionsAndChoices) {
  Fields f;
  const auto t = table_of(f);
  const auto script = bash_completion("flotilla", manual(t).commands);
  EXPECT_EQ(complete(script, {"flotilla", "tr"}), "train\n");
  EXPECT_EQ(complete(script, {"flotilla", "train", "--training.s"}), "--training.steps --training.seed\n");
  EXPECT_EQ(complete(script, {"flotilla", "train", "--device.colour", ""}), "red green\n");
  EXPECT_EQ(complete(script, {"flotilla", "train", "--device.colour", "g"}), "green\n");
  EXPECT_EQ(complete(script, {"flotilla", "train", "--training.steps", ""}), "\n");
  EXPECT_EQ(complete(script, {"flotilla", "help", "--t"}), "\n");
}

}  // namespace
}  // namespace flotilla::options
