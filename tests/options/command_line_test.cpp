#include "fixture.hpp"

namespace flotilla::options {
namespace {

using Arguments = std::vector<std::string>;

TEST(CommandLine, FillsEveryType) {
  Fields f;
  auto t = table_of(f);
  const Arguments operands = t.read_command_line(Arguments{"--training.steps",
                                                           "12",
                                                           "job.toml",
                                                           "--training.seed=-3",
                                                           "--training.learning-rate",
                                                           "1e-3",
                                                           "--model.dropout",
                                                           "0.1",
                                                           "--replan",
                                                           "--model.name",
                                                           "opt-tiny",
                                                           "--plan",
                                                           "p.json",
                                                           "--data.train",
                                                           "a,b.txt",
                                                           "--data.train",
                                                           "c.txt",
                                                           "--plan.cuts",
                                                           "0,3,6",
                                                           "--device.memory",
                                                           "1.5GiB",
                                                           "--device.deadline",
                                                           "2min",
                                                           "--device.link",
                                                           "1GB/s",
                                                           "--device.colour",
                                                           "green"});
  EXPECT_EQ(operands, Arguments{"job.toml"});
  EXPECT_EQ(f.steps, 12);
  EXPECT_EQ(f.seed, -3);
  EXPECT_EQ(f.rate, 1e-3);
  EXPECT_EQ(f.dropout, 0.1);
  EXPECT_TRUE(f.replan);
  EXPECT_EQ(f.name, "opt-tiny");
  EXPECT_EQ(f.file, "p.json");
  EXPECT_EQ(f.train, (Arguments{"a,b.txt", "c.txt"}));
  EXPECT_EQ(f.cuts, (std::vector<int>{0, 3, 6}));
  EXPECT_EQ(f.memory, Bytes{3ll << 29});
  EXPECT_EQ(f.deadline, Seconds{120});
  EXPECT_EQ(f.limit, BytesPerSecond{1e9});
  EXPECT_EQ(f.colour, Colour::green);
  EXPECT_EQ(t.describe("training.steps").source, "command line");
  EXPECT_EQ(t.describe("training.global-batch").source, "default");
}

TEST(CommandLine, FlagTakesItsValueOnlyWithEquals) {
  Fields f;
  f.replan = true;
  auto t = table_of(f);
  EXPECT_EQ(t.read_command_line(Arguments{"--plan.replan=false", "false"}), Arguments{"false"});
  EXPECT_FALSE(f.replan);
  EXPECT_EQ(t.read_command_line(Arguments{"--replan", "job.toml"}), Arguments{"job.toml"});
  EXPECT_TRUE(f.replan);
}

TEST(CommandLine, LetterAliasAndSeparator) {
  Fields f;
  auto t = table_of(f);
  EXPECT_EQ(t.read_command_line(Arguments{"-p", "x.json", "--", "--training.steps", "-p"}), (Arguments{"--training.steps", "-p"}));
  EXPECT_EQ(f.file, "x.json");
  EXPECT_EQ(f.steps, 100);
}

TEST(CommandLine, UnknownOptionNamesTheNearest) {
  const auto error = command_line_error({"--trainin.steps", "5"});
  EXPECT_EQ(error.kind(), ErrorKind::usage);
  EXPECT_STREQ(error.what(), "unknown option '--trainin.steps'; did you mean '--training.steps'?; --help lists them all");
  EXPECT_STREQ(command_line_error({"--zzzzzzzzzz"}).what(), "unknown option '--zzzzzzzzzz'; --help lists them all");
  EXPECT_STREQ(command_line_error({"-x"}).what(), "unknown option '-x'; --help lists them all");
}

TEST(CommandLine, WordsOfOtherTrainersLeadToOurs) {
  for (const auto& [theirs, ours] : std::vector<std::pair<std::string, std::string>>{{"--lr", "--training.learning-rate"},
                                                                                     {"--batch-size=8", "--training.global-batch"},
                                                                                     {"--training.batch_size", "--training.global-batch"},
                                                                                     {"--max-steps", "--training.steps"},
                                                                                     {"--steps=8", "--training.steps"},
                                                                                     {"--model.steps", "--training.steps"}})
    EXPECT_NE(std::string{command_line_error({theirs, "1"}).what()}.find("did you mean '" + ours + "'?"), std::string::npos) << theirs;
  EXPECT_EQ(std::string{command_line_error({"--bf16"}).what()}.find("precision"), std::string::npos) << "this table has no such option";
}

TEST(CommandLine, AbbreviationsAreRefused) { EXPECT_EQ(command_line_error({"--training.step", "5"}).kind(), ErrorKind::usage); }

TEST(CommandLine, WrongValueSaysWhatWasExpectedAndALineToWrite) {
  EXPECT_STREQ(command_line_error({"--training.steps", "ten"}).what(),
               "--training.steps: expected an integer of at least 1, got 'ten'; write for example --training.steps 100");
  EXPECT_STREQ(command_line_error({"--training.steps", "0"}).what(),
               "--training.steps: expected an integer of at least 1, got '0'; write for example --training.steps 100");
  EXPECT_STREQ(
      command_line_error({"--training.steps=99999999999"}).what(),
      "--training.steps: '99999999999' is beyond 2147483647; expected an integer of at least 1; write for example --training.steps 100");
  EXPECT_STREQ(
      command_line_error({"--training.learning-rate", "1"}).what(),
      "--training.learning-rate: expected a number above 0 and below 1, got '1'; write for example --training.learning-rate 0.0006");
  EXPECT_STREQ(command_line_error({"--device.colour", "gren"}).what(),
               "--device.colour: expected one of red, green, got 'gren'; write --device.colour green");
}

TEST(CommandLine, BareQuantityIsRefusedWithTheLineToWrite) {
  EXPECT_STREQ(command_line_error({"--device.memory", "4"}).what(),
               "--device.memory: '4' has no unit; expected a size with its unit (B, kB, MB, GB, TB, KiB, MiB, GiB, TiB); write "
               "--device.memory 4GiB");
  const std::string deadline = command_line_error({"--device.deadline", "30"}).what();
  EXPECT_NE(deadline.find("write --device.deadline 30s"), std::string::npos) << deadline;
}

TEST(CommandLine, ZeroDurationIsBelowItsLimit) {
  const std::string message = command_line_error({"--device.deadline", "0s"}).what();
  EXPECT_NE(message.find("above 0s, got '0s'"), std::string::npos) << message;
}

TEST(CommandLine, MissingValue) {
  EXPECT_STREQ(command_line_error({"--training.steps"}).what(),
               "--training.steps: needs a value: an integer of at least 1; write for example --training.steps 100");
  EXPECT_EQ(command_line_error({"--training.steps", "--training.seed", "1"}).kind(), ErrorKind::usage);
  EXPECT_STREQ(command_line_error({"--training.steps=", "1"}).what(),
               "--training.steps: needs a value: an integer of at least 1; write for example --training.steps 100");
}

TEST(CommandLine, OfAnOptionThatIsRepeatedTheLastCounts) {
  Fields f;
  auto t = table_of(f);
  ::testing::internal::CaptureStderr();
  t.read_command_line(
      Arguments{"--training.steps", "1", "--plan", "a", "--training.steps=2", "--plan.file", "b", "--replan", "--plan.replan=false"});
  EXPECT_EQ(f.steps, 2);
  EXPECT_EQ(f.file, "b");
  EXPECT_FALSE(f.replan);
  const auto lines = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(lines.find("--training.steps is given 2 times ('1, 2'); the last one counts\n"), std::string::npos) << lines;
  EXPECT_NE(lines.find("--plan.file is given 2 times ('a, b')"), std::string::npos) << lines;
}

TEST(CommandLine, OneProcessOfALauncherSpeaks) {
  ASSERT_EQ(::setenv("OMPI_COMM_WORLD_RANK", "1", 1), 0);
  EXPECT_FALSE(is_first_process());
  ASSERT_EQ(::setenv("OMPI_COMM_WORLD_RANK", "0", 1), 0);
  EXPECT_TRUE(is_first_process());
  ::unsetenv("OMPI_COMM_WORLD_RANK");
}

TEST(CommandLine, AWrongValueLeavesTheFieldsAlone) {
  Fields f;
  auto t = table_of(f);
  error_of([&] { t.read_command_line(Arguments{"--plan.cuts", "1,x"}); });
  EXPECT_TRUE(f.cuts.empty());
  EXPECT_FALSE(t.is_set("plan.cuts"));
}

TEST(Table, DescribeRefusesAnUnknownName) {
  Fields f;
  const auto t = table_of(f);
  EXPECT_STREQ(error_of([&] { t.describe("training.stesp"); }).what(), "no such option: 'training.stesp'; did you mean 'training.steps'?");
}

}  // namespace
}  // namespace flotilla::options
