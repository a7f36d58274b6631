#include <algorithm>

#include "app/common/commands.hpp"
#include "app/common/job.hpp"
#include "support/temporary_folder.hpp"

/// Documents and examples say what the table says.
namespace flotilla::app {
namespace {

using tests::content;

const std::filesystem::path source{FLOTILLA_SOURCE};

TEST(JobDocument, HasTheTablesOfTheProgram) {
  Job job;
  const auto expected = options::to_markdown(job_table(job));
  const auto page = content(source / "docs/formats/job.md");
  const auto begin = page.find("## [model]");
  ASSERT_NE(begin, std::string::npos);
  const std::string end_mark = "<!-- end of the tables -->";
  const auto end = page.find(end_mark);
  ASSERT_NE(end, std::string::npos);
  EXPECT_EQ(page.substr(begin, end - begin), expected) << "docs/formats/job.md is not what the options table says; the expected tables:\n"
                                                       << expected;
}

TEST(CommandsDocument, NamesEveryExitCode) {
  const auto page = content(source / "docs/commands.md");
  for (const auto& [code, meaning] : exit_codes()) EXPECT_NE(page.find("| " + code + " | " + meaning + " |"), std::string::npos) << code;
}

TEST(Examples, AreJobsThatNeedNoMoreThanData) {
  int found = 0;
  for (const auto& entry : std::filesystem::directory_iterator{source / "examples"}) {
    if (entry.path().extension() != ".toml") continue;
    ++found;
    EXPECT_NO_THROW(read_job(std::vector<std::string>{entry.path().string(), "--data.train", "text.txt"}, std::vector<std::string>{}))
        << entry.path();
  }
  EXPECT_GE(found, 2);
}

}  // namespace
}  // namespace flotilla::app
