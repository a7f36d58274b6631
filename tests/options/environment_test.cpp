#include "fixture.hpp"

namespace flotilla::options {
namespace {

using Entries = std::vector<std::string>;

Error environment_error(const std::string& entry) {
  Fields f;
  auto t = table_of(f);
  return error_of([&] { t.read_environment(Entries{entry}); });
}

TEST(Environment, ReadsByName) {
  Fields f;
  auto t = table_of(f);
  t.read_environment(
      Entries{"PATH=/bin", "FLOTILLA_TRAINING_GLOBAL_BATCH=32", "FLOTILLA_DATA_TRAIN=a.txt,b.txt", "FLOTILLA_MODEL_NAME=x=y"});
  EXPECT_EQ(f.batch, 32);
  EXPECT_EQ(f.train, (Entries{"a.txt", "b.txt"}));
  EXPECT_EQ(f.name, "x=y");
  EXPECT_EQ(t.describe("training.global-batch").source, "environment");
  EXPECT_EQ(t.describe("training.global-batch").environment, "FLOTILLA_TRAINING_GLOBAL_BATCH");
}

TEST(Environment, PrecedenceDoesNotDependOnTheOrderOfReading) {
  for (const bool command_line_first : {true, false}) {
    Fields f;
    auto t = table_of(f);
    const Entries arguments{"--training.steps", "1"};
    if (command_line_first) t.read_command_line(arguments);
    t.read_environment(Entries{"FLOTILLA_TRAINING_STEPS=2", "FLOTILLA_TRAINING_SEED=2"});
    t.read_toml("[training]\nsteps = 3\nseed = 3\nglobal-batch = 3\n", "job.toml");
    if (!command_line_first) t.read_command_line(arguments);
    EXPECT_EQ(f.steps, 1);
    EXPECT_EQ(f.seed, 2);
    EXPECT_EQ(f.batch, 3);
    EXPECT_EQ(t.describe("training.steps").source, "command line");
    EXPECT_EQ(t.describe("training.seed").source, "environment");
    EXPECT_EQ(t.describe("training.global-batch").source, "job.toml:4:16");
  }
}

TEST(Environment, AnOverriddenValueMustStillBeRight) {
  Fields f;
  auto t = table_of(f);
  t.read_command_line(Entries{"--training.steps", "1"});
  EXPECT_THROW(t.read_environment(Entries{"FLOTILLA_TRAINING_STEPS=many"}), Error);
  EXPECT_THROW(t.read_toml("[training]\nsteps = \"many\"", "job.toml"), Error);
  EXPECT_EQ(f.steps, 1);
}

TEST(Environment, WrongValuesAndNames) {
  EXPECT_EQ(environment_error("FLOTILLA_TRAINING_STEPS=x").kind(), ErrorKind::bad_input);
  EXPECT_STREQ(environment_error("FLOTILLA_TRAINING_STEPS=x").what(),
               "FLOTILLA_TRAINING_STEPS: expected an integer of at least 1, got 'x'; write for example FLOTILLA_TRAINING_STEPS=100");
  EXPECT_STREQ(environment_error("FLOTILLA_DEVICE_DEADLINE=3").what(),
               "FLOTILLA_DEVICE_DEADLINE: '3' has no unit; expected a duration with its unit (ns, us, ms, s, min, h, d) above 0s; write "
               "FLOTILLA_DEVICE_DEADLINE=3s");
  EXPECT_STREQ(environment_error("FLOTILLA_TRAINING_STPES=3").what(),
               "FLOTILLA_TRAINING_STPES: there is no such option; did you mean 'FLOTILLA_TRAINING_STEPS'?");
  EXPECT_EQ(environment_error("FLOTILLA_TRANING_STEPS=3").kind(), ErrorKind::bad_input);
  EXPECT_EQ(environment_error("FLOTILLA_TRAINING_STEPS=").kind(), ErrorKind::bad_input);
  EXPECT_EQ(environment_error("FLOTILLA_TRAINING_STEPS").kind(), ErrorKind::bad_input);
}

TEST(Environment, OthersMayKeepVariablesUnderOurPrefix) {
  Fields f;
  auto t = table_of(f);
  EXPECT_NO_THROW(t.read_environment(Entries{"FLOTILLA_ROOT=/opt/flotilla", "FLOTILLA_VERSION=1"}));
}

TEST(Environment, OptionsOfAnotherCommandArePassedOver) {
  bool flag = false;
  int steps = 0;
  Fields f;
  Table t;
  t.section("training", "The run");
  t.add("training.steps", &steps, "iterations to run");
  t.section("own", "Another command's");
  t.add("own.flag", &flag, "a flag");
  t.pass_over(table_of(f));
  t.read_environment(Entries{"FLOTILLA_TRAINING_STEPS=2", "FLOTILLA_TRAINING_SEED=not looked at"});
  t.read_toml("[training]\nsteps = 3\nseed = 3\n[device]\nmemory = 7\n[own]\nflag = true\n", "job.toml");
  EXPECT_EQ(steps, 2);
  EXPECT_TRUE(flag);
  EXPECT_EQ(t.passed_over(), (Entries{"training.seed", "training.seed", "device.memory"}));
  EXPECT_EQ(error_of([&] { t.read_toml("[training]\nsed = 3\n", "job.toml"); }).kind(), ErrorKind::bad_input);
  EXPECT_EQ(error_of([&] { t.read_toml("[devcie]\nmemory = 3\n", "job.toml"); }).kind(), ErrorKind::bad_input);
  EXPECT_EQ(error_of([&] { t.read_command_line(Entries{"--training.seed", "3"}); }).kind(), ErrorKind::usage);
}

TEST(Environment, ListsThisProcess) {
  bool path = false;
  for (const auto& entry : environment()) path |= entry.starts_with("PATH=");
  EXPECT_TRUE(path);
}

}  // namespace
}  // namespace flotilla::options
