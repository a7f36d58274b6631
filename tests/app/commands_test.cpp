#include "app/common/commands.hpp"

#include <gtest/gtest.h>

#include "flotilla/base/error.hpp"

namespace flotilla::app {
namespace {

using Words = std::vector<std::string>;

/// A program of two commands; what the first was given, and what was printed.
class Commands : public testing::Test {
 protected:
  Commands() {
    commands_ = {{"train", "train a model", "JOB",
                  [this](std::span<const std::string> a) {
                    given_.assign(a.begin(), a.end());
                    return 75;
                  },
                  job_options},
                 {"fail",
                  "fail in a given way",
                  "",
                  [this](std::span<const std::string>) -> int {
                    action_();
                    return 0;
                  },
                  {}},
                 {"secret", "not listed", "", [](std::span<const std::string>) { return 0; }, {}, true}};
  }

  int run(const Words& arguments) {
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    const int code = run_command(commands_, arguments, [] {
      return std::vector<std::pair<std::string, std::string>>{{"flotilla", "9.8.7"}};
    });
    out_ = testing::internal::GetCapturedStdout();
    err_ = testing::internal::GetCapturedStderr();
    return code;
  }

  std::vector<Command> commands_;
  Words given_;
  std::function<void()> action_;
  std::string out_, err_;
};

TEST_F(Commands, RunsWithTheArgumentsAfterTheNameAndReturnsTheCode) {
  EXPECT_EQ(run({"train", "job.toml", "--x"}), 75);
  EXPECT_EQ(given_, (Words{"job.toml", "--x"}));
  EXPECT_EQ(out_ + err_, "");
}

TEST_F(Commands, NothingAndNonsenseAreUsageErrors) {
  EXPECT_EQ(run({}), 64);
  EXPECT_EQ(out_, "");
  EXPECT_EQ(err_.rfind("usage: flotilla COMMAND", 0), 0u) << err_;
  EXPECT_EQ(run({"trian"}), 64);
  EXPECT_EQ(err_, "flotilla: error: no such command: 'trian'; did you mean 'train'?; flotilla help lists them all\n");
  EXPECT_EQ(run({"--bogus"}), 64);
  EXPECT_EQ(run({"help", "xyz"}), 64);
  EXPECT_EQ(run({"help", "train", "train"}), 64);
}

TEST_F(Commands, HelpGoesToStandardOutput) {
  EXPECT_EQ(run({"help"}), 0);
  EXPECT_NE(out_.find("train JOB"), std::string::npos) << out_;
  EXPECT_EQ(out_.find("secret"), std::string::npos);
  for (const Words& words : {Words{"help", "train"}, {"train", "--help"}, {"train", "job.toml", "-h"}}) {
    EXPECT_EQ(run(words), 0);
    EXPECT_NE(out_.find("--training.global-batch"), std::string::npos);
    EXPECT_TRUE(given_.empty());
    EXPECT_EQ(err_, "");
  }
  EXPECT_EQ(run({"train", "--", "--help"}), 75);
}

TEST_F(Commands, HelpFitsItsWidth) {
  for (const int width : {80, 100}) {
    const auto text = command_help(commands_[0], width);
    for (std::size_t begin = 0; begin < text.size();) {
      const auto end = std::min(text.find('\n', begin), text.size());
      EXPECT_LE(end - begin, static_cast<std::size_t>(width)) << text.substr(begin, end - begin);
      begin = end + 1;
    }
  }
}

/// mpirun adds a paragraph of its own to every failure; ours is said once, and so is what is printed for people.
TEST_F(Commands, OfALaunchersProcessesTheFirstSpeaks) {
  const Words said[] = {{}, {"trian"}, {"help"}, {"train", "--help"}, {"man"}};
  for (const char* rank : {"1", "0"}) {
    ::setenv("OMPI_COMM_WORLD_RANK", rank, 1);
    for (const auto& words : said) {
      EXPECT_EQ(run(words), words.empty() || words[0] == "trian" ? 64 : 0);
      EXPECT_EQ((out_ + err_).empty(), rank == std::string{"1"}) << out_ << err_;
    }
    EXPECT_EQ(run({"--version"}), 0);
    EXPECT_EQ(out_, "flotilla  9.8.7\n") << "nodes may differ";
  }
  ::unsetenv("OMPI_COMM_WORLD_RANK");
}

TEST_F(Commands, VersionManAndCompletion) {
  EXPECT_EQ(run({"--version"}), 0);
  EXPECT_EQ(out_, "flotilla  9.8.7\n");
  EXPECT_EQ(run({"man"}), 0);
  EXPECT_EQ(out_.rfind(".TH FLOTILLA 1", 0), 0u);
  EXPECT_NE(out_.find("training.global\\-batch"), std::string::npos);
  EXPECT_EQ(run({"completion"}), 0);
  EXPECT_NE(out_.find("complete -o filenames -F _flotilla flotilla"), std::string::npos);
}

TEST_F(Commands, EveryFailureIsOneLineAndItsCode) {
  const std::pair<ErrorKind, int> kinds[] = {{ErrorKind::usage, 64},       {ErrorKind::bad_input, 65},    {ErrorKind::no_input, 66},
                                             {ErrorKind::unavailable, 69}, {ErrorKind::temporary, 69},    {ErrorKind::internal, 70},
                                             {ErrorKind::no_plan, 76},     {ErrorKind::communication, 77}};
  for (const auto& [kind, code] : kinds) {
    action_ = [kind = kind] { throw Error{kind, "words"}; };
    EXPECT_EQ(run({"fail"}), code);
    EXPECT_EQ(err_, "flotilla: error: words\n");
  }
  action_ = [] { throw std::bad_alloc{}; };
  EXPECT_EQ(run({"fail"}), 69);
  action_ = [] { throw std::runtime_error{"surprise"}; };
  EXPECT_EQ(run({"fail"}), 70);
  EXPECT_EQ(err_, "flotilla: error: internal error: surprise\n");
  action_ = [] { throw 3; };
  EXPECT_EQ(run({"fail"}), 70);
}

TEST_F(Commands, AHookMaySpeakInstead) {
  std::string heard;
  set_failure_hook([&](ExitCode code, const std::string& line) {
    heard = std::to_string(static_cast<int>(code)) + " " + line;
    return true;
  });
  action_ = [] { throw Error{ErrorKind::communication, "rank 3 is silent"}; };
  EXPECT_EQ(run({"fail"}), 77);
  set_failure_hook({});
  EXPECT_EQ(heard, "77 rank 3 is silent");
  EXPECT_EQ(err_, "");
}

}  // namespace
}  // namespace flotilla::app
